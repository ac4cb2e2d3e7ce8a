"""SIGReg against its closed forms: every figure is the exact expectation, with a tolerance of a few standard errors."""

import math

import pytest
import torch

from so101walk.jepa import sigreg as s


def mean_statistic(draw, n: int, repeats: int, along: torch.Tensor) -> tuple[float, float]:
    values = torch.stack([s.sigreg(draw(n), along) for _ in range(repeats)])
    return float(values.mean()), float(values.std() / math.sqrt(repeats))


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("n", [8, 64, 256])
def test_a_gaussian_batch_scores_the_null_mean_whatever_its_size(n):
    g = generator(n)
    along = s.directions(16, 4, g).double()
    mean, error = mean_statistic(lambda k: torch.randn(k, 4, generator=g, dtype=torch.float64), n, 400, along)
    assert abs(mean - s.null_mean()) < 4 * error
    assert error < 0.03 * s.null_mean()


@pytest.mark.parametrize(("mu", "sigma"), [(0.5, 1.0), (0.0, 1.5), (0.0, 0.4), (-0.3, 0.8)])
def test_a_shifted_or_scaled_normal_scores_its_closed_form(mu, sigma):
    g = generator(3)
    t, _ = s.knots()
    psi = torch.exp(torch.complex(-0.5 * (sigma * t) ** 2, mu * t))
    mean, error = mean_statistic(
        lambda k: mu + sigma * torch.randn(k, 1, generator=g, dtype=torch.float64), 64, 600, torch.ones(1, 1).double()
    )
    assert abs(mean - s.expected(psi, 64)) < 4 * error
    assert mean > s.null_mean() + 10 * error or sigma < 1


def test_uniform_marginals_score_their_closed_form_along_each_direction():
    g = generator(5)
    along = s.directions(8, 3, g).double()
    t, _ = s.knots()
    half_width = math.sqrt(3.0)  # unit variance
    angle = half_width * along.T.unsqueeze(-1) * t  # (8, 3, knots)
    psi = torch.sinc(angle / math.pi).prod(dim=1).to(torch.complex128)
    mean, error = mean_statistic(
        lambda k: half_width * (2 * torch.rand(k, 3, generator=g, dtype=torch.float64) - 1), 256, 600, along
    )
    assert abs(mean - s.expected(psi, 256)) < 4 * error
    assert mean > s.null_mean() + 4 * error


def test_the_null_mean_is_the_integral_it_approximates():
    # 2 int_0^3 exp(-t^2/2) (1 - exp(-t^2)) dt = sqrt(2 pi) erf(3/sqrt 2) - sqrt(2 pi / 3) erf(3 sqrt 1.5)
    exact = math.sqrt(2 * math.pi) * math.erf(3 / math.sqrt(2)) - math.sqrt(2 * math.pi / 3) * math.erf(
        3 * math.sqrt(1.5)
    )
    assert s.null_mean() == pytest.approx(exact, rel=2e-3)
    assert s.null_mean(4001) == pytest.approx(exact, rel=1e-6)


def test_the_gradient_is_that_of_finite_differences():
    g = generator(7)
    x = torch.randn(2, 5, 3, generator=g, dtype=torch.float64, requires_grad=True)
    along = s.directions(4, 3, g).double()
    assert torch.autograd.gradcheck(lambda v: s.sigreg(v, along), (x,), eps=1e-6, atol=1e-7)


def test_descending_it_makes_a_collapsed_batch_gaussian():
    g = generator(11)
    x = (0.05 * torch.randn(256, 2, generator=g)).requires_grad_()
    optimiser = torch.optim.Adam([x], lr=0.05)
    for _ in range(300):
        optimiser.zero_grad()
        s.sigreg(x, s.directions(32, 2, g)).backward()
        optimiser.step()
    with torch.no_grad():
        assert float((torch.cov(x.T) - torch.eye(2)).norm()) < 0.15
        assert float(s.sigreg(x, s.directions(64, 2, g))) < s.null_mean()


def test_samples_along_leading_axes_are_averaged():
    g = generator(13)
    x = torch.randn(3, 20, 4, generator=g)
    along = s.directions(6, 4, g)
    each = torch.stack([s.sigreg(part, along) for part in x])
    assert float(s.sigreg(x, along)) == pytest.approx(float(each.mean()), rel=1e-5)


def test_directions_are_unit_isotropic_and_seeded():
    a, b = s.directions(4000, 3, generator(1)), s.directions(4000, 3, generator(1))
    assert torch.equal(a, b)
    assert torch.allclose(a.norm(dim=0), torch.ones(4000), atol=1e-5)
    assert float((a @ a.T / 4000 - torch.eye(3) / 3).abs().max()) < 0.03
