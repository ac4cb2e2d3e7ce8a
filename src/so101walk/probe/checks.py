"""The five guards run on one probe; those that look at images are kept with the cache, since they don't change."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ..dataset.reader import Dataset
from . import guards
from .decode_guard import decode
from .encoders import Encoder, Fitted, Stored
from .guards import Guard
from .latents import Latents, Notes
from .measure import Fit
from .samples import Samples, Split

__all__ = ["run_guards"]

GUARD_FRAMES = 6


def run_guards(
    dataset: Dataset,
    digest: str,
    cameras: tuple[str, ...],
    encoder: Encoder | Stored | Fitted,
    latents: Latents,
    samples: Samples,
    split: Split,
    fitted: Fit,
    moving: list[int],
    rng: np.random.Generator,
) -> tuple[Guard, ...]:
    """Every check, those on images kept beside cached latents since they are of the same images and encoder."""
    seen = Guard("channels", "unknown", "the latents were made elsewhere: what their encoder was fed can't be seen")
    if not isinstance(encoder, Stored):
        base = encoder.base if isinstance(encoder, Fitted) else encoder
        seen = _kept(latents.notes, "channels", lambda: guards.channels(base, _some_views(dataset, cameras), cameras))
    return (
        seen,
        guards.alignment(latents.array, samples, split, fitted.readout.alpha, moving, rng),
        _kept(Notes.of_dataset(digest), "decode", lambda: decode(dataset, cameras, rng)),
        guards.leak(samples, split, fitted.shuffled_r2, _trained_on(encoder, digest)),
        guards.coverage(samples, split),
    )


def _trained_on(encoder: Encoder | Stored | Fitted, digest: str) -> tuple[int, ...]:
    """Episodes of the dataset of this digest that a run of ours saw in training; none where that isn't known."""
    trained_digest, episodes = getattr(encoder, "trained_on", ("", ()))
    return episodes if trained_digest == digest else ()


def _kept(notes: Notes | None, name: str, check: Callable[[], Guard]) -> Guard:
    kept = notes.get(name) if notes else None
    if isinstance(kept, dict):
        return Guard(**kept)
    found = check()
    if notes:
        notes.keep(name, vars(found))
    return found


def _some_views(dataset: Dataset, cameras: tuple[str, ...]) -> list[NDArray[np.uint8]]:
    """A few frames of each camera, from as many episodes as there are frames to take."""
    total = sum(e.length for e in dataset.episodes)
    places = np.linspace(0, total - 1, min(GUARD_FRAMES, total)).astype(int)
    wanted: dict[int, list[int]] = {}
    start = 0
    for e in dataset.episodes:
        mine = places[(places >= start) & (places < start + e.length)] - start
        if len(mine):
            wanted[e.index] = sorted(set(mine.tolist()))
        start += e.length
    return [np.concatenate([dataset.decode_at(c, e, numbers) for e, numbers in wanted.items()]) for c in cameras]
