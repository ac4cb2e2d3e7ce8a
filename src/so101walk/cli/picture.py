"""``so101walk picture``: a contact sheet of a dataset."""

import json
from pathlib import Path

import click

__all__ = ["command"]


@click.command()
@click.argument("dataset", type=click.Path(path_type=Path))
@click.option("--episode", type=click.IntRange(min=0), default=0, show_default=True, help="Which episode.")
@click.option(
    "--out", type=click.Path(path_type=Path), help="The PNG to write  [default: beside the dataset, DATASET.png]"
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout, all else on stderr.")
def command(dataset: Path, episode: int, out: Path | None, as_json: bool) -> None:
    """Draw a contact sheet of DATASET as a PNG: camera views over joint traces. Its path is printed."""
    from ..dataset.picture import contact_sheet
    from ..dataset.reader import Dataset

    opened = Dataset.open(dataset)
    root = opened.root.resolve()
    path = contact_sheet(opened, out or root.with_name(root.name + ".png"), episode)
    click.echo(json.dumps({"picture": str(path)}) if as_json else f"picture: {path}")
