"""``so101walk doctor``: is this rig fit to move? Nothing moves."""

import json

import click

__all__ = ["command"]


@click.command(name="doctor")
@click.option("--rig", "rig_name", required=True, help="The rig's name or file.")
@click.option(
    "--watch-s", default=2.0, show_default=True, type=click.FloatRange(0.5, 600), help="Watch cameras so long."
)
@click.option("--no-cameras", is_flag=True, help="Look at the arm alone.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout, all else on stderr.")
def command(rig_name: str, watch_s: float, no_cameras: bool, as_json: bool) -> int:
    """Examine a real rig: servos, supply, calibration, pose, cameras. Torque is never switched on; nothing moves.

    Exit code 0 if the rig is fit, 1 if something isn't well.
    """
    import dataclasses
    import sys

    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from ..doctor import examine, failures
    from ..envelope import load_envelope
    from ..rig import load_rig

    rig = load_rig(rig_name)
    checks = examine(
        rig, load_envelope(rig.envelope), watch_s, not no_cameras, say=lambda text: print(text, file=sys.stderr)
    )
    bad = failures(checks)
    if as_json:
        click.echo(json.dumps({"ok": not bad, "rig": rig.name, "checks": [dataclasses.asdict(c) for c in checks]}))
        return 1 if bad else 0
    table = Table(box=None, pad_edge=False)
    for title in ("", "check", "found", "mend"):
        table.add_column(title)
    marks = {True: "[green]ok[/]", False: "[red]NO[/]", None: "-"}
    for check in checks:
        table.add_row(marks[check.ok], escape(check.name), escape(check.found), escape(check.mend))
    console = Console(highlight=False)
    console.print(table)
    console.print(
        f"{len(bad)} of {len(checks)} checks failed" if bad else f"fit to move: so101walk collect --rig {rig_name}"
    )
    return 1 if bad else 0
