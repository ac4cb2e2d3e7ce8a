"""Is this rig fit to move? Every check before torque, each with what was found, the likely cause and the mend."""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .calibrate.sweep import NARROWEST, WIDEST
from .cameras.camera import Camera
from .envelope import Envelope
from .errors import HardwareError, UsageError
from .joints import JOINTS, MODEL_RANGE_RAD, TICKS_PER_TURN
from .rig import Rig
from .safety.stops import EpisodeStop, error_bits

if TYPE_CHECKING:
    from .arms.wire import Wire
    from .safety.way import WayHome

__all__ = ["Check", "examine", "examine_arm", "examine_cameras", "failures", "refuse"]

WATCH_S = 2.0
"""All cameras stream at once for so long: alone each may be well, together they may fill the USB bus."""

RATE_SHARE = 0.95
"""Of the promised rate that a camera must deliver."""

FULL_TURN = {"wrist_roll"}
"""LeRobot's calibration gives this joint the whole turn without a sweep."""

CONTINUOUS = TICKS_PER_TURN - 1

MODEL_NUMBER = 777
"""STS3215."""


@dataclass(frozen=True)
class Check:
    """One check's outcome.

    Attributes:
        name: What was looked at.
        ok: Whether it is well; None where it could not be tested.
        found: What was found.
        mend: Likely cause and mend where it isn't well.
    """

    name: str
    ok: bool | None
    found: str
    mend: str = ""


def failures(checks: Iterable[Check]) -> list[Check]:
    """Those that are not well."""
    return [c for c in checks if c.ok is False]


def refuse(checks: Iterable[Check]) -> None:
    """Let a rig that is well pass.

    Raises:
        HardwareError: A check failed; the first is told whole, the others counted.
    """
    bad = failures(checks)
    if bad:
        more = f" ({len(bad) - 1} more: so101walk doctor)" if len(bad) > 1 else ""
        raise HardwareError(f"not ready to move: {bad[0].name}: {bad[0].found}. {bad[0].mend}{more}")


def examine(
    rig: Rig,
    envelope: Envelope,
    watch_s: float = WATCH_S,
    with_cameras: bool = True,
    say: Callable[[str], None] | None = None,
) -> list[Check]:
    """Open a real rig, look at everything, close it again. Torque is left as it is.

    Args:
        rig: A real one.
        envelope: Where it is to move.
        watch_s: How long the cameras are watched.
        with_cameras: Whether they are looked at.
        say: Told what takes time.

    Raises:
        UsageError: The rig is simulated.
    """
    from .arms.follower import Follower
    from .cameras.lerobot import LerobotCamera
    from .safety.way import WayHome

    if rig.simulated:
        raise UsageError(f"rig {rig.name!r} is simulated; there is nothing to examine. Name a real one: --rig FILE")
    arm = Follower(rig)
    try:
        arm.open()
        checks = [Check("port", True, rig.arm.port), *examine_arm(arm.wire, rig, WayHome(envelope, arm.rest_q))]
    except HardwareError as e:
        checks = [Check("port", False, str(e)), Check("servos", None, "not tested without the port")]
    finally:
        arm.close()
    if not with_cameras:
        return checks
    cameras: dict[str, Camera] = {}
    try:
        for name, config in rig.cameras.items():
            try:
                cameras[name] = LerobotCamera(name, config, rig.safety.camera_silence_s)
            except HardwareError as e:
                checks.append(Check(f"camera {name}", False, str(e)))
        return checks + examine_cameras(cameras, rig, watch_s, say)
    finally:
        for camera in cameras.values():
            camera.close()


def examine_arm(wire: "Wire", rig: Rig, way: "WayHome") -> list[Check]:
    """Look at the arm; only reads. Stops early where the rest would make no sense.

    Raises:
        PortLost: The port vanished meanwhile.
    """
    from .arms.servos import calibration_differences, voltage_limits

    checks = [_answers(wire)]
    if not checks[0].ok:
        return checks
    checks.append(_firmware(wire))
    volts = voltage_limits(wire)
    block = wire.read()
    if not block.whole:
        block = wire.read()
    low, high = volts[:, 0], volts[:, 1]
    bad = [i for i in range(len(JOINTS)) if not low[i] <= block.voltage[i] <= high[i]]
    checks.append(
        Check(
            "supply",
            not bad,
            f"{np.nanmin(block.voltage):.1f} to {np.nanmax(block.voltage):.1f} V"
            + "".join(f"; {JOINTS[i]} allows {low[i]:.1f} to {high[i]:.1f} V" for i in bad[:1]),
            "The wrong supply for these servos (7.4 V or 12 V variant), or a weak one" if bad else "",
        )
    )
    bits = {JOINTS[i]: error_bits(int(s)) for i, s in enumerate(block.status) if np.nan_to_num(s) > 0}
    first = next(iter(bits.values()), [])
    checks.append(
        Check(
            "error bits",
            not bits,
            "; ".join(f"{j}: {', '.join(n for n, _ in b)}" for j, b in bits.items()) or "none",
            f"Likely {first[0][1]}" if first else "",
        )
    )
    hot = int(np.nanargmax(block.temperature))
    checks.append(
        Check(
            "temperature",
            bool(block.temperature[hot] < rig.safety.cool_c),
            f"{block.temperature[hot]:.0f} C at most ({JOINTS[hot]})",
            f"Let the arm cool down below {rig.safety.cool_c:g} C",
        )
    )
    different = calibration_differences(wire)
    checks.append(
        Check(
            "calibration",
            not different,
            "; ".join(different) or f"the servos hold {wire.robot.calibration_fpath.name}",
            "The arm was calibrated anew, or it is another one: so101walk calibrate arm, or name the right arm.id",
        )
    )
    checks.append(_ranges(wire))
    checks.append(_pose(wire, block.ticks, way, not different))
    return checks


