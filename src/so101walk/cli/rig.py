"""``so101walk rig new``: write a rig file, by questions or by options."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from ..rig_file import CameraChoice

__all__ = ["command"]


@click.group("rig")
def command() -> None:
    """Rig files: which arm, which cameras."""


@command.command("new")
@click.argument("name")
@click.option("--port", help="The arm's serial port. Without it you are asked.")
@click.option("--id", "ident", help="LeRobot's id of the arm  [default: NAME]")
@click.option(
    "--camera", "cameras", multiple=True, metavar="NAME=TYPE:WHERE[@WxH[@FPS]]", help="A camera; may be given again."
)
@click.option("--fps", default=30, show_default=True, type=click.IntRange(1, 120), help="Dataset frames a second.")
@click.option("--envelope", default="so101-tabletop", show_default=True, help="Envelope's name or file.")
@click.option(
    "--out", type=click.Path(path_type=Path, dir_okay=False), help="File to write  [default: collect/NAME.toml]"
)
@click.option(
    "--pictures", type=click.Path(path_type=Path, file_okay=False), help="Folder for a picture of each camera."
)
@click.option("--force", is_flag=True, help="Replace the file if it exists.")
def new(
    name: str,
    port: str | None,
    ident: str | None,
    cameras: tuple[str, ...],
    fps: int,
    envelope: str,
    out: Path | None,
    pictures: Path | None,
    force: bool,
) -> None:
    """Write collect/NAME.toml. With --port and --camera nothing is asked; else ports and cameras are looked for."""
    from ..config import build, read_toml
    from ..errors import UsageError
    from ..rig import Rig
    from ..rig_file import find_ports, parse_camera, rig_toml

    path = out or Path("collect") / f"{name}.toml"
    if path.exists() and not force:
        raise UsageError(f"{path} exists. Replace it with --force, or choose another name")
    if port is None:
        found = find_ports()
        click.echo("ports: " + (", ".join(found) or "none found"), err=True)
        port = click.prompt("The arm's port", default=found[0] if len(found) == 1 else None, err=True)
    chosen = [parse_camera(text) for text in cameras] or _ask(pictures)
    text = rig_toml(name, port, ident or name, chosen, fps, envelope)
    fresh = path.with_suffix(".new")
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh.write_text(text)
    try:
        build(Rig, read_toml(fresh), str(path))
    except BaseException:
        fresh.unlink()
        raise
    fresh.replace(path)
    click.echo(f"written to {path}. Next: so101walk doctor --rig {path if out else name}")


def _ask(pictures: Path | None) -> "list[CameraChoice]":
    """Look for USB cameras with LeRobot's finder, save a picture of each, and ask which is which."""
    from lerobot.cameras.opencv import OpenCVCamera

    from ..errors import HardwareError
    from ..rig_file import parse_camera

    found = OpenCVCamera.find_cameras()
    if not found:
        raise HardwareError("no USB camera found; plug one in, or name another kind with --camera NAME=TYPE:WHERE")
    folder = pictures or Path("camera-pictures")
    chosen = []
    for info in found:
        where, profile = info["id"], info["default_stream_profile"]
        shown = _picture(where, folder)
        click.echo(f"{where}: {profile['width']}x{profile['height']} at {profile['fps']:g}; see {shown}", err=True)
        name = click.prompt("Its name in the rig (front, wrist, ...; empty to leave it out)", default="", err=True)
        if name:
            size = click.prompt("Size and rate", default=f"{profile['width']}x{profile['height']}@30", err=True)
            chosen.append(parse_camera(f"{name}=opencv:{where}@{size}"))
    if not chosen:
        raise HardwareError("no camera was chosen; a rig needs at least one")
    return chosen


def _picture(where: int | str, folder: Path) -> str:
    """A picture that a camera takes now; returns where it is, or why there is none."""
    import cv2

    device = cv2.VideoCapture(where)
    try:
        ok, image = device.read()
    finally:
        device.release()
    if not ok:
        return "no picture: it doesn't deliver"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{str(where).strip('/').replace('/', '-')}.png"
    cv2.imwrite(str(path), image)
    return str(path)
