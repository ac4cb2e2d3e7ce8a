"""``so101walk gate``: gate 1, from nothing to a verdict."""

from pathlib import Path

import click

__all__ = ["command"]


@click.command()
@click.option(
    "--out", type=click.Path(path_type=Path), required=True, help="The gate's folder, for example runs/gate1."
)
@click.option("--quick", is_flag=True, help="A small gate of minutes: less data, shorter training.")
@click.option("--walk", type=click.Path(path_type=Path), help="A random-walk dataset to use instead of collecting one.")
@click.option(
    "--goal", type=click.Path(path_type=Path), help="A goal-directed dataset to use instead of collecting one."
)
@click.option(
    "--recipe", help="gate, lejepa, lewm, or a recipe's TOML file  [default: gate; lejepa for datasets of your own]"
)
@click.option("--seeds", type=click.IntRange(min=1), help="Trainings of each kind  [default: 3, quick 2]")
@click.option("--frames", type=click.IntRange(min=40), help="Frames of each dataset  [default: 100000, quick 12000]")
@click.option("--steps", type=click.IntRange(min=1), help="Optimiser steps  [default: the recipe's, quick at most 500]")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of datasets and trainings.")
@click.option("--ablate-rho", multiple=True, metavar="RHO", help="Also a walk of this correlation a step (repeatable).")
@click.option("--ablate-alpha", multiple=True, metavar="ALPHA", help="Also a generalized-normal walk of this shape.")
@click.option("--ablate-frames", multiple=True, metavar="N", help="Also a walk of so many frames.")
@click.option("--ablate-view", multiple=True, metavar="CAMERA", help="Also train on this view of the walk alone.")
@click.option("--ablate-truncation", multiple=True, metavar="FACTOR", help="Also a walk on an envelope scaled by this.")
@click.option("--workers", type=click.IntRange(min=1), help="Processes  [default: one for each core, at most 8]")
@click.option("--plan", "plan_only", is_flag=True, help="Say what would be done and how long it takes; do nothing.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout, all else on stderr.")
def command(
    out: Path,
    quick: bool,
    walk: Path | None,
    goal: Path | None,
    recipe: str | None,
    seeds: int | None,
    frames: int | None,
    steps: int | None,
    seed: int,
    ablate_rho: tuple[str, ...],
    ablate_alpha: tuple[str, ...],
    ablate_frames: tuple[str, ...],
    ablate_view: tuple[str, ...],
    ablate_truncation: tuple[str, ...],
    workers: int | None,
    plan_only: bool,
    as_json: bool,
) -> int:
    """Train the same recipe on a random walk and on goal-directed data, and say which latent holds the joints.

    In simulation both datasets are collected first; --walk and --goal use an arm's instead. The bars are frozen before
    any latent exists. Give the same command again to go on where it stopped.
    """
    import json
    import os

    from rich.console import Console
    from rich.markup import escape

    from ..jepa.gate_plan import ablation, chosen_plan, estimate_s
    from ..jepa.recipe import load_recipe
    from .live import StopSignals, console_for
    from .live_train import with_steps

    cores = workers or min(8, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
    usual = "lejepa" if walk or goal else "gate"
    base = chosen_plan(load_recipe(recipe or usual), quick, seeds, frames, seed, walk, goal)
    size = base.arm("walk").frames
    flags = {
        "rho": ablate_rho, "alpha": ablate_alpha, "frames": ablate_frames, "view": ablate_view,
        "truncation": ablate_truncation,
    }  # fmt: skip
    plan = base.with_arms([ablation(kind, value, size) for kind, values in flags.items() for value in values])
    plan = plan if steps is None else plan.with_recipe(with_steps(plan.recipe, steps))
    err = Console(stderr=True, highlight=False, soft_wrap=True)
    stages = estimate_s(plan, cores)
    told = ", ".join(f"{name} {seconds / 60:.0f}" for name, seconds in stages.items())
    err.print(
        f"about {sum(stages.values()) / 60:.0f} minutes from nothing on {cores} cores like those it was measured on "
        f"({told})"
    )
    if plan_only:
        click.echo(json.dumps({"seconds": stages, "cores": cores}))
        return 0

    from ..jepa.gate import Gate, run_gate

    with StopSignals("finishing; what is done stays, the same command goes on (again to stop at once)") as stop:
        report = run_gate(Gate(out, plan), cores, lambda line: err.print(escape(line)), stop.asked)
    if report is None:
        err.print("stopped; give the same command again to go on")
        return 130
    if as_json:
        click.echo(json.dumps(report, allow_nan=False))
        return 0
    console_for(as_json).print(escape((out / "report.md").read_text()))
    err.print(f"report: {escape(str(out / 'report.md'))}")
    return 0