def _answers(wire: "Wire") -> Check:
    models = {motor: wire.get("Model_Number", motor) for motor in JOINTS}
    silent = [m for m, number in models.items() if number is None]
    if silent:
        first = JOINTS.index(silent[0])
        where = (
            "no servo answers: check supply and cable"
            if len(silent) == len(JOINTS)
            else (
                f"Check the cable from {JOINTS[first - 1] if first else 'the board'} to {silent[0]}, "
                "or its id (lerobot-setup-motors)"
            )
        )
        return Check(
            "servos",
            False,
            f"{', '.join(silent)} (id {', '.join(str(JOINTS.index(s) + 1) for s in silent)}) silent",
            where,
        )
    wrong = {m: n for m, n in models.items() if n != MODEL_NUMBER}
    if wrong:
        return Check("servos", False, f"{wrong} instead of model {MODEL_NUMBER}", "These are no STS3215 servos")
    return Check("servos", True, f"six STS3215 at {wire.bus.port}")


def _firmware(wire: "Wire") -> Check:
    versions = {m: f"{wire.get('Firmware_Major_Version', m)}.{wire.get('Firmware_Minor_Version', m)}" for m in JOINTS}
    kinds = sorted(set(versions.values()))
    found = kinds[0] if len(kinds) == 1 else ", ".join(f"{m} {v}" for m, v in versions.items())
    return Check("firmware", len(kinds) == 1, found, "" if len(kinds) == 1 else "Update them with Feetech's software")


def _ranges(wire: "Wire") -> Check:
    wrong = []
    for i, motor in enumerate(JOINTS):
        c = wire.bus.calibration[motor]
        span, usual = c.range_max - c.range_min, float(np.ptp(MODEL_RANGE_RAD[i]) * TICKS_PER_TURN / (2 * np.pi))
        if span >= CONTINUOUS and motor in FULL_TURN:
            continue
        if span >= CONTINUOUS:
            wrong.append(f"{motor} has the whole turn 0-4095")
        elif not NARROWEST * usual <= span <= WIDEST * usual:
            wrong.append(f"{motor} spans {span} ticks, usual are {usual:.0f}")
        if c.drive_mode:
            wrong.append(f"{motor} has drive_mode {c.drive_mode}")
    return Check(
        "ranges",
        not wrong,
        "; ".join(wrong) or "plausible",
        "The sweep was cut short, or crossed the encoder's seam: so101walk calibrate arm" if wrong else "",
    )


def _pose(wire: "Wire", ticks: np.ndarray, way: "WayHome", calibrated: bool) -> Check:
    if not calibrated:
        return Check("pose", None, "unknown without a calibration")
    pair = way.blocked(wire.scale.to_units(ticks), way.center)
    return Check(
        "pose",
        pair is None,
        "the envelope's center is free to reach" if pair is None else f"{pair} would collide on the way to the center",
        "" if pair is None else "Move the arm by hand to a pose with room around it (switch its power off first)",
    )


def examine_cameras(
    cameras: Mapping[str, Camera], rig: Rig, watch_s: float = WATCH_S, say: Callable[[str], None] | None = None
) -> list[Check]:
    """Open all cameras, let them stream at once, and compare what they deliver with what the rig promises."""
    checks = []
    running: dict[str, Camera] = {}
    for name, camera in cameras.items():
        try:
            camera.start()
            running[name] = camera
        except HardwareError as e:
            checks.append(Check(f"camera {name}", False, str(e), ""))
    if running and say is not None:
        say(f"watching {', '.join(running)} for {watch_s:g} s")
    times: dict[str, list[int]] = {name: [] for name in running}
    lost: dict[str, str] = {}
    for camera in running.values():
        camera.start()  # forgets what came while the others were opened
    until_s = time.monotonic() + watch_s
    while time.monotonic() < until_s:
        time.sleep(0.02)
        for name, camera in running.items():
            try:
                times[name] += [i.t_ns for i in camera.drain()]
            except EpisodeStop as e:
                lost[name] = str(e)
    for name, camera in running.items():
        camera.stop()
        checks.append(_rate(name, times[name], rig, lost.get(name)))
    return checks


def _rate(name: str, times_ns: list[int], rig: Rig, lost: str | None) -> Check:
    promised = rig.cameras[name].fps
    if lost is not None or len(times_ns) < 2:
        return Check(f"camera {name}", False, lost or "no stream of images", "Check its cable")
    rate = (len(times_ns) - 1) / ((times_ns[-1] - times_ns[0]) / 1e9)
    ok = rate >= RATE_SHARE * promised
    return Check(
        f"camera {name}",
        ok,
        f"delivers {rate:.1f} images a second, the rig promises {promised:g}",
        ""
        if ok
        else 'Auto-exposure in dim light halves it, YUYV may fill the USB bus (options: fourcc = "MJPG"); '
        "or write the real fps into the rig",
    )
