"""LeRobot's calibration of an arm, step by step: middle pose, sweep, servos, file. No keyboard is waited for here.

The same registers and the same file as ``lerobot-calibrate`` writes, with its bus; but sweeps may cross the encoder's
seam, ranges that can't be are refused, and a copy stays under ``calibration/``.
"""

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ..arms.wire import Wire
from ..errors import HardwareError
from ..joints import JOINTS
from .sweep import Ranges, Sweep, settle

__all__ = ["calibrate", "keep", "let_loose"]

SAMPLE_S = 0.01
"""Pause between readings of a sweep; a joint turned by hand makes less than 100 ticks meanwhile."""


def let_loose(wire: Wire) -> None:
    """Switch torque off, for an arm that somebody holds, and let the servos store what is written from now on.

    Raises:
        HardwareError: A servo doesn't let go.
    """
    if refused := wire.release():
        motor, why = next(iter(refused.items()))
        raise HardwareError(f"{motor} doesn't let go ({why}); power-cycle the arm")
    _lock(wire, 0)


def calibrate(
    wire: Wire, finished: Callable[[], bool], on_progress: Callable[[Sweep], None] = lambda sweep: None
) -> Ranges:
    """Calibrate a limp arm that is in the middle of all its ranges now, and is swept through them until ``finished``.

    Args:
        wire: The open bus, torque off.
        finished: Asked again and again; True ends the sweep.
        on_progress: Shown how far it is.

    Returns:
        What was written to the servos.

    Raises:
        HardwareError: A servo doesn't answer, or the sweep is not plausible; then nothing but the homing is changed.
    """
    for motor in JOINTS:
        wire.put("Operating_Mode", motor, 0)
    offsets = _told(wire.bus.set_half_turn_homings)
    sweep = Sweep(_positions(wire))
    while not finished():
        sweep.add(_positions(wire))
        on_progress(sweep)
        time.sleep(SAMPLE_S)
    ranges = settle([offsets[j] for j in JOINTS], sweep)
    _store(wire, ranges)
    return ranges


def keep(wire: Wire, folder: Path) -> tuple[Path, Path]:
    """Save the calibration where LeRobot looks for it, and a copy in ``folder``. Returns both files."""
    wire.robot._save_calibration()
    own: Path = wire.robot.calibration_fpath
    copy = folder / own.name
    folder.mkdir(parents=True, exist_ok=True)
    if copy.resolve() != own.resolve():
        shutil.copyfile(own, copy)
    return own, copy


def _positions(wire: Wire) -> np.ndarray:
    for _ in range(3):
        block = wire.read()
        if block.whole:
            return block.ticks
    silent = ", ".join(j for j, ok in zip(JOINTS, block.answered, strict=True) if not ok)
    raise HardwareError(f"{silent} does not answer; check its cable and begin again")


def _store(wire: Wire, ranges: Ranges) -> None:
    from lerobot.motors import MotorCalibration

    table = {
        motor: MotorCalibration(i + 1, 0, ranges.homing_offset[i], ranges.range_min[i], ranges.range_max[i])
        for i, motor in enumerate(JOINTS)
    }
    _told(lambda: wire.bus.write_calibration(table))
    wire.robot.calibration = table
    _lock(wire, 1)


def _lock(wire: Wire, value: int) -> None:
    for motor in JOINTS:
        if wire.put("Lock", motor, value) is None:
            raise HardwareError(f"{motor} does not answer; check its cable and begin again")


def _told(action: Callable[[], Any]) -> Any:
    """LeRobot's errors in our words."""
    try:
        return action()
    except (ConnectionError, RuntimeError) as e:
        raise HardwareError(f"a servo could not be written to ({e}); check its cable and begin again") from e
