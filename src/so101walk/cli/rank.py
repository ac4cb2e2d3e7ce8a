"""``so101walk rank``: does the latent tell which actions lead to a goal image?"""

from pathlib import Path

import click

__all__ = ["command"]


@click.command()
@click.argument("who", metavar="RUN|SPEC")
@click.argument("dataset", type=click.Path(path_type=Path))
@click.option("--horizon", type=click.IntRange(min=1), default=4, show_default=True, help="Strides from start to goal.")
@click.option("--stride", type=click.IntRange(min=1), help="Frames a stride  [default: the run's, else 1]")
@click.option(
    "--chunks",
    "-k",
    type=click.IntRange(min=2),
    default=16,
    show_default=True,
    help="Action chunks a trial, the true one among them.",
)
@click.option("--trials", type=click.IntRange(min=1), default=1000, show_default=True, help="Start frames.")
@click.option(
    "--val", help="Episodes to rank in: a share, a number, a list  [default: those the run held out, else 0.3]"
)
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of split, trials and predictor."
)
@click.option("--device", default="auto", show_default=True, help="Torch device.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Also write the result to this JSON file  [default: rank.json in RUN]",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout, all else on stderr.")
def command(
    who: str,
    dataset: Path,
    horizon: int,
    stride: int | None,
    chunks: int,
    trials: int,
    val: str | None,
    seed: int,
    device: str,
    out: Path | None,
    as_json: bool,
) -> None:
    """Rank action chunks by the latent they lead to, on held-out episodes of DATASET.

    RUN is a folder of `so101walk train`; SPEC any encoder of the probe. A lewm run rolls its own predictor, any other
    latent is frozen and gets a small one. Beside the top-1 stand chance and two baselines that see actions only.
    """
    import json

    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from ..dataset.durable import json_bytes, plain, write_bytes
    from ..jepa.rank import RankOptions, rank
    from .live import console_for

    err = Console(stderr=True, highlight=False, soft_wrap=True)
    options = RankOptions(horizon, stride, chunks - 1, trials, val, seed, device)
    result = rank(who, dataset, options, say=lambda line: err.print(escape(line)))
    out = out or (Path(who) / "rank.json" if (Path(who) / "run.json").is_file() else None)
    if out is not None:
        write_bytes(out, json_bytes(result.to_json()))
    if as_json:
        click.echo(json.dumps(plain(result.to_json()), allow_nan=False))
        return
    table = Table("ranked by", "rivals", "top-1", "95 %", "chance", box=None, pad_edge=False)
    for name, rivals, figure, chance in (
        (result.spec, "all", result.top1, result.chance[0]),
        ("", "same episode", result.top1_same, result.chance[1]),
        ("", "other episodes", result.top1_other, result.chance[2]),
        *((name.replace("_", " "), "all", figure, result.chance[0]) for name, figure in result.baselines.items()),
    ):
        spread = "-" if figure.low is None or figure.high is None else f"{figure.low:.3f} to {figure.high:.3f}"
        table.add_row(escape(name), rivals, f"{figure.value:.3f}", spread, f"{chance:.3f}")
    how = "rolled out" if result.how == "rollout" else "frozen, predictor on top"
    console = console_for(as_json)
    console.print(table)
    console.print(
        f"{result.trials} trials in {len(result.episodes)} held-out episodes, {result.horizon_frames} frames from "
        f"start to goal, {result.rivals + 1} chunks each; latent {how}"
    )
