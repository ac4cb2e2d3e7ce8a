"""The safe set: how latents map to joints, and which poses and moves are allowed.

``q = center + scale * z`` in LeRobot units. A pose is in the envelope if every joint is within ``lower`` and ``upper``
and every pair of collision geometries keeps its clearance; a move is allowed if the whole straight joint-space segment
is. Whether a move is allowed doesn't depend on its direction, which keeps a walk that refuses such moves reversible.
"""

import functools
import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .config import data_dir, find_file, load, require
from .errors import ConfigError, nearest
from .joints import JOINTS, UNITS, N
from .scene.clearance import ClearanceConfig, Contact

if TYPE_CHECKING:
    from .scene.clearance import Clearance

__all__ = ["Envelope", "EnvelopeFile", "JointEnvelope", "Refusal", "load_envelope"]


@dataclass(frozen=True)
class Refusal:
    """Why the envelope refuses a pose or a move.

    Attributes:
        cause: For counting: ``limit:<joint>`` or ``contact:<geometry>/<geometry>``.
        message: For the user: what, where, the limit and the mend.
        at: Where on the move, 0 its beginning and 1 its end; 0 for a pose.
    """

    cause: str
    message: str
    at: float = 0.0


@dataclass(frozen=True)
class JointEnvelope:
    """One joint's table in an envelope file, in LeRobot units (degrees; percent for the gripper)."""

    center: float
    scale: float
    lower: float
    upper: float

    def __post_init__(self) -> None:
        for name in ("center", "scale", "lower", "upper"):
            value = getattr(self, name)
            require(bool(np.isfinite(value)), f"{name} is {value}; it must be a finite number")
        require(self.scale > 0.0, f"scale is {self.scale:g}; it must be above 0")
        require(self.lower < self.upper, f"lower is {self.lower:g} and upper {self.upper:g}; lower must be below upper")
        require(
            self.lower <= self.center <= self.upper,
            f"center is {self.center:g}; it must be within its own limits, {self.lower:g} to {self.upper:g}",
        )


@dataclass(frozen=True)
class EnvelopeFile:
    """The schema of an envelope file in ``calibration/``."""

    name: str
    joints: dict[str, JointEnvelope]
    clearance: ClearanceConfig = field(default_factory=ClearanceConfig)

    def __post_init__(self) -> None:
        for name in self.joints:
            require(name in JOINTS, f"joints: unknown joint {name!r}; {nearest(name, JOINTS)}")
        missing = [name for name in JOINTS if name not in self.joints]
        require(not missing, f"joints: no table for {', '.join(missing)}; all six joints need one")

    def envelope(self, source: str) -> "Envelope":
        """The envelope that the file states; ``source`` is what messages call the file."""
        columns = {k: [getattr(self.joints[j], k) for j in JOINTS] for k in ("center", "scale", "lower", "upper")}
        return Envelope(self.name, **columns, clearance=self.clearance, source=source)  # type: ignore[arg-type]


