"""``so101walk emulate``: serve a virtual SO-101 until it is told to stop."""

import json
import signal
import sys
from pathlib import Path

import click

from ..errors import HardwareError, UsageError

__all__ = ["command", "parse_cameras", "parse_size"]


@click.command(name="emulate", short_help="Serve a virtual SO-101: a servo bus on a terminal, cameras over ZMQ.")
@click.option("--link", type=click.Path(path_type=Path), required=True, help="Where the link to the terminal goes.")
@click.option("--camera", "cameras", multiple=True, metavar="NAME=PORT", help="Serve a camera; may be given again.")
@click.option("--size", default="320x240", show_default=True, metavar="WxH", help="Image size in pixels.")
@click.option("--fps", default=30.0, show_default=True, type=click.FloatRange(1, 240), help="Images a second.")
@click.option(
    "--latency-ms", default=0.0, show_default=True, type=click.FloatRange(0, 10_000), help="Added camera latency."
)
@click.option("--faults", type=click.Path(path_type=Path), help="Timeline of faults (TOML).")
@click.option("--log", type=click.Path(path_type=Path), help="Write the truth here (HDF5): joints at 1 kHz, images.")
@click.option("--eeprom", type=click.Path(path_type=Path), help="Keep the servos' EEPROM in this file.")
@click.option(
    "--calibration",
    type=click.Path(path_type=Path, file_okay=False),
    help="Write the arm's calibration into this folder, as LeRobot reads it.",
)
@click.option("--id", "ident", default="emulated", show_default=True, help="LeRobot's id of the arm, for that file.")
@click.option(
    "--hand",
    "gesture",
    metavar="GESTURE",
    help="A hand holds the arm, as a leader's: still, sway or sweep. Without one it obeys gravity and its motors.",
)
@click.option(
    "--volts", default=7.4, show_default=True, type=click.FloatRange(0, 25), help="Supply of the 7.4 V servos."
)
@click.option("--seconds", type=click.FloatRange(0, min_open=True), help="Stop by itself after this long.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout once it serves.")
def command(
    link: Path,
    cameras: tuple[str, ...],
    size: str,
    fps: float,
    latency_ms: float,
    faults: Path | None,
    log: Path | None,
    eeprom: Path | None,
    calibration: Path | None,
    ident: str,
    gesture: str | None,
    volts: float,
    seconds: float | None,
    as_json: bool,
) -> None:
    """Serve a virtual SO-101 that any LeRobot program can use, until Ctrl-C.

    Six STS3215 servos answer on a pseudo-terminal at --link, with MuJoCo's physics behind their registers; cameras
    stream over ZMQ, one port each, as LeRobot's ZMQCamera reads them. Every image has its serial number in its upper
    left corner, and --log holds what was true.

    \b
    so101walk emulate --link /tmp/so101 --camera front=5601 --camera wrist=5602 --calibration calibration
    lerobot-teleoperate --robot.type=so101_follower --robot.port=/tmp/so101 --robot.id=emulated ...
    """
    from ..emulator.assembly import write_calibration
    from ..emulator.faults import load_faults
    from ..emulator.stage import Stage

    ports = parse_cameras(cameras)
    width, height = parse_size(size)
    stage = Stage(
        link,
        cameras=ports,
        width=width,
        height=height,
        fps=fps,
        latency_ms=latency_ms,
        faults=load_faults(faults, ports) if faults is not None else (),
        log=log,
        eeprom=eeprom,
        gesture=gesture,
        supply_v=volts,
    )
    if calibration is not None:
        write_calibration(calibration, ident)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _stop)
    try:
        with stage:
            _announce(stage.link, stage.tty, ports, as_json)
            if stage.wait(seconds):
                raise HardwareError(f"{stage.failure}; see above for its own words")
    except _Stopped:
        pass


class _Stopped(Exception):
    pass


def _stop(number: int, frame: object) -> None:
    for other in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(other, signal.SIG_IGN)  # closing takes its time, and leaves nothing behind
    raise _Stopped


def _announce(link: Path, tty: str, ports: dict[str, int], as_json: bool) -> None:
    if as_json:
        cameras = {name: f"tcp://127.0.0.1:{port}" for name, port in ports.items()}
        click.echo(json.dumps({"link": str(link), "tty": tty, "cameras": cameras}))
        sys.stdout.flush()
        return
    served = ", ".join(f"{name} at port {port}" for name, port in ports.items()) or "no cameras"
    click.echo(f"SO-101 at {link} ({tty}); {served}. Ctrl-C ends it.", err=True)


def parse_cameras(texts: tuple[str, ...]) -> dict[str, int]:
    """``("front=5601", ...)`` as a mapping of names to ports.

    Raises:
        UsageError: One of them isn't NAME=PORT, or a name or port comes twice.
    """
    ports: dict[str, int] = {}
    for text in texts:
        name, _, port = text.partition("=")
        if not name.isidentifier() or not port.isdecimal() or not 1 <= int(port) <= 65535:
            raise UsageError(f"--camera {text!r} must be NAME=PORT, such as front=5601, with a port of 1 to 65535")
        if name in ports or int(port) in ports.values():
            raise UsageError(f"--camera {text!r}: the name or the port is taken by another camera; one port a camera")
        ports[name] = int(port)
    return ports


def parse_size(text: str) -> tuple[int, int]:
    """``"320x240"`` as (width, height) in pixels.

    Raises:
        UsageError: It isn't two even numbers within limits.
    """
    width, _, height = text.lower().partition("x")
    if width.isdecimal() and height.isdecimal():
        w, h = int(width), int(height)
        if 64 <= w <= 4096 and 16 <= h <= 4096 and w % 2 == h % 2 == 0:
            return w, h
    raise UsageError(f"--size {text!r} must be WxH in even pixels, such as 320x240, from 64x16 to 4096x4096")
