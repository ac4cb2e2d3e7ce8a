"""Checks on the keys that policy files share."""

import math

import numpy as np
from numpy.typing import NDArray

from ..config import require
from ..errors import ConfigError, nearest
from ..joints import JOINTS

__all__ = ["active_joints", "check_frames", "check_rho"]


def check_rho(rho: float) -> None:
    """Raise :class:`ConfigError` unless ``rho`` is strictly between 0 and 1."""
    require(
        math.isfinite(rho) and 0.0 < rho < 1.0,
        f"rho is {rho}; the correlation of consecutive waypoints must be above 0 and below 1",
    )


def check_frames(frames_per_step: int, settle_frames: int) -> None:
    """Raise :class:`ConfigError` unless a step has at least one frame to move in."""
    require(1 <= frames_per_step <= 300, f"frames_per_step is {frames_per_step}; it must be 1 to 300")
    require(
        0 <= settle_frames < frames_per_step,
        f"settle_frames is {settle_frames}; it must be 0 to frames_per_step - 1 ({frames_per_step - 1})",
    )


def active_joints(switches: dict[str, bool]) -> NDArray[np.bool_]:
    """Which joints walk, shape (6,), from a table of joint names to on/off; a joint that isn't named is on.

    Raises:
        ConfigError: A name is unknown (nearest offered), or every joint is off.
    """
    for name in switches:
        if name not in JOINTS:
            raise ConfigError(f"joints: unknown joint {name!r}; {nearest(name, JOINTS)}")
    active = np.array([switches.get(name, True) for name in JOINTS])
    require(bool(active.any()), "joints: every joint is off; at least one must walk")
    active.setflags(write=False)
    return active