@dataclass(frozen=True, eq=False)
class Envelope:
    """The safe set and the map between latents ``z`` and joints ``q``. Arrays have shape (6,) and are read-only.

    Args:
        name: Short name, kept in the dataset.
        center: ``q`` at ``z = 0``, LeRobot units.
        scale: Units of ``q`` for one of ``z``, above 0.
        lower: Lowest allowed ``q``.
        upper: Highest allowed ``q``.
        clearance: Distances to keep from table, self and keep-out boxes; None checks joint limits alone.
        source: What messages call the place that this envelope comes from.

    Raises:
        ConfigError: A value is not finite, a scale not above 0, or a center outside its own limits.
    """

    name: str
    center: NDArray[np.float64]
    scale: NDArray[np.float64]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    clearance: ClearanceConfig | None = field(default_factory=ClearanceConfig)
    source: str = "the envelope"

    def __post_init__(self) -> None:
        for key in ("center", "scale", "lower", "upper"):
            array = np.array(getattr(self, key), dtype=np.float64)
            require(array.shape == (N,), f"{key} has shape {array.shape}; it must be ({N},)")
            array.setflags(write=False)
            object.__setattr__(self, key, array)
        for i, joint in enumerate(JOINTS):
            try:
                JointEnvelope(*(float(a[i]) for a in (self.center, self.scale, self.lower, self.upper)))
            except ConfigError as e:
                raise ConfigError(f"{self.source}: {joint}: {e}") from e

    def z_to_q(self, z: ArrayLike) -> NDArray[np.float64]:
        """Latents to joints, ``center + scale * z``. Shape (..., 6) to (..., 6), LeRobot units."""
        return self.center + self.scale * np.asarray(z, dtype=np.float64)

    def q_to_z(self, q: ArrayLike) -> NDArray[np.float64]:
        """Joints in LeRobot units to latents; the inverse of :meth:`z_to_q`. Shape (..., 6) to (..., 6)."""
        return (np.asarray(q, dtype=np.float64) - self.center) / self.scale

    def within_limits(self, q: ArrayLike) -> NDArray[np.bool_] | np.bool_:
        """Whether every joint is within its limits (clearance aside). Shape (..., 6) to (...); NaN is not within."""
        q = np.asarray(q, dtype=np.float64)
        return ((q >= self.lower) & (q <= self.upper)).all(axis=-1)

    def contains(self, q: ArrayLike) -> bool:
        """Whether a pose ``q`` (6,) in LeRobot units is within limits and clear."""
        return bool(self.within_limits(q)) and (self.clearance is None or bool(self._clearance.clear(q)))

    def contains_each(self, q: ArrayLike) -> NDArray[np.bool_]:
        """:meth:`contains` for poses ``q`` (..., 6). Shape (...)."""
        q = np.asarray(q, dtype=np.float64)
        inside = np.asarray(self.within_limits(q))
        if self.clearance is not None and inside.any():
            inside = inside.copy()
            inside[inside] = self._clearance.clear(q[inside])
        return inside

    def refusal(self, q: ArrayLike) -> Refusal | None:
        """Why the envelope refuses a pose ``q`` (6,) in LeRobot units, or None if it is inside.

        The joint furthest past its limit in units of its scale comes first, then the pair furthest short of its margin.
        """
        q = np.asarray(q, dtype=np.float64)
        if not self.within_limits(q):
            return self._limit_refusal(q)
        contact = None if self.clearance is None else self._clearance.contact(q)
        return None if contact is None else self._contact_refusal(contact)

    def why_not(self, q: ArrayLike) -> str | None:
        """The message of :meth:`refusal`, or None if the pose ``q`` (6,) is inside."""
        refusal = self.refusal(q)
        return None if refusal is None else refusal.message

    def why_not_segment(self, q0: ArrayLike, q1: ArrayLike) -> Refusal | None:
        """Why the envelope refuses the straight move from ``q0`` to ``q1`` (6,), or None if it allows it.

        Ends are checked as poses; between them see :mod:`so101walk.scene.clearance` for what is guaranteed. The two
        directions of a move are always judged alike.
        """
        for at, q in ((1.0, q1), (0.0, q0)):
            if not self.within_limits(q):
                return self._limit_refusal(np.asarray(q, dtype=np.float64), at)
        contact = None if self.clearance is None else self._clearance.segment_contact(q0, q1)
        return None if contact is None else self._contact_refusal(contact)

    def segment_ok(self, q0: ArrayLike, q1: ArrayLike) -> bool:
        """Whether the straight move between two poses (6,) in LeRobot units is allowed; alike in both directions."""
        return self.why_not_segment(q0, q1) is None

    def to_dict(self) -> dict[str, Any]:
        """What defines the envelope, as plain values for JSON; not where it came from."""
        joints = {
            j: {k: float(getattr(self, k)[i]) for k in ("center", "scale", "lower", "upper")}
            for i, j in enumerate(JOINTS)
        }
        clearance = None
        if self.clearance is not None:
            boxes = [
                {"name": b.name, "center_m": list(b.center_m), "size_m": list(b.size_m)}
                for b in self.clearance.keep_out
            ]
            clearance = {"table_m": self.clearance.table_m, "self_m": self.clearance.self_m, "keep_out": boxes}
        return {"name": self.name, "joints": joints, "clearance": clearance}

    @property
    def digest(self) -> str:
        """SHA-256 of :meth:`to_dict` in canonical JSON, as hex: two envelopes of one digest allow the same moves."""
        return hashlib.sha256(json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":")).encode()).hexdigest()

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k != "_clearance"}

    @functools.cached_property
    def _clearance(self) -> "Clearance":
        from .scene.clearance import Clearance

        assert self.clearance is not None
        return Clearance(self.clearance)

    def _limit_refusal(self, q: NDArray[np.float64], at: float = 0.0) -> Refusal:
        past = np.maximum(self.lower - q, q - self.upper) / self.scale
        worst = int(np.argmax(np.where(np.isnan(past), np.inf, past)))
        joint, unit = JOINTS[worst], UNITS[worst]
        return Refusal(
            f"limit:{joint}",
            f"{joint} asked for {q[worst]:.1f} {unit}; the envelope allows {self.lower[worst]:.1f} to "
            f"{self.upper[worst]:.1f} ({self.source}). Lower its scale or widen the envelope.",
            at,
        )

    def _contact_refusal(self, contact: Contact) -> Refusal:
        gap_mm, margin_mm = 1000 * contact.distance_m, 1000 * contact.margin_m
        how = f"would come within {gap_mm:.1f} mm of" if gap_mm >= 0 else f"would be {-gap_mm:.1f} mm inside"
        return Refusal(
            f"contact:{contact.geom}/{contact.other}",
            f"{contact.geom} {how} {contact.other}; the envelope keeps {margin_mm:.1f} mm ({self.source}). "
            "Lower the scales or move the center away from it.",
            contact.at,
        )


def load_envelope(name_or_path: str | Path) -> Envelope:
    """The envelope that a name (in ``calibration/``) or a path means.

    Raises:
        UsageError: No such file; the nearest names are offered.
        ConfigError: The file states something that can't be.
    """
    path = find_file("calibration", name_or_path)
    shipped = path.parent == data_dir("calibration")
    return load(EnvelopeFile, path).envelope(f"calibration/{path.name}" if shipped else str(path))
