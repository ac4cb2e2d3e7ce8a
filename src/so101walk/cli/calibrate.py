"""``so101walk calibrate``: a group of measurements, each imported only when it is called."""

import click

from .lazy import LazyGroup

__all__ = ["command"]

SUBCOMMANDS: dict[str, str] = {
    "envelope": "Find the largest safe walk: center and scale of every joint.",
    "arm": "Calibrate the servos: LeRobot's calibration, with its pitfalls refused.",
    "latency": "Measure each camera's latency against the joints, without a target.",
}
"""Subcommand to its short help; each lives in ``cli/calibrate_<name>.py`` as ``command``."""


@click.group("calibrate", cls=LazyGroup, table=SUBCOMMANDS, module="so101walk.cli.calibrate_{}")
def command() -> None:
    """Measure what an arm may do and how late it is."""
