"""``so101walk export``: a dataset in another program's layout."""

from pathlib import Path

import click

__all__ = ["command"]


@click.command()
@click.argument("dataset", type=click.Path(path_type=Path))
@click.option("--format", "layout", type=click.Choice(["swm-hdf5"]), default="swm-hdf5", show_default=True)
@click.option("--out", type=click.Path(path_type=Path), help="The file  [default: <DATASET>.h5]")
@click.option("--size", type=int, help="Height and width of the images [px]  [default: the camera's]")
@click.option("--cameras", default="", help="Views by name, comma-separated  [default: all; without --tile the first]")
@click.option("--tile", is_flag=True, help="Put the views side by side.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout, all else on stderr.")
def command(
    dataset: Path, layout: str, out: Path | None, size: int | None, cameras: str, tile: bool, as_json: bool
) -> None:
    """Write DATASET as the HDF5 file that stable-worldmodel trains on, as a stream."""
    import json

    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from ..dataset.export import export_swm_hdf5
    from ..dataset.reader import Dataset
    from .live import console_for

    source = Dataset.open(dataset)
    target = out or dataset.with_name(dataset.name + ".h5")
    names = tuple(filter(None, (c.strip() for c in cameras.split(","))))
    err = Console(stderr=True)
    columns = (TextColumn("frames"), BarColumn(bar_width=None), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=err, disable=not err.is_terminal, transient=True) as bar:
        task = bar.add_task("frames", total=source.frame_count)
        done = export_swm_hdf5(source, target, size, names, tile, lambda n, total: bar.update(task, completed=n))
    if as_json:
        told = {"out": str(done.path), "episodes": done.episodes, "frames": done.frames, "pixels": list(done.pixels)}
        click.echo(json.dumps(told | {"cameras": list(done.cameras), "format": layout}))
        return
    height, width = done.pixels
    console_for(as_json).print(
        f"{done.frames} frames of {done.episodes} episodes, {width}x{height} px, in {escape(str(done.path))}"
    )
