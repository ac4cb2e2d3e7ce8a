"""``so101walk repair``: set torn episodes aside and rebuild a dataset from the sound ones."""

import json

import click

__all__ = ["command"]


@click.command(name="repair")
@click.argument("dataset", type=click.Path())
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of words.")
def command(dataset: str, as_json: bool) -> None:
    """Set torn episodes of DATASET aside and rebuild it from the sound ones.

    Every row is read and every image decoded. What is not whole is moved to DATASET.quarantine with its reason; nothing
    is deleted. Episodes that a session saved but did not assemble are added. Running it again changes nothing.
    """
    from rich.console import Console
    from rich.progress import Progress

    from ..dataset.repair import repair

    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        bar = progress.add_task("reading episodes", total=None)
        report = repair(dataset, lambda done, total: progress.update(bar, completed=done, total=total))
    if as_json:
        click.echo(json.dumps(report.to_dict(), indent=2))
        return
    for line in report.lines():
        click.echo(line)
