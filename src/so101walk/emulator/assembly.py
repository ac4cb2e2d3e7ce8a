"""How this virtual arm is put together and calibrated: encoder ticks to the model's angles; LeRobot's file of it."""

import json
import os
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..joints import JOINTS, MODEL_RANGE_RAD, TickScale
from .motor import TICKS_PER_RAD
from .registers import EEPROM_END, REGISTERS, encode, factory_memory

__all__ = [
    "CALIBRATION_ID",
    "HOMING_OFFSET",
    "MIDDLE",
    "calibrated_eeprom",
    "calibration",
    "rad_to_raw",
    "raw_to_rad",
    "write_calibration",
]

CALIBRATION_ID = "emulated"
"""LeRobot's id of this arm: its calibration file is ``emulated.json``."""

MIDDLE = 2047
"""Where LeRobot's calibration puts the middle of a range (``set_half_turn_homings``: half of 4095, cut)."""

HOMING_OFFSET: tuple[int, ...] = (-154, 167, 55, -72, 4, 101)
"""Horns are never mounted dead centre: the encoder reads this much more than :data:`MIDDLE` at mid-range [ticks].
Arbitrary, unlike one another, within a horn's spline of about 14 deg (25 teeth)."""

_MIDDLE_RAD: NDArray[np.float64] = MODEL_RANGE_RAD.mean(axis=1)


def rad_to_raw(rad: ArrayLike) -> NDArray[np.float64]:
    """The model's joint angles [rad] to the encoders' own ticks, unrounded. Shape (..., 6) to (..., 6)."""
    return (np.asarray(rad, np.float64) - _MIDDLE_RAD) * TICKS_PER_RAD + MIDDLE + np.array(HOMING_OFFSET)


def raw_to_rad(raw_ticks: ArrayLike) -> NDArray[np.float64]:
    """The encoders' own ticks to the model's joint angles [rad]. Shape (..., 6) to (..., 6)."""
    return (np.asarray(raw_ticks, np.float64) - MIDDLE - np.array(HOMING_OFFSET)) / TICKS_PER_RAD + _MIDDLE_RAD


def calibration() -> dict[str, dict[str, int]]:
    """LeRobot's calibration of this arm: each motor's id, drive mode, homing offset and range, in ticks."""
    scale = TickScale.of_model()
    return {
        name: {
            "id": i + 1,
            "drive_mode": 0,
            "homing_offset": HOMING_OFFSET[i],
            "range_min": scale.range_min[i],
            "range_max": scale.range_max[i],
        }
        for i, name in enumerate(JOINTS)
    }


def calibrated_eeprom(index: int) -> bytes:
    """EEPROM of joint ``index``'s servo with that calibration in it."""
    memory = factory_memory(index + 1)
    values = calibration()[JOINTS[index]]
    for name, key in (
        ("Homing_Offset", "homing_offset"),
        ("Min_Position_Limit", "range_min"),
        ("Max_Position_Limit", "range_max"),
    ):
        address, size = REGISTERS[name]
        memory[address : address + size] = encode(name, values[key])
    return bytes(memory[:EEPROM_END])


def write_calibration(folder: Path, ident: str = CALIBRATION_ID) -> Path:
    """Write ``<ident>.json`` as LeRobot reads it with ``calibration_dir=folder``; atomic.

    Returns:
        The file.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{ident}.json"
    fresh = path.with_suffix(f".{os.getpid()}.tmp")
    fresh.write_text(json.dumps(calibration(), indent=4) + "\n")
    fresh.replace(path)
    return path
