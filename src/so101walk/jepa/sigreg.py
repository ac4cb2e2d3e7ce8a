"""SIGReg: how far a batch of latents is from N(0, I), by characteristic functions along random directions.

For each unit direction the empirical characteristic function of the projected batch is compared with that of N(0, 1),
``exp(-t^2 / 2)``, under the weight ``exp(-t^2 / 2)`` (the Epps-Pulley statistic, Biometrika 70, 1983); the integral
over [-3, 3] is a trapezoid rule over knots on [0, 3], doubled by symmetry. The mean over directions, times the batch
size, is the regulariser of LeJEPA (Balestriero and LeCun, arXiv 2511.08544).

For n independent rows whose projection has characteristic function ``psi``, the expected statistic is exactly
``sum_k w_k ((1 - |psi_k|^2) + n |psi_k - phi_k|^2)``; under N(0, I) that is ``sum_k w_k (1 - exp(-t_k^2))``, whatever
n.
"""

import math

import torch
from torch import Tensor

__all__ = ["KNOTS", "T_MAX", "directions", "expected", "knots", "null_mean", "sigreg"]

KNOTS = 17
T_MAX = 3.0
"""Knots and their reach (arXiv 2605.26379, the paper's recipe for pixels)."""


def knots(count: int = KNOTS, t_max: float = T_MAX) -> tuple[Tensor, Tensor]:
    """Points ``t`` on [0, t_max] and their weights: trapezoid, doubled by symmetry, times ``exp(-t^2 / 2)``.

    Returns:
        Two float64 tensors of shape (count,).
    """
    t = torch.linspace(0.0, t_max, count, dtype=torch.float64)
    w = torch.full_like(t, 2.0 * t_max / (count - 1))
    w[0] = w[-1] = t_max / (count - 1)
    return t, w * torch.exp(-0.5 * t * t)


def directions(count: int, dim: int, generator: torch.Generator, device: torch.device | str = "cpu") -> Tensor:
    """Uniform random unit vectors as columns, drawn on the CPU so that a seed means the same everywhere.

    (dim, count).
    """
    a = torch.randn(dim, count, generator=generator)
    return (a / a.norm(dim=0, keepdim=True)).to(device)


def sigreg(x: Tensor, along: Tensor, count: int = KNOTS, t_max: float = T_MAX) -> Tensor:
    """The statistic of a batch; differentiable in ``x``.

    Args:
        x: Latents (..., n, d): n rows are one sample; leading axes are separate samples, averaged over.
        along: Unit directions (d, m).
        count: Knots on [0, t_max].
        t_max: Where the integral is cut.

    Returns:
        A scalar, at least 0; about :func:`null_mean` for independent rows of N(0, I).
    """
    t, w = (v.to(x.device, x.dtype) for v in knots(count, t_max))
    angle = (x @ along.to(x.dtype)).unsqueeze(-1) * t  # (..., n, m, count)
    real = angle.cos().mean(dim=-3) - torch.exp(-0.5 * t * t)
    imaginary = angle.sin().mean(dim=-3)
    return x.shape[-2] * ((real.square() + imaginary.square()) @ w).mean()


def expected(psi: Tensor, n: int, count: int = KNOTS, t_max: float = T_MAX) -> float:
    """The expected statistic of n independent rows, from the characteristic function of their projections.

    Args:
        psi: Characteristic function at the knots, complex, shape (..., count): one row a direction, averaged over.
        n: Rows of a batch.
        count: As for :func:`sigreg`.
        t_max: As for :func:`sigreg`.
    """
    t, w = knots(count, t_max)
    spread = 1.0 - psi.abs().square()
    bias = (psi - torch.exp(-0.5 * t * t)).abs().square()
    return float(((spread + n * bias) @ w).mean())


def null_mean(count: int = KNOTS, t_max: float = T_MAX) -> float:
    """The expected statistic of N(0, I): what a perfectly Gaussian batch scores, whatever its size."""
    t, w = knots(count, t_max)
    return math.fsum((w * (1.0 - torch.exp(-t * t))).tolist())
