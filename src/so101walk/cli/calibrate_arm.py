"""``so101walk calibrate arm``: LeRobot's calibration of a real arm, moved by hand."""

import json
from pathlib import Path

import click

__all__ = ["command"]


@click.command("arm")
@click.option("--rig", "rig_name", required=True, help="The rig's name or file.")
@click.option(
    "--keep",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("calibration"),
    show_default=True,
    help="Folder of the copy.",
)
@click.option("--seconds", type=click.FloatRange(1, 600), help="Ask nothing: begin at once, sweep for so long.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout, all else on stderr.")
def command(rig_name: str, folder: Path, seconds: float | None, as_json: bool) -> None:
    """Calibrate an arm: you hold it, put it in the middle of its ranges, then move every joint from end to end.

    Writes the servos and LeRobot's file of the arm, and keeps a copy. A sweep across the encoder's seam is understood;
    ranges that can't be are refused.
    """
    import select
    import sys
    import time

    from ..arms.servos import lerobots_folder
    from ..arms.wire import open_wire
    from ..calibrate.arm import calibrate, keep, let_loose
    from ..calibrate.sweep import Sweep
    from ..errors import HardwareError, UsageError
    from ..joints import JOINTS
    from ..rig import load_rig

    rig = load_rig(rig_name)
    if rig.simulated:
        raise UsageError(f"rig {rig.name!r} is simulated: its calibration is the model's. Name a real one: --rig FILE")
    if not rig.arm.port or not rig.arm.id:
        raise HardwareError("the rig has no arm.port or no arm.id; add them to [arm] (so101walk rig new asks for them)")

    def ask(text: str) -> None:
        click.echo(text + (" ... " if seconds is None else ""), err=True)
        if seconds is None:
            click.prompt("Enter when ready", default="", show_default=False, err=True)

    home = Path(rig.arm.calibration_dir).expanduser() if rig.arm.calibration_dir else lerobots_folder()
    wire = open_wire(rig.arm.port, rig.arm.id, home / f"{rig.arm.id}.json", calibrated=False)
    try:
        ask("Hold the arm: its torque goes off now")
        let_loose(wire)
        ask("Put every joint in the middle of its range")
        begun_s = 0.0

        def finished() -> bool:
            nonlocal begun_s
            if not begun_s:  # only now are the middles stored, and may the joints move
                begun_s = time.monotonic()
                click.echo(
                    "Move every joint slowly from end to end; Enter when done. wrist_roll may be left out", err=True
                )
            if seconds is not None:
                return time.monotonic() - begun_s > seconds
            return bool(select.select([sys.stdin], [], [], 0)[0] and sys.stdin.readline())

        def on_progress(sweep: Sweep) -> None:
            if sys.stderr.isatty():
                shares = "  ".join(f"{j} {s:4.0%}" for j, s in zip(JOINTS, sweep.shares, strict=True))
                print(f"\r{shares}", end="", file=sys.stderr)

        ranges = calibrate(wire, finished, on_progress)
        own, copy = keep(wire, folder)
    finally:
        wire.close()
    if as_json:
        values = {
            j: {"homing_offset": ranges.homing_offset[i], "range": [ranges.range_min[i], ranges.range_max[i]]}
            for i, j in enumerate(JOINTS)
        }
        click.echo(json.dumps({"joints": values, "file": str(own), "copy": str(copy)}))
        return
    for i, joint in enumerate(JOINTS):
        click.echo(f"{joint:14} {ranges.range_min[i]:5} to {ranges.range_max[i]:5}, offset {ranges.homing_offset[i]}")
    click.echo(f"written to the servos, {own} and {copy}. Next: so101walk doctor --rig {rig_name}")
