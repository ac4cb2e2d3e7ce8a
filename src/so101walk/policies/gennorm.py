"""The same chain with generalized-normal marginals of shape alpha: the non-Gaussian ablation.

Each joint is a monotone map of a Gaussian chain (a Gaussian copula): ``u`` follows the OU step with correlation ``r``,
and ``z = g(u) = F^-1(Phi(u))`` where ``F`` is the distribution function of the generalized normal law of unit variance,
with density proportional to ``exp(-|z / a|^alpha)``, ``a^2 = Gamma(1/alpha) / Gamma(3/alpha)`` (Nadarajah, J. Appl.
Stat. 32(7), 2005). alpha = 2 is the Gaussian, 1 the Laplace law, towards infinity the uniform one. The chain is
stationary and reversible, so the walk's keep-the-old-state rule restricts it to the envelope exactly, as it does the OU
chain.

``rho`` is the lag-1 correlation of ``z`` itself, so that ablations compare walks of equal correlation. It is reached by
solving ``E[g(u) g(u')] = rho`` for the correlation ``r`` of the copula (:func:`copula_rho`). At lag k the correlation
of ``z`` is ``E[g(u) g(u_k)]`` at copula correlation ``r^k``, close to ``rho^k`` but equal to it only for alpha = 2,
because ``g`` has Hermite components of higher degree d that decay as ``r^(d k)``. The noise isn't additive in ``z``:
that is what the ablation breaks.
"""

import functools
import math
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..config import require
from ..envelope import Envelope
from ..joints import N
from .fields import active_joints, check_frames, check_rho
from .ou import ou_step
from .start import draw_inside

__all__ = ["GenNorm", "GenNormConfig", "check_alpha", "copula_rho", "from_gaussian", "lag_correlation", "to_gaussian"]

ALPHA_MIN, ALPHA_MAX = 0.5, 20.0
"""Below 0.5 the tails leave any envelope; above 20 the law is uniform to within a few percent of its width."""


def check_alpha(alpha: float) -> None:
    """Raise :class:`ConfigError` unless ``alpha`` is in the range that the arithmetic and the envelope bear."""
    require(
        math.isfinite(alpha) and ALPHA_MIN <= alpha <= ALPHA_MAX,
        f"alpha is {alpha}; the shape must be {ALPHA_MIN:g} to {ALPHA_MAX:g} (2 is the Gaussian, 1 the Laplace law)",
    )


def _width(alpha: float) -> float:
    return math.exp(0.5 * (math.lgamma(1.0 / alpha) - math.lgamma(3.0 / alpha)))


def from_gaussian(u: ArrayLike, alpha: float) -> NDArray[np.float64]:
    """``g(u) = F^-1(Phi(u))``, any shape. Worked in the upper tail of |u|, so that large values stay precise."""
    from scipy.special import gammainccinv, ndtr

    u = np.asarray(u, dtype=np.float64)
    return np.sign(u) * _width(alpha) * gammainccinv(1.0 / alpha, 2.0 * ndtr(-np.abs(u))) ** (1.0 / alpha)


def to_gaussian(z: ArrayLike, alpha: float) -> NDArray[np.float64]:
    """``Phi^-1(F(z))``, the inverse of :func:`from_gaussian`, any shape."""
    from scipy.special import gammaincc, ndtri

    z = np.asarray(z, dtype=np.float64)
    return -np.sign(z) * ndtri(0.5 * gammaincc(1.0 / alpha, np.abs(z / _width(alpha)) ** alpha))


def lag_correlation(r: float, alpha: float) -> float:
    """Correlation of ``g(u)`` and ``g(u')`` for a Gaussian pair of correlation ``r`` in [0, 1).

    Two-dimensional Gauss-Hermite quadrature of ``E[g(u) g(r u + sqrt(1 - r^2) eta)]`` with 160 nodes a dimension,
    divided by the quadrature's own ``E[g^2]``.
    """
    x, w = np.polynomial.hermite_e.hermegauss(160)
    w = w / w.sum()
    g = from_gaussian(x, alpha)
    g_next = from_gaussian(r * x[:, None] + math.sqrt(1.0 - r * r) * x[None, :], alpha)
    return float((w * g) @ (g_next @ w) / ((w * g) @ g))


@functools.lru_cache(maxsize=64)
def copula_rho(rho: float, alpha: float) -> float:
    """The copula correlation at which ``z`` has lag-1 correlation ``rho``; never below ``rho``. Equal at alpha = 2."""
    from scipy.optimize import brentq

    if alpha == 2.0:
        return rho
    return float(brentq(lambda r: lag_correlation(r, alpha) - rho, 0.0, 1.0 - 1e-12, xtol=1e-10))


class GenNorm:
    """The walk with generalized-normal marginals. See :class:`so101walk.policies.policy.Policy`.

    Args:
        alpha: Shape of the marginals, 0.5 to 20.
        rho: Lag-1 correlation of ``z``, above 0 and below 1.
        frames_per_step: Dataset frames from one waypoint to the next.
        settle_frames: The last of these, held still.
        active: Which joints walk, shape (6,).
        name: Short name, kept in the dataset.

    Raises:
        ConfigError: A value is out of its limits.
    """

    def __init__(
        self,
        alpha: float = 1.0,
        rho: float = 0.9,
        frames_per_step: int = 15,
        settle_frames: int = 3,
        active: NDArray[np.bool_] | None = None,
        name: str = "gennorm",
    ) -> None:
        check_alpha(alpha)
        check_rho(rho)
        check_frames(frames_per_step, settle_frames)
        self.alpha = alpha
        self.rho = rho
        self.copula_rho = copula_rho(rho, alpha)
        self.frames_per_step = frames_per_step
        self.settle_frames = settle_frames
        self.active = np.ones(N, dtype=bool) if active is None else active
        self.name = name

    def start(self, rng: np.random.Generator, envelope: Envelope) -> NDArray[np.float64]:
        """A draw from the stationary law on the active joints, restricted to the envelope. Shape (6,).

        Raises:
            EnvelopeError: The envelope refuses nearly everything.
        """
        return draw_inside(lambda: self._joints(rng.standard_normal(N)), envelope)

    def propose(self, z: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
        """One step of the chain from ``z`` (6,). Shape (6,)."""
        return self._joints(ou_step(to_gaussian(z, self.alpha), self.copula_rho, rng))

    def _joints(self, u: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.where(self.active, from_gaussian(u, self.alpha), 0.0)


@dataclass(frozen=True)
class GenNormConfig:
    """A policy file of kind ``gennorm``."""

    kind: Literal["gennorm"] = "gennorm"
    name: str = "gennorm"
    alpha: float = 1.0
    rho: float = 0.9
    frames_per_step: int = 15
    settle_frames: int = 3
    joints: dict[str, bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_alpha(self.alpha)
        check_rho(self.rho)
        check_frames(self.frames_per_step, self.settle_frames)
        active_joints(self.joints)

    def make(self) -> GenNorm:
        """A fresh policy for one episode."""
        active = active_joints(self.joints)
        return GenNorm(self.alpha, self.rho, self.frames_per_step, self.settle_frames, active, self.name)
