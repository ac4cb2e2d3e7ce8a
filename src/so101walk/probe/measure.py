"""What is computed from latents and joints once they are there: readout, angles, theorem, references."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..dataset.reader import Dataset
from .guards import PERMUTATIONS
from .latents import Latents
from .quadratic import LINEAR_WIDTH, quadratic_predictions
from .recovery import (
    TURNS_FAR_DEG,
    Recovery,
    angle_targets,
    orthogonality_error,
    plain_r2,
    recovery,
    reverse_r2,
    whitened,
    within_share,
)
from .ridge import Readout, fit
from .samples import Samples, Split
from .theorem import Theorem, theorem_5_3, waypoint_pairs

__all__ = ["Fit", "plain_figures", "score_references", "theorem_figures"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Fit:
    """The linear readout, and what was fit beside it on the same sums: angles, and joints that were shuffled."""

    readout: Readout
    predicted: Floats
    far: list[int]
    angles: Floats
    shuffled_r2: Floats

    @classmethod
    def of(
        cls,
        latents: NDArray[Any],
        samples: Samples,
        train: NDArray[np.int64],
        val: NDArray[np.int64],
        folds: NDArray[np.int64],
        rng: np.random.Generator,
    ) -> "Fit":
        q = samples.q
        m = q.shape[1]
        far = [j for j, unit in enumerate(samples.units) if unit == "deg" and np.ptp(q[:, j]) > TURNS_FAR_DEG]
        angles = angle_targets(q[:, far])
        shuffled = [q[rng.permutation(len(q))] for _ in range(PERMUTATIONS)]
        targets = np.concatenate([q, angles, *shuffled], axis=1)
        every = fit(latents, targets, train, folds, components=LINEAR_WIDTH)
        predicted = every.predict(latents, val)
        r2 = plain_r2(targets[val], predicted)
        first = m + angles.shape[1]
        by_permutation = np.nanmean(r2[first:].reshape(PERMUTATIONS, m), axis=1)
        readout = every.of_targets(0, m)
        return cls(readout, predicted[:, :m], far, r2[m:first].reshape(2, -1).T, by_permutation)


def plain_figures(
    latents: Latents,
    samples: Samples,
    fitted: Fit,
    train: NDArray[np.int64],
    val: NDArray[np.int64],
    folds: NDArray[np.int64],
    moving: list[int],
) -> dict[str, Any]:
    share = within_share(samples.q[val], samples.episode[val])
    orthogonality = orthogonality_error(fitted.readout, latents.array, samples.q, train, val, moving)
    names = [samples.joints[j] for j in fitted.far]
    return {
        "reverse_r2": reverse_r2(samples.q, latents.array, train, val, folds),
        "orthogonality_error": orthogonality,
        "within_share": dict(zip(samples.joints, share.tolist(), strict=True)),
        "angles": {n: {"sin": float(s), "cos": float(c)} for n, (s, c) in zip(names, fitted.angles, strict=True)},
    }


def theorem_figures(
    dataset: Dataset,
    samples: Samples,
    split: Split,
    latents: Latents,
    readout: Readout,
    train: NDArray[np.int64],
    moving: list[int],
    extra: dict[str, Any],
) -> Theorem | None:
    """Theorem 5.3 on held-out pairs of waypoints; None, and why, where a dataset has none."""
    if not {"walk.z", "walk.waypoint"} <= dataset.features.keys():
        extra["theorem_reason"] = "the dataset has no walk.z and walk.waypoint, so no pairs a step apart"
        return None
    columns = dataset.columns(["walk.z", "walk.waypoint"])
    waypoint = columns["walk.waypoint"].reshape(-1)[samples.rows].astype(np.int64)
    z = columns["walk.z"][samples.rows].astype(np.float64)
    first, second = waypoint_pairs(samples.episode, samples.frame, waypoint)
    held = np.isin(samples.episode[first], split.val)
    first, second = first[held], second[held]
    active = [j for j in range(z.shape[1]) if z[:, j].std() > 1e-6 and j in moving]
    if len(first) < 2 * len(active) or not active or not np.isfinite(z).all():
        extra["theorem_reason"] = (
            f"{len(first)} pairs of waypoints among the held-out frames are too few"
            f"{' (--stride leaves waypoints out)' if samples.stride > 1 else ''}"
        )
        return None
    if latents.width == len(active):
        h: Floats | None = np.asarray(latents.array, dtype=np.float64)
        name = "latent"
    else:
        name = "readout"
        h = whitened(readout.predict(latents.array)[:, active], train)
    if h is None:
        extra["theorem_reason"] = "the readout's covariance is singular"
        return None
    found = theorem_5_3(h[first], h[second], z[first][:, active], z[second][:, active], name)
    if not found.rho > 0.0:
        extra["theorem_reason"] = (
            f"waypoints a step apart have correlation {found.rho:.2f}; the theorem needs one above 0"
        )
        return None
    return found


def score_references(
    references: dict[str, NDArray[Any]],
    latents: NDArray[Any],
    samples: Samples,
    linear: Readout,
    train: NDArray[np.int64],
    val: NDArray[np.int64],
    folds: NDArray[np.int64],
    rng: np.random.Generator,
) -> dict[str, Recovery]:
    q, episode = samples.q, samples.episode[val]

    def score(predicted: Floats) -> Recovery:
        return recovery(samples.joints, q[val], predicted, episode, rng)

    found = {"mean": score(np.tile(q[train].mean(axis=0), (len(val), 1)))}
    for name, other in references.items():
        found[name] = score(fit(other, q, train, folds).predict(other, val))
    quadratic = quadratic_predictions(linear, latents, q, train, val, folds)
    found["quadratic"] = score(quadratic.predicted)
    return found
