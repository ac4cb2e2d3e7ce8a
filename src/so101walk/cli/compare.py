"""``so101walk compare``: runs of the probe side by side."""

from pathlib import Path

import click

__all__ = ["command"]


@click.command("compare")
@click.argument("runs", nargs=-1, required=True, metavar="RUN RUN [RUN...]")
@click.option(
    "--bars",
    metavar="FILE",
    help="Judge the first run (against the second) by a bars file, or the shipped study or walk.",
)
@click.option("--seed", default=0, show_default=True, help="Of the resamples.")
@click.option("--markdown", is_flag=True, help="Print Markdown.")
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE", help="Write the Markdown into a file too.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
def command(
    runs: tuple[str, ...], bars: str | None, seed: int, markdown: bool, out: Path | None, as_json: bool
) -> None:
    """Compare runs of the probe: a column each, differences of the first to the others, verdicts of the bars.

    RUN is a folder that `so101walk probe --out` wrote, or study:w1 or study:w2, the figures of the hardware study.
    """
    import json

    from ..errors import So101WalkError, UsageError
    from ..probe.bars import find_bars
    from ..probe.compare import compare

    if len(runs) < 2:
        raise UsageError("compare needs at least two runs; study:w1 and study:w2 are the hardware study's")
    comparison = compare(runs, find_bars(bars) if bars else None, seed)
    if out is not None:
        try:
            out.write_text(comparison.markdown())
        except OSError as e:
            raise So101WalkError(f"{out} can't be written ({e.strerror})") from e
    if as_json:
        click.echo(json.dumps(comparison.to_json()))
    elif markdown:
        click.echo(comparison.markdown(), nl=False)
    else:
        from rich.console import Console

        from ..probe import show

        show.comparison_tables(comparison, Console())
