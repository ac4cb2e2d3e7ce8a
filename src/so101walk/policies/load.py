"""A policy from a name, a TOML file or a user's Python file; and a fresh policy object for every episode."""

import dataclasses
import importlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from ..config import build, find_file, read_toml
from ..errors import ConfigError, UsageError, nearest
from .policy import Policy
from .python_file import PythonFile

__all__ = ["KINDS", "PolicySpec", "load_policy"]

KINDS: dict[str, tuple[str, str]] = {
    "ou": (".ou", "OUConfig"),
    "gennorm": (".gennorm", "GenNormConfig"),
    "goal": (".goal", "GoalConfig"),
}
"""``kind`` in a policy file, and the module and class that read the rest of it."""


class _Maker(Protocol):
    def make(self) -> Policy: ...


@dataclasses.dataclass(frozen=True)
class PolicySpec:
    """A policy as a file and the command line state it. Can be pickled.

    Attributes:
        name: Short name, kept in the dataset.
        identity: What defines it, as plain values for JSON.
        maker: Gives a fresh policy object.
    """

    name: str
    identity: dict[str, Any]
    maker: _Maker = dataclasses.field(compare=False, repr=False)

    def make(self) -> Policy:
        """A fresh policy object, for one episode."""
        return self.maker.make()

    def to_dict(self) -> dict[str, Any]:
        """What defines the policy, for the dataset and to tell whether a resumed session is the same. No paths."""
        return dict(self.identity)


def load_policy(name_or_path: str | Path, overrides: Mapping[str, Any] | None = None) -> PolicySpec:
    """The policy that a name (in ``policies/``), a TOML file or a Python file with a class ``Policy`` means.

    Args:
        name_or_path: For example ``ou``, ``my_walk.toml`` or ``my_policy.py``.
        overrides: Values that the command line puts in place of the file's, such as ``{"rho": 0.8}``. For a Python file
            they are arguments of ``Policy(...)``. None values are ignored.

    Raises:
        UsageError: No such policy, or it doesn't take an override; says which ones do.
        ConfigError: The file states something that can't be.
    """
    given = {k: v for k, v in (overrides or {}).items() if v is not None}
    path = Path(name_or_path)
    if path.suffix == ".py":
        file = PythonFile.read(path, given)
        identity = file.identity()
        return PolicySpec(identity["name"], identity, file)
    return _from_toml(find_file("policies", name_or_path), given)


def _from_toml(path: Path, overrides: dict[str, Any]) -> PolicySpec:
    table = read_toml(path)
    kind = table.get("kind")
    if kind is None:
        raise ConfigError(f"{path}: key 'kind' is missing; {nearest('', KINDS)}")
    if kind not in KINDS:
        raise ConfigError(f"{path}: kind is {kind!r}; {nearest(str(kind), KINDS)}")
    cls = _config_class(kind)
    for key, value in overrides.items():
        if key not in _keys(kind):
            takers = ", ".join(k for k in KINDS if key in _keys(k)) or "no policy"
            raise UsageError(
                f"{path}: a policy of kind {kind} has no {key}, so {key} {value} can't apply; it does to: {takers}"
            )
    where = " ".join([str(path), *(f"with {k} {v}" for k, v in overrides.items())])
    config: Any = build(cls, {**table, **overrides}, where)
    return PolicySpec(config.name, json.loads(json.dumps(dataclasses.asdict(config))), config)


def _config_class(kind: str) -> type:
    module, name = KINDS[kind]
    cls: type = getattr(importlib.import_module(module, __package__), name)
    return cls


def _keys(kind: str) -> set[str]:
    return {f.name for f in dataclasses.fields(_config_class(kind))}
