"""``so101walk train``: a SIGReg JEPA on a dataset's images."""

from pathlib import Path

import click

__all__ = ["command"]


@click.command()
@click.argument("dataset", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), required=True, help="The run's folder, for example runs/walk.")
@click.option("--recipe", default="lejepa", show_default=True, help="lejepa, lewm, or a recipe's TOML file.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of weights and batches.")
@click.option("--steps", type=click.IntRange(min=1), help="Optimiser steps  [default: the recipe's]")
@click.option(
    "--val",
    "held_out",
    default="0.3",
    show_default=True,
    help="Episodes left to the probe, as its own --val: a share, a number, a list, or none.",
)
@click.option("--val-seed", type=click.IntRange(min=0), default=0, show_default=True, help="The probe's --seed.")
@click.option("--device", help="Torch device  [default: a GPU if there is one]")
@click.option("--threads", type=click.IntRange(min=1), help="CPU threads  [default: all cores]")
@click.option("--resume", is_flag=True, help="Go on from the run's last checkpoint.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout, all else on stderr.")
def command(
    dataset: Path,
    out: Path,
    recipe: str,
    seed: int,
    steps: int | None,
    held_out: str,
    val_seed: int,
    device: str | None,
    threads: int | None,
    resume: bool,
    as_json: bool,
) -> int:
    """Train a JEPA on the images of DATASET, without any joint value, and keep it in a run's folder.

    Pairs of nearby frames are drawn together while SIGReg keeps the latent spread as a Gaussian (lejepa), or the next
    latent is predicted from the actions (lewm). Episodes that the probe scores on are left untouched. Ctrl-C saves;
    --resume goes on, to the same weights.
    """
    from ..jepa.recipe import load_recipe
    from .live import StopSignals
    from .live_train import LiveTrain, run_as_json, with_steps

    chosen = with_steps(load_recipe(recipe), steps)

    from ..jepa.train import TrainSpec, train

    spec = TrainSpec(
        dataset=dataset,
        out=out,
        recipe=chosen,
        held_out="" if held_out.lower() in ("", "none", "0") else held_out,
        held_out_seed=val_seed,
        seed=seed,
        device=device,
        threads=threads,
        resume=resume,
    )
    words = "finishing: the state is saved, --resume goes on (again to stop at once)"
    with StopSignals(words) as stop, LiveTrain(chosen, as_json) as live:
        run = train(spec, live.report(), stop.asked)
    if as_json:
        click.echo(run_as_json(run))
    else:
        live.print_end(run)
    return 0 if run.done else 130
