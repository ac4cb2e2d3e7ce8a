"""A user's policy: a Python file with a class ``Policy``, its attributes and answers checked."""

import functools
import hashlib
import inspect
import sys
import traceback
import types
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..envelope import Envelope
from ..errors import ConfigError, So101WalkError, UsageError
from ..joints import N
from .fields import check_frames

__all__ = ["CheckedPolicy", "PythonFile"]

EXAMPLE = "so101walk/policies/policy.py has an example"
PARTS: dict[str, tuple[type | None, str]] = {
    "name": (str, "a text"),
    "frames_per_step": (int, "a whole number"),
    "settle_frames": (int, "a whole number"),
    "start": (None, "a method"),
    "propose": (None, "a method"),
}
"""What a policy must have, and what each part must be; None stands for a method."""


@dataclass(frozen=True)
class PythonFile:
    """A policy file as it was read, with the arguments of its ``Policy(...)``. Can be pickled: it carries the source.

    Args:
        path: Where it was read from; for messages.
        source: Its text.
        arguments: Keyword arguments for ``Policy``, as pairs.
    """

    path: Path
    source: str
    arguments: tuple[tuple[str, Any], ...] = ()

    @classmethod
    def read(cls, path: Path, arguments: dict[str, Any]) -> "PythonFile":
        """Read the file and see that ``Policy`` takes the arguments.

        Raises:
            UsageError: There is no such file, or ``Policy`` takes no such argument.
            ConfigError: It can't be run, or has no class ``Policy``.
        """
        try:
            file = cls(path, path.read_text(), tuple(sorted(arguments.items())))
        except (OSError, UnicodeDecodeError) as e:
            raise UsageError(f"policy file {path} can't be read: {e.strerror if isinstance(e, OSError) else e}") from e
        taken = inspect.signature(_policy_class(path, file.source)).parameters
        for key, value in file.arguments:
            if key not in taken:
                raise UsageError(
                    f"{path}: Policy() takes no {key}, so {key} {value} can't apply; give it an argument {key}"
                )
        return file

    def make(self) -> "CheckedPolicy":
        """A fresh policy for one episode.

        Raises:
            ConfigError: The constructor fails, or what it makes lacks a part.
        """
        cls = _policy_class(self.path, self.source)
        return CheckedPolicy(self.path, _call(self.path, "Policy()", lambda: cls(**dict(self.arguments))))

    def identity(self) -> dict[str, Any]:
        """What defines the policy, as plain values for JSON: the text's SHA-256 and the arguments."""
        policy = self.make()
        return {
            "kind": "python",
            "name": policy.name,
            "file": self.path.name,
            "sha256": hashlib.sha256(self.source.encode()).hexdigest(),
            "arguments": dict(self.arguments),
            "frames_per_step": policy.frames_per_step,
            "settle_frames": policy.settle_frames,
        }


class CheckedPolicy:
    """A user's policy object whose answers are checked: six finite numbers. See :class:`.policy.Policy`.

    Args:
        path: The file, for messages.
        policy: The user's object.

    Raises:
        ConfigError: It lacks a part, or a part is not what it must be.
    """

    def __init__(self, path: Path, policy: Any) -> None:
        for part, (kind, words) in PARTS.items():
            if not hasattr(policy, part):
                raise ConfigError(f"{path}: Policy has no {part!r} ({words}); {EXAMPLE}")
            value = getattr(policy, part)
            fits = callable(value) if kind is None else isinstance(value, kind) and not isinstance(value, bool)
            if not fits:
                raise ConfigError(f"{path}: Policy's {part} is {value!r}; it must be {words}")
        try:
            check_frames(policy.frames_per_step, policy.settle_frames)
        except ConfigError as e:
            raise ConfigError(f"{path}: Policy's {e}") from e
        self._path, self._policy = path, policy
        self.name: str = policy.name
        self.frames_per_step: int = policy.frames_per_step
        self.settle_frames: int = policy.settle_frames

    def start(self, rng: np.random.Generator, envelope: Envelope) -> NDArray[np.float64]:
        """The user's ``start``, checked. Shape (6,).

        Raises:
            ConfigError: It raised, or didn't return six finite numbers.
        """
        return self._waypoint("start", lambda: self._policy.start(rng, envelope))

    def propose(self, z: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
        """The user's ``propose``, checked. Shape (6,).

        Raises:
            ConfigError: It raised, or didn't return six finite numbers.
        """
        return self._waypoint("propose", lambda: self._policy.propose(z.copy(), rng))

    def _waypoint(self, method: str, function: Callable[[], Any]) -> NDArray[np.float64]:
        answer = _call(self._path, method, function)
        try:
            z = np.array(answer, dtype=np.float64)
        except (TypeError, ValueError):
            raise ConfigError(f"{self._path}: {method} returned {answer!r}; it must return {N} numbers") from None
        if z.shape != (N,):
            raise ConfigError(f"{self._path}: {method} returned shape {z.shape}; it must return shape ({N},)")
        if not np.isfinite(z).all():
            raise ConfigError(f"{self._path}: {method} returned {z.tolist()}; every value must be finite")
        return z


@functools.lru_cache(maxsize=8)
def _policy_class(path: Path, source: str) -> type:
    module = types.ModuleType(f"so101walk_policy_{path.stem}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module  # dataclasses look their module up by its name
    _call(path, "running it", lambda: exec(compile(source, str(path), "exec"), module.__dict__))
    cls = getattr(module, "Policy", None)
    if not isinstance(cls, type):
        raise ConfigError(f"{path}: has no class Policy; {EXAMPLE}")
    return cls


def _call[R](path: Path, what: str, function: Callable[[], R]) -> R:
    try:
        return function()
    except So101WalkError:
        raise
    except SyntaxError as e:
        raise ConfigError(f"{path}: not valid Python: {e.msg} (line {e.lineno})") from e
    except Exception as e:
        lines = [frame.lineno for frame in traceback.extract_tb(e.__traceback__) if frame.filename == str(path)]
        at = f" (line {lines[-1]})" if lines else ""
        raise ConfigError(f"{path}: {what} raised {type(e).__name__}: {e}{at}") from e
