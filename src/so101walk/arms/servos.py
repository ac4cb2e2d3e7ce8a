"""What six servos are set to: their own calibration and limits, and the settings that a walk needs."""

import json
import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..config import data_dir
from ..errors import HardwareError
from ..joints import JOINTS, ROBOT_TYPE, TickScale
from ..rig import ArmConfig
from .wire import Wire

__all__ = [
    "calibrated_scale",
    "calibration_differences",
    "calibration_file",
    "configure",
    "lerobots_folder",
    "voltage_limits",
]

CALIBRATION: dict[str, str] = {
    "homing_offset": "Homing_Offset",
    "range_min": "Min_Position_Limit",
    "range_max": "Max_Position_Limit",
}
"""Field of LeRobot's calibration to the register that holds it in the servo."""

SETTINGS: dict[str, int] = {
    "Return_Delay_Time": 0,
    "Operating_Mode": 0,
    "Maximum_Acceleration": 254,
    "Acceleration": 0,
}
"""As LeRobot sets them, but for Acceleration: our setpoints accelerate smoothly themselves, and a ramp of the servo's
would begin anew at each of the hundred writes a second (told of 254, LeRobot's value)."""

GRIPPER_SETTINGS: dict[str, int] = {"Max_Torque_Limit": 500, "Protection_Current": 250, "Overload_Torque": 25}
"""As LeRobot's follower sets them: half the torque and current, a quarter once overloaded; a pressing gripper burns."""

MULTI_TURN_BIT = 0x10
"""Of Phase; LeRobot clears it so that positions are one turn."""


def calibration_file(arm: ArmConfig) -> Path:
    """Where the arm's calibration lies: the rig's folder, ``calibration/`` here, what ships, or LeRobot's own folder.

    Raises:
        HardwareError: There is none; tells where it was looked for.
    """
    name = f"{arm.id}.json"
    if not arm.id or not arm.port:
        raise HardwareError(
            f"the rig has no arm.{'port' if arm.id else 'id'}: LeRobot's id of the arm and its serial port, in [arm] "
            "(so101walk rig new asks for them). Or walk its simulated twin with --dry-run"
        )
    if arm.calibration_dir:
        folders = [Path(arm.calibration_dir).expanduser()]
    else:
        folders = [Path("calibration"), data_dir("calibration"), lerobots_folder()]
    for folder in folders:
        if (folder / name).is_file():
            return folder / name
    raise HardwareError(
        f"no calibration {name} in {', '.join(str(f) for f in folders)}; "
        "calibrate the arm first: so101walk calibrate arm --rig FILE"
    )


def calibrated_scale(file: Path) -> TickScale:
    """The measured ranges of an arm, from LeRobot's calibration file.

    Raises:
        HardwareError: It can't be read, or a joint is missing in it.
    """
    try:
        joints = json.loads(file.read_text())
        low, high = (tuple(int(joints[j][end]) for j in JOINTS) for end in ("range_min", "range_max"))
    except (OSError, ValueError, KeyError, TypeError) as e:
        raise HardwareError(
            f"{file} is no calibration of six joints ({type(e).__name__}: {e}); so101walk calibrate arm writes one"
        ) from e
    return TickScale(low, high)


def lerobots_folder() -> Path:
    """Where LeRobot keeps followers' calibrations (``utils/constants.py`` of 0.6.1), told without importing it."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "huggingface"
    home = os.environ.get("HF_LEROBOT_HOME") or Path(os.environ.get("HF_HOME") or cache) / "lerobot"
    base = os.environ.get("HF_LEROBOT_CALIBRATION") or Path(home).expanduser() / "calibration"
    return Path(base).expanduser() / "robots" / ROBOT_TYPE


def calibration_differences(wire: Wire) -> list[str]:
    """What the calibration file says otherwise than the servos, a line for each value; none if they agree.

    Raises:
        HardwareError: A servo doesn't answer, or the port is gone.
    """
    lines = []
    for motor in JOINTS:
        for field, register in CALIBRATION.items():
            stored, wanted = wire.get(register, motor), getattr(wire.bus.calibration[motor], field)
            if stored is None:
                raise HardwareError(f"{motor} doesn't answer; check its cable")
            if stored != wanted:
                lines.append(f"{motor}: {field} is {wanted} in the file, {stored} in the servo")
    return lines


def configure(wire: Wire) -> list[str]:
    """Put the settings into the servos that differ. Torque is neither switched on nor off: nothing moves or falls.

    Returns:
        What was changed, a line each.

    Raises:
        HardwareError: A servo doesn't answer or doesn't keep a value.
    """
    gains = wire.robot.config
    common = SETTINGS | {
        "P_Coefficient": gains.position_p_coefficient,
        "I_Coefficient": gains.position_i_coefficient,
        "D_Coefficient": gains.position_d_coefficient,
    }
    changed = []
    for motor in JOINTS:
        wanted = common | (GRIPPER_SETTINGS if motor == "gripper" else {})
        phase = wire.get("Phase", motor)
        if phase is not None and phase & MULTI_TURN_BIT:
            wanted["Phase"] = phase & ~MULTI_TURN_BIT
        for register, value in wanted.items():
            before = wire.get(register, motor)
            if before == value:
                continue
            wire.put(register, motor, value)
            after = wire.get(register, motor)
            if after != value:
                raise HardwareError(f"{motor}: {register} stays {after} instead of {value}; power-cycle the arm")
            changed.append(f"{motor}: {register} {before} -> {value}")
    return changed


def voltage_limits(wire: Wire) -> NDArray[np.float64]:
    """Lowest and highest supply voltage by each servo's own limits [V], shape (6, 2).

    Raises:
        HardwareError: A servo doesn't answer.
    """
    limits = np.empty((len(JOINTS), 2))
    for i, motor in enumerate(JOINTS):
        for k, register in enumerate(("Min_Voltage_Limit", "Max_Voltage_Limit")):
            value = wire.get(register, motor)
            if value is None:
                raise HardwareError(f"{motor} doesn't answer; check its cable")
            limits[i, k] = value / 10.0
    return limits
