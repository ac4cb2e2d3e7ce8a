"""Six servos' EEPROM in a file, so that an emulated arm keeps its calibration from one run to the next."""

import json
import os
from collections.abc import Sequence
from pathlib import Path

from ..errors import ConfigError
from ..joints import JOINTS
from .registers import EEPROM_END

__all__ = ["load_eeprom", "save_eeprom"]


def load_eeprom(path: Path) -> tuple[bytes, ...] | None:
    """EEPROM of each servo, or None if there is no such file yet.

    Raises:
        ConfigError: The file isn't one that :func:`save_eeprom` wrote.
    """
    if not path.exists():
        return None
    try:
        table = json.loads(path.read_text())
        stored = tuple(bytes.fromhex(table[name]) for name in JOINTS)
    except (OSError, ValueError, KeyError, TypeError) as e:
        raise ConfigError(f"{path} isn't an EEPROM file of the emulator ({e!r}); delete it to start afresh") from e
    for name, data in zip(JOINTS, stored, strict=True):
        if len(data) != EEPROM_END:
            raise ConfigError(f"{path}: {name} has {len(data)} bytes of {EEPROM_END}; delete it to start afresh")
    return stored


def save_eeprom(path: Path, stored: Sequence[bytes]) -> None:
    """Write the file, in one step: a crash leaves the old one or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.write_text(json.dumps({n: s.hex() for n, s in zip(JOINTS, stored, strict=True)}, indent=2) + "\n")
    fresh.replace(path)
