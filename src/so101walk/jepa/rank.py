"""Ranking action chunks by how near the latent they lead to comes to the goal's (the study's G1b), and its baselines.

A ``lewm`` run rolls its own predictor. Any other encoder is frozen and gets a small predictor on top, trained on the
episodes that are not ranked. The baselines know actions only: how far one gets without seeing an image at all.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..dataset.reader import Dataset
from ..errors import DatasetError, UsageError
from .frames import timeline_of
from .pairs import Timeline
from .recipe import LewmRecipe
from .trials import Top1, Trials, draw_trials, hits, top1

__all__ = ["RankOptions", "RankResult", "action_baselines", "rank"]

Distances = NDArray[np.float64]


@dataclass(frozen=True)
class RankOptions:
    """What may be chosen about a ranking.

    Attributes:
        horizon: Strides from start to goal.
        stride: Frames a stride; that of the run for ``lewm``, else 1 unless given.
        rivals: Other chunks beside the true one.
        trials: Start frames.
        val: Episodes ranked in, as the probe's ``--val``; a run's own held-out episodes if None.
        seed: Of the split, the trials, the predictor and the resamples.
        device: Torch device, or ``auto``.
        steps: Training steps of the predictor on a frozen latent.
    """

    horizon: int = 4
    stride: int | None = None
    rivals: int = 15
    trials: int = 1000
    val: str | None = None
    seed: int = 0
    device: str = "auto"
    steps: int = 1500


@dataclass(frozen=True)
class RankResult:
    """How often the true chunk came first.

    Attributes:
        spec: Who ranked.
        dataset: Where.
        how: ``rollout`` (the model's own predictor) or ``frozen`` (a predictor trained on the frozen latent).
        top1: Against all rivals.
        top1_same: Against those of the same episode.
        top1_other: Against those of other episodes.
        chance: Of the three, in this order.
        baselines: Top-1 against all rivals from actions alone, by name.
        horizon_frames: Rows from start to goal.
        trials: How many.
        episodes: Ranked in.
        rivals: Other chunks a trial.
    """

    spec: str
    dataset: str
    how: str
    top1: Top1
    top1_same: Top1
    top1_other: Top1
    chance: tuple[float, float, float]
    baselines: dict[str, Top1]
    horizon_frames: int
    trials: int
    episodes: tuple[int, ...]
    rivals: int

    def to_json(self) -> dict[str, Any]:
        """Plain values; figures with intervals as ``{"value", "low", "high"}``."""
        values = vars(self) | {k: getattr(self, k).to_json() for k in ("top1", "top1_same", "top1_other")}
        values["interval"] = None if self.top1.low is None else [self.top1.low, self.top1.high]
        return values | {"baselines": {k: v.to_json() for k, v in self.baselines.items()}}


def rank(
    who: str, dataset: str | Path, options: RankOptions | None = None, say: Callable[[str], None] = lambda _: None
) -> RankResult:
    """Rank action chunks on a dataset's held-out episodes.

    Args:
        who: Folder of a run, or an encoder SPEC of the probe.
        dataset: Folder of a LeRobot v3 dataset with actions.
        options: See :class:`RankOptions`.
        say: Told in a line what is being done.

    Raises:
        UsageError: An option, run or SPEC that can't be used.
        DatasetError: The dataset can't be read, has no actions, or is too short for the horizon.
    """
    from .rank_models import frozen_distances, rollout_distances
    from .run import load_run

    options = options or RankOptions()
    data = Dataset.open(dataset)
    if "action" not in data.features:
        raise DatasetError(f"{dataset} has no column 'action': there is nothing to rank")
    timeline = timeline_of(data)
    actions = data.columns(["action"])["action"].astype(np.float64)
    run = load_run(who) if (Path(who) / "run.json").is_file() else None
    train, held = _split(data, run, options)
    model = run if run is not None and isinstance(run.recipe, LewmRecipe) else None
    trained_at = run.recipe.windows.stride if run is not None and isinstance(run.recipe, LewmRecipe) else 1
    stride = options.stride or trained_at
    rng = np.random.default_rng([options.seed, 5])
    trials = draw_trials(timeline, held, options.horizon * stride, options.rivals, options.trials, rng)
    spec = f"jepa:{who}" if run is not None else who
    if model is not None:
        if stride != trained_at:
            raise UsageError(f"--stride is {stride}, but {who} was trained at one of {trained_at} frames; leave it out")
        say("rolling the model out")
        distance = rollout_distances(model, data, timeline, actions, trials, options.device)
    else:
        say("encoding, and training a predictor on the frozen latent")
        distance = frozen_distances(spec, data, timeline, actions, trials, train, options)
    return _result(
        spec,
        str(dataset),
        "rollout" if model is not None else "frozen",
        distance,
        trials,
        actions,
        timeline,
        train,
        held,
        options,
    )


def action_baselines(
    actions: NDArray[np.float64], timeline: Timeline, train: tuple[int, ...], trials: Trials
) -> dict[str, Distances]:
    """Distances (n, K) that need no image.

    The goal pose is read from actions alone: it is the action at the goal's frame, which is none of the true chunk's.
    ``last_action``: from the chunk's last action to the goal pose. ``mean_displacement``: from the displacement that
    the chunk's mean action suggests, by a linear fit on the training episodes, to that from the start's action to the
    goal pose; a chunk is told relative to its own first action, so where the arm stands doesn't help.

    Args:
        actions: Of every row. Shape (N, 6).
        timeline: Where each row stands.
        train: Episodes that the linear fit is made on.
        trials: See :class:`Trials`.
    """
    scale = actions.std(axis=0)
    a = (actions - actions.mean(axis=0)) / np.where(scale > 1e-9, scale, 1.0)
    reach = trials.reach
    goal = a[trials.goal]
    last = a[trials.chunks + reach - 1]
    windows = np.lib.stride_tricks.sliding_window_view(a, reach, axis=0)  # (N - reach + 1, 6, reach)
    mean = windows.mean(axis=-1) - a[: len(windows)]
    rows = np.flatnonzero(
        np.isin(timeline.episode[:-reach], train) & (timeline.episode[:-reach] == timeline.episode[reach:])
    )
    weights, *_ = np.linalg.lstsq(mean[rows], a[rows + reach] - a[rows], rcond=None)
    suggested = mean[trials.chunks] @ weights
    wanted = goal - a[trials.start]
    return {
        "last_action": np.linalg.norm(last - goal[:, None], axis=-1),
        "mean_displacement": np.linalg.norm(suggested - wanted[:, None], axis=-1),
    }


def _split(data: Dataset, run: Any, options: RankOptions) -> tuple[tuple[int, ...], tuple[int, ...]]:
    from ..probe.samples import split_episodes

    everything = tuple(e.index for e in data.episodes)
    if options.val is None and run is not None and run.held_out and set(run.held_out) <= set(everything):
        held = run.held_out
        return tuple(e for e in everything if e not in held), held
    split = split_episodes(everything, options.val or "0.3", options.seed)
    return split.train, split.val


def _result(
    spec: str,
    dataset: str,
    how: str,
    distance: Distances,
    trials: Trials,
    actions: NDArray[np.float64],
    timeline: Timeline,
    train: tuple[int, ...],
    held: tuple[int, ...],
    options: RankOptions,
) -> RankResult:
    rng = np.random.default_rng([options.seed, 6])

    def score(d: Distances, among: NDArray[np.bool_] | None = None) -> Top1:
        return top1(hits(d, among), trials.episode, rng)

    own = options.rivals // 2
    return RankResult(
        spec=spec,
        dataset=dataset,
        how=how,
        top1=score(distance),
        top1_same=score(distance, trials.same),
        top1_other=score(distance, ~trials.same),
        chance=(1 / (options.rivals + 1), 1 / (own + 1), 1 / (options.rivals - own + 1)),
        baselines={name: score(d) for name, d in action_baselines(actions, timeline, train, trials).items()},
        horizon_frames=trials.reach,
        trials=len(trials),
        episodes=held,
        rivals=options.rivals,
    )
