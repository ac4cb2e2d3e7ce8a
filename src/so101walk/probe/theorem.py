"""Theorems 5.1 and 5.3 of "When Does LeJEPA Learn a World Model?" (arXiv 2605.26379) as figures on pairs of a walk."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Theorem", "theorem_5_3", "waypoint_pairs"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Theorem:
    """What theorem 5.3 says of a latent h of n values, on pairs one step apart.

    Attributes:
        h: What h is: ``latent``, or ``readout`` (the whitened linear readout) where the latent has another size than z.
        pairs: How many.
        rho: Correlation of the pairs of z, pooled over its values.
        loss: L(h) = E||h(z') - h(z)||^2.
        least: 2 (1 - rho) n, what theorem 5.1 allows a whitened h.
        delta: Alignment slack, L(h) - 2 (1 - rho) tr Cov(h), floored at 0.
        eps: Whitening error, ||Cov(h) - I||_F.
        d: D = delta / (2 rho (1 - rho)).
        bound: D + (eps + D)^2.
        error: E||h - Q z||^2 at the best orthogonal Q.
    """

    h: str
    pairs: int
    rho: float
    loss: float
    least: float
    delta: float
    eps: float
    d: float
    bound: float
    error: float

    @property
    def holds(self) -> bool:
        """Whether the error is within the bound."""
        return self.error <= self.bound


def theorem_5_3(
    h: Floats, h_next: Floats, z: Floats, z_next: Floats, name: str = "latent", rho: float | None = None
) -> Theorem:
    """The figures of theorem 5.3 on a sample of pairs.

    Covariances are taken over both ends of the pairs and about their common mean; so is rho, unless given. Then delta
    is 0 to the last digit for h = Q z on any sample, rather than its sampling noise times 1 / (2 rho (1 - rho)).

    Args:
        h: Latents at the first ends. Shape (k, n).
        h_next: At the second ends. Shape (k, n).
        z: True states, standardised, at the first ends. Shape (k, n).
        z_next: At the second ends. Shape (k, n).
        name: What h is.
        rho: The walk's own, if it is to be used instead of the sample's.
    """
    n = z.shape[1]
    (z, z_next), (h, h_next) = _centred(z, z_next), _centred(h, h_next)
    if rho is None:
        rho = float(2.0 * (z * z_next).sum() / ((z**2).sum() + (z_next**2).sum()))
    ends_h, ends_z = np.concatenate([h, h_next]), np.concatenate([z, z_next])
    covariance = ends_h.T @ ends_h / len(ends_h)
    loss = float(((h_next - h) ** 2).sum(axis=1).mean())
    delta = max(0.0, loss - 2.0 * (1.0 - rho) * float(np.trace(covariance)))
    if delta < 1e-12 * loss:
        delta = 0.0
    eps = float(np.linalg.norm(covariance - np.eye(n)))
    d = delta / (2.0 * rho * (1.0 - rho)) if 0.0 < rho < 1.0 else float("inf")
    u, _, vt = np.linalg.svd(ends_z.T @ ends_h)
    error = float(((ends_h - ends_z @ (u @ vt)) ** 2).sum(axis=1).mean())
    return Theorem(name, len(h), rho, loss, 2.0 * (1.0 - rho) * n, delta, eps, d, d + (eps + d) ** 2, error)


def _centred(first: Floats, second: Floats) -> tuple[Floats, Floats]:
    mean = np.concatenate([first, second]).mean(axis=0)
    return first - mean, second - mean


def waypoint_pairs(
    episode: NDArray[np.int64], frame: NDArray[np.int64], waypoint: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows of consecutive waypoints of one episode.

    Args:
        episode: Episode of each row. Shape (n,).
        frame: Frame of each row. Shape (n,).
        waypoint: Number of the waypoint reached at the row, -1 elsewhere. Shape (n,).

    Returns:
        Rows of the first ends and of the second ends. Shape (k,) each.
    """
    reached = np.flatnonzero(waypoint >= 0)
    reached = reached[np.lexsort((frame[reached], episode[reached]))]
    first, second = reached[:-1], reached[1:]
    one_step = (episode[first] == episode[second]) & (waypoint[second] == waypoint[first] + 1)
    return first[one_step], second[one_step]
