"""A quadratic probe: tells joints that aren't in the latent from joints that are, but not linearly."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .ridge import Readout, fit

__all__ = ["QUADRATIC_WIDTH", "Quadratic", "quadratic_predictions"]

LINEAR_WIDTH = 512
QUADRATIC_WIDTH = 32
"""Principal directions of the latent that enter linearly and as products of two: 512 + 32 * 33 / 2 features at most."""


@dataclass(frozen=True)
class Quadratic:
    """Predictions of the held-out rows (n_val, m), and how many latent directions entered as products."""

    predicted: NDArray[np.float64]
    directions: int


def quadratic_predictions(
    linear: Readout,
    latents: NDArray[Any],
    y: NDArray[np.float64],
    train: NDArray[np.int64],
    val: NDArray[np.int64],
    folds: NDArray[np.int64],
) -> Quadratic:
    """Ridge from the leading principal directions of the latent and all products of two of the first of them.

    Args:
        linear: The linear readout; its ``components`` are the directions.
        latents: Shape (n, d).
        y: Joints. Shape (n, m).
        train: Training rows.
        val: Held-out rows.
        folds: Folds of the training rows.
    """
    directions = linear.components[:, :LINEAR_WIDTH]
    k = min(QUADRATIC_WIDTH, directions.shape[1])
    first, second = np.triu_indices(k)
    train_scores = linear.project(latents[train], directions[:, :k])
    low, high = train_scores.min(axis=0), train_scores.max(axis=0)
    features = np.empty((len(latents), directions.shape[1] + len(first)), np.float32)
    for start in range(0, len(latents), 4096):
        part = slice(start, start + 4096)
        scores = linear.project(latents[part], directions)
        features[part, : directions.shape[1]] = scores
        bounded = scores[:, :k].clip(low, high)  # a product explodes where a direction leaves its training range
        features[part, directions.shape[1] :] = bounded[:, first] * bounded[:, second]
    return Quadratic(fit(features, y, train, folds).predict(features, val), k)
