"""Sweeps by hand, over the seam and not, and what can't be a range."""

import numpy as np
import pytest

from so101walk.calibrate.sweep import MIDDLE, Sweep, settle
from so101walk.errors import HardwareError
from so101walk.joints import JOINTS, MODEL_RANGE_RAD

USUAL = np.ptp(MODEL_RANGE_RAD, axis=1) * 4096 / (2 * np.pi)


def swept(middle: np.ndarray, half: np.ndarray) -> Sweep:
    """A sweep from the middle to one end, to the other, and back, as a 12-bit encoder shows it."""
    path = np.concatenate([np.linspace(0, -1, 50), np.linspace(-1, 1, 100), np.linspace(1, 0, 50)])
    ticks = np.round(middle + path[:, None] * half).astype(int) % 4096
    sweep = Sweep(ticks[0])
    for row in ticks:
        sweep.add(row)
    return sweep


def test_a_usual_sweep_is_taken_as_it_is() -> None:
    half = USUAL / 2
    ranges = settle(np.arange(6), swept(np.full(6, MIDDLE), half))
    assert ranges.homing_offset == tuple(range(6))
    np.testing.assert_allclose(ranges.range_min, MIDDLE - half, atol=1)
    np.testing.assert_allclose(ranges.range_max, MIDDLE + half, atol=1)


@pytest.mark.parametrize("middle", [100, 4000, 700, 3500])
def test_a_sweep_over_the_seam_moves_the_middle_away_from_it(middle: int) -> None:
    half = USUAL / 2
    middles = np.full(6, MIDDLE)
    middles[2] = middle
    sweep = swept(middles, half)
    assert sweep.low[2] < 0 or sweep.high[2] > 4095
    offset = np.array([0, 0, 55, 0, 0, 0])
    ranges = settle(offset, sweep)
    np.testing.assert_allclose([ranges.range_min[2], ranges.range_max[2]], [MIDDLE - half[2], MIDDLE + half[2]], atol=2)
    assert abs(ranges.homing_offset[2]) <= 2047
    raw_middle = (middle + offset[2]) % 4096  # present = raw - offset, and the same joint angle is the middle after
    assert (raw_middle - ranges.homing_offset[2]) % 4096 == pytest.approx(MIDDLE, abs=2)
    assert ranges.homing_offset[:2] == (0, 0)


def test_wrist_roll_may_be_left_out() -> None:
    half = USUAL / 2
    half[4] = 30
    ranges = settle(np.zeros(6), swept(np.full(6, MIDDLE), half))
    assert (ranges.range_min[4], ranges.range_max[4]) == (0, 4095)


@pytest.mark.parametrize(
    ("joint", "share", "words"),
    [
        ("elbow_flex", 0.3, "elbow_flex was moved through .* move it to both ends"),
        ("gripper", 2.0, "gripper seems to span"),
    ],
)
def test_what_can_not_be_a_range_is_refused(joint: str, share: float, words: str) -> None:
    half = USUAL / 2
    half[JOINTS.index(joint)] *= share
    with pytest.raises(HardwareError, match=words):
        settle(np.zeros(6), swept(np.full(6, MIDDLE), half))
