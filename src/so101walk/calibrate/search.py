"""The search for the largest walk: center and scale that maximise the sum of log scales at a given acceptance.

The problem is: maximise ``sum_j log(scale_j)`` subject to ``P(center + scale z leaves the safe set) <= 1 - accept``
with ``z ~ N(0, I)``. The chance of leaving has two parts. That of a joint limit is a product of normal distribution
functions. That of a contact within the limits is an integral over the colliding poses, estimated by importance
sampling: poses are drawn once, judged once by the model, and from then on reweighted, so the estimate is a smooth
function of center and scale with an exact gradient and the same random numbers throughout (sample average
approximation; Kleywegt, Shapiro and Homem-de-Mello, SIAM J. Optim. 12(2), 2002).

The first poses are uniform within the limits. After each optimisation more are drawn around its result, a little wider
than it, and all draws are weighted as one mixture (the balance heuristic; Veach and Guibas, SIGGRAPH 1995). The
optimiser is SLSQP from several starts.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..errors import EnvelopeError
from ..joints import N
from ..scene.clearance import Clearance

__all__ = ["Draws", "Found", "leaving", "search"]

ROUNDS = 4
"""One uniform, then three around the result so far; after that the result moves by less than its own precision."""

STARTS = 6
LEAVE_FLOOR = 1e-12
"""A walk so small that it never leaves has log(0) in its constraint; this stands in for 0."""

WIDER = 1.4
"""Proposal scale over the present scale: wide enough that no colliding pose within 4 sigma has a large weight."""


@dataclass(frozen=True, eq=False)
class Found:
    """A center and scale, LeRobot units, shape (6,), with the chance of leaving that the search estimated for them."""

    center: NDArray[np.float64]
    scale: NDArray[np.float64]
    leave: float

    @property
    def log_volume(self) -> float:
        """The sum of log scales that the search maximises."""
        return float(np.log(self.scale).sum())


class Draws:
    """Poses drawn so far and the mixture they came from; keeps those that collide.

    Args:
        limits: Joint limits, LeRobot units. Shape (6, 2).
        collides: Judges poses (n, 6): True where one is not clear. Shape (n,).
    """

    def __init__(
        self, limits: NDArray[np.float64], collides: Callable[[NDArray[np.float64]], NDArray[np.bool_]]
    ) -> None:
        self._limits, self._collides = limits, collides
        self._bad: NDArray[np.float64] = np.zeros((0, N))
        self._laws: list[tuple[int, NDArray[np.float64], NDArray[np.float64]]] = []
        self._uniform = 0

    @property
    def total(self) -> int:
        """How many poses were drawn."""
        return self._uniform + sum(n for n, _, _ in self._laws)

    def add_uniform(self, n: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """Draw ``n`` poses uniformly within the limits; returns those that are clear, shape (m, 6)."""
        q = rng.uniform(self._limits[:, 0], self._limits[:, 1], (n, N))
        self._uniform += n
        return self._judge(q)

    def add_around(
        self, n: int, center: NDArray[np.float64], scale: NDArray[np.float64], rng: np.random.Generator
    ) -> None:
        """Draw ``n`` poses from N(center, scale^2); those outside the limits are draws too, but need no judging."""
        q = center + scale * rng.standard_normal((n, N))
        self._laws.append((n, center.copy(), scale.copy()))
        self._judge(q[((q >= self._limits[:, 0]) & (q <= self._limits[:, 1])).all(axis=1)])

    def colliding(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Colliding poses within the limits, shape (m, 6), and log of draws per unit of volume there, shape (m,)."""
        volume = float(np.prod(self._limits[:, 1] - self._limits[:, 0]))
        density = np.full(len(self._bad), self._uniform / volume)
        for n, center, scale in self._laws:
            density += n * np.exp(_log_normal(self._bad, center, scale))
        return self._bad, np.log(density)

    def _judge(self, q: NDArray[np.float64]) -> NDArray[np.float64]:
        bad = self._collides(q)
        self._bad = np.concatenate([self._bad, q[bad]])
        return q[~bad]


def leaving(
    center: NDArray[np.float64],
    scale: NDArray[np.float64],
    limits: NDArray[np.float64],
    bad: NDArray[np.float64],
    log_density: NDArray[np.float64],
) -> tuple[float, NDArray[np.float64], NDArray[np.float64]]:
    """Chance that N(center, scale^2) leaves the safe set, and its gradient by center and by log scale, shapes (6,).

    Args:
        center: LeRobot units. Shape (6,).
        scale: LeRobot units. Shape (6,).
        limits: Joint limits. Shape (6, 2).
        bad: Colliding poses within the limits. Shape (m, 6).
        log_density: Log of draws per unit of volume at each. Shape (m,).
    """
    from scipy.special import ndtr

    a, b = ((limits - center[:, None]) / scale[:, None]).T
    pdf_a, pdf_b = np.exp(-0.5 * a * a) / np.sqrt(2 * np.pi), np.exp(-0.5 * b * b) / np.sqrt(2 * np.pi)
    inside = np.maximum(ndtr(b) - ndtr(a), 1e-300)
    all_inside = float(np.prod(inside))
    by_center = all_inside * (pdf_b - pdf_a) / (scale * inside)
    by_log_scale = all_inside * (b * pdf_b - a * pdf_a) / inside
    x = (bad - center) / scale
    weight = np.exp(_log_normal(bad, center, scale) - log_density)
    contact = float(weight.sum())
    return 1.0 - all_inside + contact, by_center + weight @ x / scale, by_log_scale + weight @ (x * x - 1.0)


