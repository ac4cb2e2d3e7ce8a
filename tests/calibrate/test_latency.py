"""The latency estimate on made-up moves of which everything is known."""

import numpy as np
import pytest

from so101walk.calibrate.latency import MoveSeen, estimate_latency
from so101walk.errors import HardwareError
from so101walk.motion import min_jerk


def made(rng: np.random.Generator, latency_s: float, moves: int = 24, noise: float = 0.05, fps: float = 30.0) -> list:
    """Moves of 12 deg in 0.35 s, out and back, seen by a camera that is late and sees one end of them better."""
    out = []
    for k in range(moves):
        joint_s = np.arange(-0.3, 1.4, 0.01) + rng.uniform(0, 0.01)
        share = min_jerk(joint_s / 0.35)
        joint = 12 * (share if k % 2 == 0 else 1 - share)
        image_s = np.arange(-0.1 + rng.uniform(0, 1 / fps), 1.0, 1 / fps) + rng.normal(0, 0.001, 40)[: _count(fps)]
        at = np.interp(image_s - latency_s, joint_s, joint)
        texture = 1 + 0.04 * (at[1:] + at[:-1]) / 2
        turned = np.abs(np.diff(at)) * texture
        difference = np.sqrt(turned) + noise * rng.standard_normal(len(turned)) + 0.3
        out.append(MoveSeen(joint_s, joint, image_s, difference))
    return out


def _count(fps: float) -> int:
    return len(np.arange(-0.1, 1.0, 1 / fps))


@pytest.mark.parametrize("latency_ms", [0.0, 33.3, 120.0, 350.0])
def test_a_known_latency_is_found_within_a_few_milliseconds(latency_ms: float) -> None:
    found = estimate_latency("front", made(np.random.default_rng(3), latency_ms / 1000))
    assert found.latency_ms == pytest.approx(latency_ms, abs=4.0)
    assert 0 < found.half_width_ms < 5
    assert found.correlation > 0.8


def test_the_interval_holds_its_promise() -> None:
    inside = 0
    widths = []
    for seed in range(60):
        found = estimate_latency("front", made(np.random.default_rng(seed), 0.08, noise=0.15))
        inside += abs(found.latency_ms - 80.0) <= found.half_width_ms
        widths.append(found.half_width_ms)
    assert inside >= 50, "95 % of 60, less what chance takes once in a thousand times"
    assert np.median(widths) < 6


def test_what_can_not_be_resolved_is_refused() -> None:
    rng = np.random.default_rng(1)
    blind = [MoveSeen(m.joint_s, m.joint, m.image_s, rng.random(len(m.difference))) for m in made(rng, 0.1)]
    with pytest.raises(HardwareError, match=r"camera 'wrist': only in \d+ of 24 moves do the images follow the arm"):
        estimate_latency("wrist", blind)
    still = [MoveSeen(m.joint_s, m.joint, m.image_s, np.zeros(len(m.difference))) for m in made(rng, 0.1)]
    with pytest.raises(HardwareError, match="only in 0 of 24"):
        estimate_latency("wrist", still)
    with pytest.raises(HardwareError, match="only in"):
        estimate_latency("wrist", made(rng, 0.1, moves=4))


def test_a_latency_that_wanders_is_too_vague() -> None:
    rng = np.random.default_rng(2)
    moves = [m for k in range(6) for m in made(rng, 0.05 + 0.04 * k, moves=2)]
    with pytest.raises(HardwareError, match="too vague"):
        estimate_latency("front", moves)
