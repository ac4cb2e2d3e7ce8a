"""Training a recipe on a dataset: which episodes, which frames, which task; resumable, and blind to the joints.

What is read of the dataset: its images, the rows' places in their episodes, the marks of waypoints, and for ``lewm``
the actions. The state column is never opened. ``walk.z``, where there is one, is read for a single figure of the live
table (the pair correlation that a perfect latent would have), after the task is set up and without a way back into it.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ..dataset.durable import make_dirs
from ..dataset.reader import Dataset
from ..errors import DatasetError, UsageError
from ..probe.samples import split_episodes
from .fit import Look, State, Task, fit
from .frames import Frames, open_frames
from .lejepa import PairTask
from .lewm_task import WindowTask
from .model import best_device, parameter_count, seeded
from .pairs import Pairs, correlation, pairs_of
from .recipe import LejepaRecipe, LewmRecipe, Recipe
from .run import Run, build_module, load_run, load_state, save_state

__all__ = ["Report", "TrainSpec", "plan", "train"]

WEIGHT_STREAM, SPLIT_STREAM = 2, 3

WORDS = {
    "seed": "seed",
    "recipe": "recipe",
    "cameras": "set of cameras",
    "digest": "content of the dataset",
    "episodes": "split of episodes",
}


@dataclass(frozen=True)
class TrainSpec:
    """What a training is asked to do.

    Args:
        dataset: Folder of a LeRobot v3 dataset.
        out: Folder of the run.
        recipe: See :mod:`.recipe`.
        held_out: The probe's ``--val``: these episodes are neither trained on nor looked at. "" holds out none.
        held_out_seed: The probe's ``--seed``.
        seed: Of weights and batches.
        device: Torch device, the best there is if None.
        threads: Torch threads, torch's own choice if None.
        resume: Go on from the run's checkpoint.
        cache: Folder of decoded frames, the user's cache if None.
    """

    dataset: Path
    out: Path
    recipe: Recipe
    held_out: str = "0.3"
    held_out_seed: int = 0
    seed: int = 0
    device: str | None = None
    threads: int | None = None
    resume: bool = False
    cache: Path | None = None


@dataclass(frozen=True)
class Report:
    """Who is told how training goes.

    Attributes:
        decoding: Frames decoded and in all.
        begins: What will be trained: facts by name.
        step: After every step.
        look: At every look.
    """

    decoding: Callable[[int, int], None] = lambda done, total: None
    begins: Callable[[dict[str, Any]], None] = lambda facts: None
    step: Callable[[int], None] = lambda step: None
    look: Callable[[Look], None] = lambda look: None


def train(spec: TrainSpec, report: Report | None = None, should_stop: Callable[[], bool] = lambda: False) -> Run:
    """Train, saving at every look, and return the run as it ended.

    Raises:
        UsageError: The folder holds a run and ``resume`` isn't set, the run to resume is another one, or a bad split.
        DatasetError: The dataset can't be read, or has too few episodes or frames for the recipe.
    """
    report = report or Report()
    if spec.threads:
        torch.set_num_threads(spec.threads)
    device = best_device(spec.device)
    dataset = Dataset.open(spec.dataset)
    run = plan(spec, dataset)
    state = _begin(spec, run)
    frames = open_frames(dataset, run.cameras, spec.recipe.frames.size_px, spec.cache, report.decoding)
    run = replace(run, digest=frames.digest)
    if state is not None:
        _refuse_another(load_run(spec.out), run)
    with seeded(spec.seed, WEIGHT_STREAM):
        module = build_module(spec.recipe, len(run.cameras)).to(device)
    task, facts = _task(spec.recipe, module, dataset, frames, run, device)
    facts |= {
        "parameters": parameter_count(module),
        "device": str(device),
        "threads": torch.get_num_threads(),
        "torch": version("torch"),
        "so101walk": version("so101walk"),
    }
    report.begins({**facts, "step": state.step if state else 0})
    run = replace(run, facts=facts)
    run.save()
    begun, before = time.perf_counter(), _seconds(spec.out, state)

    def keep(state: State) -> None:
        nonlocal run
        save_state(spec.out, state)
        facts["seconds"] = round(before + time.perf_counter() - begun, 1)
        run = replace(run, history=tuple(state.history), best_step=state.best_step, done=state.done, facts=facts)
        run.save()

    def looked(look: Look, state: State) -> None:
        keep(state)
        report.look(look)

    recipe = spec.recipe
    ended = fit(task, recipe.optimiser, recipe.stop, spec.seed, state, looked, report.step, should_stop)
    if not ended.done and ended.best:
        keep(ended)
    return run


def plan(spec: TrainSpec, dataset: Dataset) -> Run:
    """Which episodes are held out, looked at and trained on; everything of the run but the digest.

    Raises:
        UsageError: The episodes to hold out can't be.
        DatasetError: Too few are left to train on.
    """
    everything = tuple(e.index for e in dataset.episodes)
    held: tuple[int, ...] = ()
    rest = everything
    if spec.held_out:
        split = split_episodes(everything, spec.held_out, spec.held_out_seed)
        held, rest = split.val, split.train
    if len(rest) < 2:
        raise DatasetError(
            f"{dataset.root} leaves {len(rest)} episode to train on; training needs one and validation another. "
            "Collect more, or hold out fewer"
        )
    rng = np.random.default_rng([spec.seed, SPLIT_STREAM])
    count = min(max(1, round(spec.recipe.stop.validation * len(rest))), len(rest) - 1)
    looked = {rest[i] for i in rng.permutation(len(rest))[:count]}
    return Run(
        root=spec.out,
        recipe=spec.recipe,
        dataset=str(spec.dataset),
        digest="",
        cameras=tuple(dataset.camera(c) for c in spec.recipe.frames.cameras) or dataset.cameras,
        train=tuple(e for e in rest if e not in looked),
        validation=tuple(sorted(looked)),
        held_out=held,
        seed=spec.seed,
    )


def _begin(spec: TrainSpec, run: Run) -> State | None:
    exists = (spec.out / "run.json").is_file()
    if exists and not spec.resume:
        raise UsageError(f"{spec.out} holds a run already; go on with --resume, or give another --out")
    if spec.resume and not exists:
        raise UsageError(f"{spec.out} holds no run to resume; leave --resume out")
    make_dirs(spec.out)
    if not exists:
        return None
    before = load_run(spec.out)
    _refuse_another(before, replace(run, digest=before.digest))
    return load_state(spec.out) or State()


def _refuse_another(old: Run, new: Run) -> None:
    from ..dataset.durable import plain

    for key, value in plain(new.identity).items():
        there = plain(old.identity)[key]
        if value != there:
            raise UsageError(
                f"{old.root} was trained with another {WORDS[key]}: {_shown(there, value)}. Give another --out"
            )


def _shown(there: Any, value: Any) -> str:
    if isinstance(there, dict) and isinstance(value, dict):
        key = next(k for k in value if value[k] != there.get(k))
        return f"{key}: {_shown(there.get(key), value[key])}"
    return f"{there!s:.80} there, {value!s:.80} now"


def _seconds(out: Path, state: State | None) -> float:
    return float((load_run(out).facts or {}).get("seconds", 0.0)) if state and state.step else 0.0


def _task(
    recipe: Recipe, module: torch.nn.Module, dataset: Dataset, frames: Frames, run: Run, device: torch.device
) -> tuple[Task, dict[str, Any]]:
    def rows_of(rows: NDArray[np.int64]) -> torch.Tensor:
        return torch.from_numpy(frames.images[rows])

    facts: dict[str, Any] = {
        "train_frames": int(np.isin(frames.timeline.episode, run.train).sum()),
        "validation_frames": int(np.isin(frames.timeline.episode, run.validation).sum()),
    }
    if isinstance(recipe, LewmRecipe):
        actions = dataset.columns(["action"])["action"].astype(np.float32)
        task = WindowTask(
            module, recipe, rows_of, actions, frames.timeline, run.train, run.validation, device, run.seed
        )
        return task, facts | {"windows": task.windows}
    train_pairs = _pairs(recipe, frames, run.train)
    validation = _pairs(recipe, frames, run.validation)
    perfect, walking = _perfect(dataset, validation)
    facts |= {"pairs": len(train_pairs), "perfect": perfect}
    return PairTask(module, recipe, rows_of, train_pairs, validation, device, run.seed, walking, perfect), facts


def _pairs(recipe: LejepaRecipe, frames: Frames, episodes: tuple[int, ...]) -> Pairs:
    p = recipe.pairs
    return pairs_of(frames.timeline, episodes, p.unit, p.lags, p.step_frames)


def _perfect(dataset: Dataset, pairs: Pairs) -> tuple[float | None, int]:
    """Pair correlation of the commanded latent ``walk.z`` and how many of its values walk.

    None and 6 where there is none.
    """
    if "walk.z" not in dataset.features:
        return None, 6
    z = dataset.columns(["walk.z"])["walk.z"].astype(np.float64)
    walking = z.std(axis=0) > 1e-6
    if not walking.any():
        return None, 6
    return correlation(z[:, walking], pairs, int(walking.sum())), int(walking.sum())
