"""``so101walk calibrate envelope``: parse, call, print."""

from pathlib import Path

import click

__all__ = ["command"]


@click.command("envelope")
@click.option(
    "--rig",
    "rig_name",
    default="sim",
    show_default=True,
    help="Rig (name or file) whose speed limits and calibrated ranges apply.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Envelope file to write.  [default: calibration/NAME.toml]",
)
@click.option("--name", help="Name of the envelope.  [default: --out's file name, else my-<rig>]")
@click.option("--like", help="Take margins and keep-out boxes from this envelope (name or file).")
@click.option("--accept", default=0.99, show_default=True, help="Chance that a pose of the walk is safe.")
@click.option("--rho", default=0.9, show_default=True, help="Correlation of the walk whose refused steps are reported.")
@click.option(
    "--samples", default=40_000, show_default=True, help="Poses to search on, and as many to prove the result on."
)
@click.option("--steps", default=2_400, show_default=True, help="Steps of the reported walk.")
@click.option("--seed", default=0, show_default=True, help="The same seed gives the same file.")
@click.option("--force", is_flag=True, help="Replace the file if it exists.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout.")
def command(
    rig_name: str,
    out: Path | None,
    name: str | None,
    like: str | None,
    accept: float,
    rho: float,
    samples: int,
    steps: int,
    seed: int,
    force: bool,
    as_json: bool,
) -> None:
    """Find center and scale of every joint for the largest Gaussian walk that stays in the safe set.

    Searches over the SO-101's model: joint limits (for a real rig those of its calibration as well), table,
    self-collision and keep-out boxes. Writes an envelope file and, beside it, a picture (PNG).
    """
    from ..calibrate.report import Request, run

    run(Request(rig_name, out, name, like, accept, rho, samples, steps, seed, force, as_json))
