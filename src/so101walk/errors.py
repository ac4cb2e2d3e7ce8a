"""The few kinds of error that reach a user. A message says what, where, the limit and the mend, in one or two lines."""

import difflib
from collections.abc import Iterable

__all__ = [
    "ConfigError",
    "DatasetError",
    "EnvelopeError",
    "HardwareError",
    "SafetyStop",
    "So101WalkError",
    "UsageError",
    "nearest",
]


class So101WalkError(Exception):
    """Anything that so101walk refuses or fails at, told in words for the user. Exit code 1."""

    exit_code = 1


class UsageError(So101WalkError):
    """A wrong option, name or combination: nothing was started. Exit code 2."""

    exit_code = 2


class ConfigError(UsageError):
    """A rig, policy, envelope or recipe file that can't be used: names the file, the key, the value and the limit."""


class EnvelopeError(So101WalkError):
    """A pose or a segment that the safe set doesn't allow."""


class DatasetError(So101WalkError):
    """A dataset that is missing, torn, or not what was asked for."""


class HardwareError(So101WalkError):
    """The arm, its bus or a camera doesn't do what it should."""


class SafetyStop(HardwareError):
    """The arm was stopped to keep it whole; the message names the motor and the likely cause."""


def nearest(name: str, known: Iterable[str]) -> str:
    """A tail for an error about an unknown name: the nearest known ones, or all of them when none is near.

    Args:
        name: What the user wrote.
        known: The valid names.

    Returns:
        For example ``"did you mean 'goal'?"`` or ``"known: gennorm, goal, ou"``.
    """
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=2, cutoff=0.6)
    if close:
        return "did you mean " + " or ".join(repr(c) for c in close) + "?"
    return "known: " + ", ".join(names) if names else "none is known"
