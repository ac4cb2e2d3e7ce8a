"""The exact discrete Ornstein-Uhlenbeck chain: the walk that the identifiability theorem asks for.

One step is ``z' = rho z + sqrt(1 - rho^2) eta`` with ``eta ~ N(0, I)``. Its stationary law is N(0, I) and consecutive
waypoints have correlation ``rho`` in every direction. With the walk's rule (a proposal outside the envelope keeps the
old state) it is reversible with respect to N(0, I) restricted to the envelope, because the proposal is reversible and
the rule is symmetric in its two ends.
"""

import math
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ..envelope import Envelope
from ..joints import N
from .fields import active_joints, check_frames, check_rho
from .start import draw_inside

__all__ = ["OU", "OUConfig", "ou_step"]


def ou_step(z: NDArray[np.float64], rho: float, rng: np.random.Generator) -> NDArray[np.float64]:
    """One exact step of the chain: ``rho z + sqrt(1 - rho^2) eta``. Shape of ``z`` to the same shape."""
    return rho * z + math.sqrt(1.0 - rho * rho) * rng.standard_normal(z.shape)


class OU:
    """The walk with Gaussian marginals. See :class:`so101walk.policies.policy.Policy`.

    Args:
        rho: Correlation of consecutive waypoints, above 0 and below 1.
        frames_per_step: Dataset frames from one waypoint to the next.
        settle_frames: The last of these, held still.
        active: Which joints walk, shape (6,); the others have z = 0, so they hold their centre. A joint's noise doesn't
            depend on which others are on.
        name: Short name, kept in the dataset.

    Raises:
        ConfigError: A value is out of its limits.
    """

    def __init__(
        self,
        rho: float = 0.9,
        frames_per_step: int = 15,
        settle_frames: int = 3,
        active: NDArray[np.bool_] | None = None,
        name: str = "ou",
    ) -> None:
        check_rho(rho)
        check_frames(frames_per_step, settle_frames)
        self.rho = rho
        self.frames_per_step = frames_per_step
        self.settle_frames = settle_frames
        self.active = np.ones(N, dtype=bool) if active is None else active
        self.name = name

    def start(self, rng: np.random.Generator, envelope: Envelope) -> NDArray[np.float64]:
        """A draw from N(0, I) on the active joints, restricted to the envelope. Shape (6,).

        Raises:
            EnvelopeError: The envelope refuses nearly everything.
        """
        return draw_inside(lambda: np.where(self.active, rng.standard_normal(N), 0.0), envelope)

    def propose(self, z: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
        """One step of the chain from ``z`` (6,). Shape (6,)."""
        return np.where(self.active, ou_step(z, self.rho, rng), 0.0)


@dataclass(frozen=True)
class OUConfig:
    """A policy file of kind ``ou``."""

    kind: Literal["ou"] = "ou"
    name: str = "ou"
    rho: float = 0.9
    frames_per_step: int = 15
    settle_frames: int = 3
    joints: dict[str, bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_rho(self.rho)
        check_frames(self.frames_per_step, self.settle_frames)
        active_joints(self.joints)

    def make(self) -> OU:
        """A fresh policy for one episode."""
        return OU(self.rho, self.frames_per_step, self.settle_frames, active_joints(self.joints), self.name)
