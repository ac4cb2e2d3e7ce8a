"""TOML files to frozen dataclasses, every key checked, and where such files are found.

A dataclass is the schema: field names are the keys, their annotations the types, its ``__post_init__`` the limits.
An unknown key, a wrong type or a value out of range raises :class:`ConfigError` naming the file, the key and the mend.
"""

import dataclasses
import tomllib
import types
import typing
from pathlib import Path
from typing import Any, Literal, Union

from .errors import ConfigError, UsageError, nearest

Kind = Literal["collect", "policies", "calibration", "recipes"]

WORDS: dict[str, str] = {"collect": "rig", "policies": "policy", "calibration": "envelope", "recipes": "recipe"}
"""What a user calls a file of each kind."""

__all__ = ["build", "data_dir", "find_file", "load", "names_in", "read_toml", "require"]


def data_dir(kind: Kind) -> Path:
    """The folder of files that ship with so101walk: inside the wheel, or at the root of a checkout."""
    here = Path(__file__).resolve().parent
    shipped = here / "shipped" / kind
    return shipped if shipped.is_dir() else here.parents[1] / kind


def names_in(kind: Kind, suffix: str = ".toml") -> list[str]:
    """Names (without suffix) of the files of a kind: those in the working folder's ``<kind>/`` and the shipped ones."""
    folders = (Path(kind), data_dir(kind))
    return sorted({p.stem for folder in folders if folder.is_dir() for p in folder.glob(f"*{suffix}")})


def find_file(kind: Kind, name_or_path: str | Path) -> Path:
    """The file that a user means by a name or a path; a path wins over a name.

    A name is looked for in the working folder's ``<kind>/`` first, then among the files that ship with so101walk.

    Raises:
        UsageError: There is no such file; the nearest names are offered.
    """
    text = str(name_or_path)
    path = Path(text)
    if path.is_file():
        return path
    if "/" not in text and path.suffix in ("", ".toml"):
        for folder in (Path(kind), data_dir(kind)):
            candidate = folder / f"{path.stem}.toml"
            if candidate.is_file():
                return candidate
    word = WORDS[kind]
    if "/" in text or path.suffix:
        raise UsageError(
            f"{word} file {text} does not exist; give a path, or a name ({nearest(path.stem, names_in(kind))})"
        )
    raise UsageError(f"unknown {word} {text!r}; {nearest(text, names_in(kind))}")


def read_toml(path: Path) -> dict[str, Any]:
    """Parse one TOML file.

    Raises:
        ConfigError: It can't be read or isn't TOML; the message has the line.
    """
    try:
        with path.open("rb") as f:
            return tomllib.load(f)
    except (OSError, UnicodeDecodeError) as e:
        raise ConfigError(f"{path}: can't be read ({e})") from e
    except tomllib.TOMLDecodeError as e:
        raise ConfigError(f"{path}: not valid TOML: {e}") from e


def load[T](cls: type[T], path: Path) -> T:
    """Read a TOML file into the frozen dataclass ``cls``.

    Raises:
        ConfigError: A key is unknown (nearest names offered), missing, of the wrong type, or out of its limits.
    """
    return build(cls, read_toml(path), str(path))


def build[T](cls: type[T], table: dict[str, Any], where: str) -> T:
    """A frozen dataclass from a parsed table; ``where`` (file and key so far) leads every message. See :func:`load`."""
    hints = typing.get_type_hints(cls)
    fields = {f.name: f for f in dataclasses.fields(cls) if f.init}  # type: ignore[arg-type]
    for key in table:
        if key not in fields:
            raise ConfigError(f"{where}: unknown key {key!r}; {nearest(key, fields)}")
    values: dict[str, Any] = {}
    for name, f in fields.items():
        if name in table:
            values[name] = _convert(hints[name], table[name], f"{where}: {name}")
        elif f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING:
            raise ConfigError(f"{where}: key {name!r} is missing")
    try:
        return cls(**values)
    except ConfigError as e:
        raise ConfigError(f"{where}: {e}") from e


def require(ok: bool, message: str) -> None:
    """Raise :class:`ConfigError` with ``message`` unless ``ok``; for ``__post_init__`` of configuration classes."""
    if not ok:
        raise ConfigError(message)


def _convert(hint: Any, value: Any, where: str) -> Any:
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (Union, types.UnionType):
        return _convert_union(args, value, where)
    if origin is Literal:
        if value not in args:
            raise ConfigError(f"{where} is {value!r}; {nearest(str(value), [str(a) for a in args])}")
        return value
    if origin is tuple:
        return _convert_tuple(args, value, where)
    if origin is dict:
        _expect(isinstance(value, dict), where, value, "a table")
        return {k: _convert(args[1], v, f"{where}.{k}") for k, v in value.items()}
    if dataclasses.is_dataclass(hint):
        _expect(isinstance(value, dict), where, value, "a table")
        return build(typing.cast(type, hint), value, where)
    if hint is float:
        _expect(isinstance(value, int | float) and not isinstance(value, bool), where, value, "a number")
        return float(value)
    if hint is int:
        _expect(isinstance(value, int) and not isinstance(value, bool), where, value, "a whole number")
        return value
    if hint is Any:
        return value
    words = {bool: "true or false", str: "a text", Path: "a path"}
    _expect(isinstance(value, str if hint is Path else hint), where, value, words.get(hint, str(hint)))
    return Path(value) if hint is Path else value


def _convert_union(args: tuple[Any, ...], value: Any, where: str) -> Any:
    options = [a for a in args if a is not type(None)]
    failure: ConfigError | None = None
    for option in options:
        try:
            return _convert(option, value, where)
        except ConfigError as e:
            failure = e
    assert failure is not None
    raise failure


def _convert_tuple(args: tuple[Any, ...], value: Any, where: str) -> tuple[Any, ...]:
    _expect(isinstance(value, list | tuple), where, value, "a list")
    if len(args) == 2 and args[1] is Ellipsis:
        return tuple(_convert(args[0], v, f"{where}[{i}]") for i, v in enumerate(value))
    _expect(len(value) == len(args), where, value, f"a list of {len(args)}")
    return tuple(_convert(a, v, f"{where}[{i}]") for i, (a, v) in enumerate(zip(args, value, strict=True)))


def _expect(ok: bool, where: str, value: Any, what: str) -> None:
    if not ok:
        raise ConfigError(f"{where} is {value!r}; it must be {what}")
