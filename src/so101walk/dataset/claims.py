"""What a dataset claims about itself: policy, rho, limits. What isn't stated is None, never guessed."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..joints import FEATURE_NAMES, GRIPPER, JOINTS, N
from .reader import Dataset

__all__ = ["Claims", "read_claims"]

SERVO_SPEED_DEG_S = 360.0
"""No joint of an SO-101 turns faster: an STS3215 without load makes about 50 rpm = 300 deg/s; and a fifth more."""

GRIPPER_PERCENT_PER_DEG = 100.0 / 110.0
"""The gripper's 0-100 covers 110 degrees of the model (``joints.MODEL_RANGE_RAD``)."""

WALKS = ("ou", "gennorm")


@dataclass(frozen=True)
class Claims:
    """What the dataset says was done.

    Attributes:
        ours: So101walk made it.
        kind: Kind of the policy (``ou``, ``goal``, ...), None if not stated.
        rho: Correlation at the step of an ``ou`` or ``gennorm`` policy.
        alpha: Shape of a ``gennorm`` policy's marginals.
        active: Which joints walk, shape (6,).
        lower: Lowest joints the envelope allows, LeRobot units, shape (6,).
        upper: Highest, shape (6,).
        velocity: Speed limit of setpoints, LeRobot units a second, shape (6,).
        max_speed: No joint can be faster than this, shape (6,); known for an SO-100 or SO-101 in LeRobot units.
        simulated: Whether it was simulated.
    """

    ours: bool
    kind: str | None = None
    rho: float | None = None
    alpha: float | None = None
    active: NDArray[np.bool_] | None = None
    lower: NDArray[np.float64] | None = None
    upper: NDArray[np.float64] | None = None
    velocity: NDArray[np.float64] | None = None
    max_speed: NDArray[np.float64] | None = None
    simulated: bool | None = None

    @property
    def is_walk(self) -> bool:
        """Whether it claims to be an isotropic random walk."""
        return self.kind in WALKS


def read_claims(dataset: Dataset) -> Claims:
    """What a dataset claims. Missing or odd entries are left unknown."""
    state = "observation.state"
    is_so101 = state in dataset.features and dataset.names(state) == FEATURE_NAMES
    max_speed = _per_joint(SERVO_SPEED_DEG_S) if is_so101 else None
    meta = dataset.meta
    if meta is None:
        return Claims(ours=False, max_speed=max_speed)
    session: dict[str, Any] = {**meta, **_table(meta, "identity")}
    policy, rig = _table(session, "policy"), _table(session, "rig")
    joints = _table(_table(session, "envelope"), "joints")
    switches = _table(policy, "joints")
    kind = policy.get("kind")
    speed = _number(_table(rig, "limits").get("velocity_deg_s"))
    return Claims(
        ours=True,
        kind=kind if isinstance(kind, str) else None,
        rho=_number(policy.get("rho")) if kind in WALKS else None,
        alpha=_number(policy.get("alpha")) if kind == "gennorm" else None,
        active=np.array([bool(switches.get(j, True)) for j in JOINTS]) if kind in WALKS else None,
        lower=_bound(joints, "lower"),
        upper=_bound(joints, "upper"),
        velocity=None if speed is None else _per_joint(speed),
        max_speed=max_speed,
        simulated=session.get("simulated") if isinstance(session.get("simulated"), bool) else None,
    )


def _table(parent: dict[str, Any], key: str) -> dict[str, Any]:
    value = parent.get(key)
    return value if isinstance(value, dict) else {}


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and np.isfinite(value) else None


def _bound(joints: dict[str, Any], key: str) -> NDArray[np.float64] | None:
    values = [_number(_table(joints, j).get(key)) for j in JOINTS]
    return None if None in values else np.array(values, dtype=np.float64)


def _per_joint(speed_deg_s: float) -> NDArray[np.float64]:
    speed = np.full(N, speed_deg_s)
    speed[GRIPPER] *= GRIPPER_PERCENT_PER_DEG
    return speed
