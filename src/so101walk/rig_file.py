"""Writing a rig file: from a port and cameras to TOML that :func:`so101walk.rig.load_rig` reads."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .errors import UsageError

__all__ = ["CameraChoice", "find_ports", "parse_camera", "rig_toml"]

PATTERNS = ("ttyACM*", "ttyUSB*", "tty.usbmodem*", "tty.usbserial*", "cu.usbmodem*")


@dataclass(frozen=True)
class CameraChoice:
    """One camera of a rig to be.

    Attributes:
        name: In the rig.
        type: LeRobot's name of its kind.
        options: What goes to LeRobot as it is.
        width: [px], even.
        height: [px], even.
        fps: Images a second.
    """

    name: str
    type: str
    options: dict[str, Any] = field(default_factory=dict)
    width: int = 640
    height: int = 480
    fps: float = 30


def parse_camera(text: str) -> CameraChoice:
    """``NAME=TYPE:WHERE[@WxH[@FPS]]``, such as ``front=opencv:/dev/video0@640x480@30`` or ``top=zmq:127.0.0.1:5601``.

    Raises:
        UsageError: It isn't of that form, or a kind of camera whose place can't be told in a word.
    """
    name, found, rest = text.partition("=")
    kind, colon, rest = rest.partition(":")
    where, *more = rest.split("@")
    if not found or not colon or not name.isidentifier() or not where or len(more) > 2:
        raise UsageError(
            f"--camera {text!r} must be NAME=TYPE:WHERE[@WxH[@FPS]], such as front=opencv:/dev/video0@640x480@30"
        )
    width, height, fps = 640, 480, 30.0
    try:
        if more:
            width, height = (int(v) for v in more[0].lower().split("x"))
        if len(more) == 2:
            fps = float(more[1])
    except ValueError:
        raise UsageError(f"--camera {text!r}: size and rate must be as in @640x480@30") from None
    return CameraChoice(name, kind, _options(text, name, kind, where), width, height, fps)


def _options(text: str, name: str, kind: str, where: str) -> dict[str, Any]:
    match kind:
        case "opencv":
            local = where.isdecimal() or where.startswith("/dev/")
            index: int | str = int(where) if where.isdecimal() else where
            return {"index_or_path": index} | ({"fourcc": "MJPG"} if local else {})
        case "zmq":
            host, _, port = where.rpartition(":")
            if not host or not port.isdecimal():
                raise UsageError(f"--camera {text!r}: a zmq camera is at HOST:PORT")
            return {"server_address": host, "port": int(port), "camera_name": name, "timeout_ms": 500}
        case "intelrealsense":
            return {"serial_number_or_name": where}
    raise UsageError(
        f"--camera {text!r}: only opencv, zmq and intelrealsense can be told in a word; "
        "write other types and their options into the rig file"
    )


def rig_toml(
    name: str, port: str, ident: str, cameras: Iterable[CameraChoice], fps: int = 30, envelope: str = "so101-tabletop"
) -> str:
    """The text of a rig file."""
    lines = [
        f"# Written by so101walk rig new. Check it: so101walk doctor --rig {name}",
        f"name = {_text(name)}",
        f"fps = {fps}",
        f"envelope = {_text(envelope)}",
        'task = "Random walk in joint space."',
        "",
        "[arm]",
        'type = "so101_follower"',
        f"port = {_text(port)}",
        f"id = {_text(ident)}",
        "",
        "[limits]",
        "velocity_deg_s = 120",
        "acceleration_deg_s2 = 600",
    ]
    for i, c in enumerate(cameras):
        options = ", ".join(f"{k} = {_text(v) if isinstance(v, str) else v}" for k, v in c.options.items())
        lines += [
            "",
            f"[cameras.{c.name}]",
            f"type = {_text(c.type)}",
            f"view = {_text('wrist' if i else 'front')}  # what stands in for it in a dry run",
            f"width = {c.width}",
            f"height = {c.height}",
            f"fps = {c.fps:g}",
            f"options = {{ {options} }}",
        ]
    return "\n".join(lines) + "\n"


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)  # a JSON text is a TOML text


def find_ports(root: Path = Path("/dev")) -> list[str]:
    """Serial ports that an arm may be at, by their lasting names where there are such."""
    lasting = sorted((root / "serial" / "by-id").glob("*"))
    return [str(p) for p in lasting or sorted(p for pattern in PATTERNS for p in root.glob(pattern))]