def search(
    limits: NDArray[np.float64],
    clearance: Clearance,
    leave: float,
    samples: int,
    rng: np.random.Generator,
    tick: Callable[[int], None] | None = None,
) -> Found:
    """The largest walk whose chance of leaving the safe set is at most ``leave``.

    Args:
        limits: Joint limits, LeRobot units. Shape (6, 2).
        clearance: Judges contacts.
        leave: Chance of leaving that is allowed, above 0 and below 1.
        samples: Poses to draw and judge in all.
        rng: Source of the draws.
        tick: Told the number of poses judged since it was last called.

    Raises:
        EnvelopeError: No pose within the limits is clear.
    """

    def collides(q: NDArray[np.float64]) -> NDArray[np.bool_]:
        out = np.zeros(len(q), dtype=bool)
        for i in range(0, len(q), 1000):
            out[i : i + 1000] = ~clearance.clear(q[i : i + 1000])
            if tick is not None:
                tick(len(out[i : i + 1000]))
        return out

    draws = Draws(limits, collides)
    clear = draws.add_uniform(samples // ROUNDS, rng)
    if len(clear) == 0:
        raise EnvelopeError(
            f"none of {draws.total} poses within the joint limits is clear of table, self and keep-out boxes. "
            "Lower the margins or move the keep-out boxes."
        )
    starts = [clear[i] for i in rng.choice(len(clear), min(STARTS - 1, len(clear)), replace=False)]
    best = _best([clear.mean(axis=0), *starts], draws, limits, leave)
    for _ in range(ROUNDS - 1):
        draws.add_around(samples // ROUNDS, best.center, WIDER * best.scale, rng)
        best = _best([best.center, clear.mean(axis=0), *starts[:2]], draws, limits, leave)
    return best


def _best(starts: list[NDArray[np.float64]], draws: Draws, limits: NDArray[np.float64], leave: float) -> Found:
    results = [_climb(start, draws, limits, leave) for start in starts]
    allowed = [r for r in results if r.leave <= leave * 1.01]
    return max(allowed or results, key=lambda r: r.log_volume if allowed else -r.leave)


def _climb(start: NDArray[np.float64], draws: Draws, limits: NDArray[np.float64], leave: float) -> Found:
    """SLSQP on center and log scale in units of each joint's width, from a small walk around ``start``."""
    from scipy.optimize import minimize

    bad, log_density = draws.colliding()
    width = limits[:, 1] - limits[:, 0]

    def split(x: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return limits[:, 0] + x[:N] * width, width * np.exp(x[N:])

    def slack(x: NDArray[np.float64]) -> float:
        p = max(leaving(*split(x), limits, bad, log_density)[0], LEAVE_FLOOR)
        return -float(np.log(p / leave))

    def slack_gradient(x: NDArray[np.float64]) -> NDArray[np.float64]:
        p, by_center, by_log_scale = leaving(*split(x), limits, bad, log_density)
        return -np.concatenate([by_center * width, by_log_scale]) / max(p, LEAVE_FLOOR)

    objective = np.concatenate([np.zeros(N), -np.ones(N)])
    inside = np.clip((start - limits[:, 0]) / width, 0.1, 0.9)
    x0 = np.concatenate([inside, np.full(N, np.log(0.05))])
    result = minimize(
        lambda x: float(objective @ x),
        x0,
        jac=lambda x: objective,
        method="SLSQP",
        bounds=[(0.02, 0.98)] * N + [(np.log(0.005), np.log(0.5))] * N,
        constraints=[{"type": "ineq", "fun": slack, "jac": slack_gradient}],
        options={"maxiter": 300, "ftol": 1e-7},
    )
    center, scale = split(result.x)
    return Found(center, scale, leaving(center, scale, limits, bad, log_density)[0])


def _log_normal(q: NDArray[np.float64], center: NDArray[np.float64], scale: NDArray[np.float64]) -> NDArray[np.float64]:
    x = (q - center) / scale
    return -0.5 * np.einsum("ij,ij->i", x, x) - float(np.log(scale).sum()) - 0.5 * N * np.log(2 * np.pi)
