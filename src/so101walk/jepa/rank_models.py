"""Where a chunk of actions leads, in latent space: a world model's rollout, or a small predictor on a frozen latent."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ..dataset.reader import Dataset
from ..errors import UsageError
from ..probe.encoders import EncoderOptions, Fitted, Stored, check_latents, load_encoder
from ..probe.latents import dataset_digest, extract
from ..probe.samples import Samples
from .fit import Draws, fit
from .frames import open_frames
from .lejepa import encode_rows
from .lewm import LeWM, rollout
from .lewm_task import action_chunks
from .model import best_device, one_thread, seeded
from .pairs import Timeline
from .rank import RankOptions
from .recipe import OptimiserConfig, StopConfig
from .run import Run, load_module
from .trials import Trials

__all__ = ["FrozenPredictor", "frozen_distances", "rollout_distances"]

KEPT_VARIANCE = 0.99
MOST_DIRECTIONS = 256
"""A frozen latent is reduced to its leading principal directions.

So many as hold this share of its variance, at most so many.
"""


def rollout_distances(
    run: Run,
    dataset: Dataset,
    timeline: Timeline,
    actions: NDArray[np.float64],
    trials: Trials,
    device: str = "auto",
    cache: Path | None = None,
) -> NDArray[np.float64]:
    """Distances (n, K) from the latent that a ``lewm`` run expects after each chunk to the goal frame's latent.

    The predictor is given as many latents before the start as its history holds and the episode has.
    """
    where = best_device(None if device == "auto" else device)
    model = load_module(run).to(where)
    assert isinstance(model, LeWM)
    w = run.recipe.windows  # type: ignore[union-attr]
    frames = open_frames(dataset, run.cameras, run.recipe.frames.size_px, cache)
    known = np.minimum(timeline.frame[trials.start] // w.stride, w.history - 1)
    back = known[:, None] - np.arange(w.history)  # strides before the start; below 0 where there is no such latent
    rows = trials.start[:, None] - w.stride * np.maximum(back, 0)
    needed, place = np.unique(np.concatenate([rows.ravel(), trials.goal]), return_inverse=True)
    latents = encode_rows(model, lambda r: torch.from_numpy(frames.images[r]), needed, where)
    z, goals = latents[place[: rows.size]].reshape(*rows.shape, -1), latents[place[rows.size :]]
    act = actions.astype(np.float32)
    distance = np.empty(trials.chunks.shape)
    with torch.inference_mode():
        for count in np.unique(known):
            mine = np.flatnonzero(known == count)
            for part in np.array_split(mine, max(1, len(mine) // 64)):
                past = action_chunks(act, rows[part, :count], w.stride, w.relative_actions)
                firsts = trials.chunks[part][..., None] + w.stride * np.arange(trials.reach // w.stride)
                chunk = action_chunks(act, firsts, w.stride, w.relative_actions)  # (b, K, H, 6 * stride)
                b, k = chunk.shape[:2]
                whole = np.concatenate([np.repeat(past[:, None], k, axis=1), chunk], axis=2)
                before = np.repeat(z[part, None, : count + 1], k, axis=1)
                end = rollout(model, _flat(before, where), _flat(whole, where), w.history).view(b, k, -1).cpu().numpy()
                distance[part] = np.linalg.norm(end - goals[part, None], axis=-1)
    return distance


def _flat(array: NDArray[np.float32], device: torch.device) -> Tensor:
    return torch.from_numpy(array.reshape(-1, *array.shape[2:])).float().to(device)


class FrozenPredictor(nn.Module):
    """The change of a latent (n, d) that a chunk of actions (n, a) makes: two hidden layers beside a linear path."""

    def __init__(self, latent: int, action: int, hidden: int = 512) -> None:
        super().__init__()
        width = latent + action
        self.linear = nn.Linear(width, latent)
        self.deep = nn.Sequential(
            nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, hidden), nn.GELU(), nn.Linear(hidden, latent)
        )

    def forward(self, latent: Tensor, action: Tensor) -> Tensor:
        """The latent after the chunk, (n, d)."""
        x = torch.cat([latent, action], dim=-1)
        return latent + self.linear(x) + self.deep(x)


class _ChunkTask:
    """Training of a :class:`FrozenPredictor`; a tenth of the starts, in whole episodes, is for looks."""

    images_per_step = 256

    def __init__(
        self, module: FrozenPredictor, z: Tensor, action: Tensor, after: Tensor, looked: NDArray[np.bool_]
    ) -> None:
        self.module: nn.Module = module
        self._data = z, action, after
        self._train, self._looked = np.flatnonzero(~looked), np.flatnonzero(looked)

    def loss(self, draws: Draws) -> tuple[Tensor, dict[str, float]]:
        """Squared error on a random batch."""
        pick = self._train[draws.rows.integers(len(self._train), size=self.images_per_step)]
        loss = self._error(pick)
        return loss, {"loss": float(loss.detach())}

    def evaluate(self) -> dict[str, float]:
        """Squared error on the starts kept for looks."""
        error = float(self._error(self._looked))
        return {"loss": error, "criterion": error}

    def _error(self, rows: NDArray[np.int64]) -> Tensor:
        z, action, after = (t[rows] for t in self._data)
        return (self.module(z, action) - after).square().mean()


def frozen_distances(
    spec: str,
    dataset: Dataset,
    timeline: Timeline,
    actions: NDArray[np.float64],
    trials: Trials,
    train: tuple[int, ...],
    options: RankOptions,
) -> NDArray[np.float64]:
    """Distances (n, K) by a predictor that is trained, on episodes that aren't ranked, on top of a frozen latent.

    Raises:
        UsageError: Fewer than two training episodes are longer than the horizon.
    """
    z = _reduced(_latents(spec, dataset, options), np.isin(timeline.episode, train))
    scale = actions[np.isin(timeline.episode, train)].std(axis=0)
    act = ((actions - actions.mean(axis=0)) / np.where(scale > 1e-9, scale, 1.0)).astype(np.float32)
    starts = np.flatnonzero(np.isin(timeline.episode, train))
    starts = starts[starts + trials.reach < len(timeline.episode)]
    starts = starts[timeline.episode[starts] == timeline.episode[starts + trials.reach]]
    fit_on = np.unique(timeline.episode[starts])
    if len(fit_on) < 2:
        raise UsageError(
            "a predictor on a frozen latent needs two training episodes longer than the horizon; lower --horizon"
        )
    looked = np.isin(timeline.episode[starts], fit_on[:: min(10, len(fit_on))])
    chunk = torch.from_numpy(action_chunks(act, starts, trials.reach, relative=False))
    with one_thread(), seeded(options.seed, 7):
        module = FrozenPredictor(z.shape[1], chunk.shape[1])
    latent = torch.from_numpy(z)
    task = _ChunkTask(module, latent[starts], chunk, latent[starts + trials.reach], looked)
    optimiser = OptimiserConfig(
        lr=1e-3, weight_decay=1e-3, warmup_steps=min(100, options.steps), batch=256, steps=options.steps
    )
    with one_thread():
        fit(task, optimiser, StopConfig(every=max(1, options.steps // 10)), options.seed)
    module.eval()
    ranked = torch.from_numpy(action_chunks(act, trials.chunks, trials.reach, relative=False))
    n, k = trials.chunks.shape
    with torch.inference_mode():
        begin = latent[trials.start][:, None].expand(n, k, -1)
        end = module(begin.reshape(n * k, -1), ranked.reshape(n * k, -1)).view(n, k, -1)
        return (end - latent[trials.goal][:, None]).norm(dim=-1).double().numpy()


def _latents(spec: str, dataset: Dataset, options: RankOptions) -> NDArray[Any]:
    samples = Samples.of(dataset)
    encoder = load_encoder(spec, EncoderOptions(options.device, dataset.cameras, options.seed))
    if isinstance(encoder, Stored):
        found: NDArray[Any] = encoder.read(samples.episode, samples.frame)
        check_latents(spec, found, len(samples.rows), samples.where)
        return found
    base = encoder.base if isinstance(encoder, Fitted) else encoder
    digest = dataset_digest(dataset, dataset.cameras)
    found = extract(dataset, digest, samples, dataset.cameras, [base], 256)[0].array
    if isinstance(encoder, Fitted):
        train = np.arange(len(samples.rows))
        return encoder.reduce(found, train, np.random.default_rng([options.seed, 8]))
    return found


def _reduced(latents: NDArray[Any], train: NDArray[np.bool_]) -> NDArray[np.float32]:
    """Leading principal directions of the training rows, scaled together to unit mean variance. (n, d) to (n, k)."""
    x = np.asarray(latents, dtype=np.float64)
    x = x - x[train].mean(axis=0)
    values, vectors = np.linalg.eigh(np.cov(x[train].T).reshape(x.shape[1], x.shape[1]))
    values, vectors = values[::-1], vectors[:, ::-1]
    share = np.cumsum(values) / values.sum()
    count = min(int(np.searchsorted(share, KEPT_VARIANCE)) + 1, MOST_DIRECTIONS, x.shape[1])
    return (x @ vectors[:, :count] / np.sqrt(values[:count].mean())).astype(np.float32)
