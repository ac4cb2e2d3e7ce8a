import numpy as np
import pytest

from so101walk.calibrate import envelope as calibration
from so101walk.calibrate.envelope import calibrate_envelope, check_effort, hand_made
from so101walk.calibrate.judge import judge
from so101walk.calibrate.limits import joint_limits
from so101walk.envelope import load_envelope
from so101walk.errors import ConfigError, EnvelopeError
from so101walk.scene.clearance import ClearanceConfig, KeepOut

LIMITS = joint_limits()


@pytest.fixture(scope="module")
def quick():
    return calibrate_envelope("quick", LIMITS, ClearanceConfig(), 0.9, 2000, 0)


def test_it_is_proven_on_a_fresh_sample_and_holds_on_another(quick):
    envelope, judgement = quick
    assert judgement.leave_upper <= 0.1
    assert judge(envelope, 4000, np.random.default_rng(99)).accept > 0.885
    assert judgement.accept < 0.94  # not a needlessly small walk


def test_the_result_is_a_function_of_the_seed(quick):
    again, _ = calibrate_envelope("quick", LIMITS, ClearanceConfig(), 0.9, 2000, 0)
    assert again.digest == quick[0].digest
    other, _ = calibrate_envelope("quick", LIMITS, ClearanceConfig(), 0.9, 2000, 1)
    assert other.digest != quick[0].digest
    assert np.log(other.scale).sum() == pytest.approx(np.log(quick[0].scale).sum(), abs=0.2)


def test_numbers_are_as_the_file_will_state_them(quick):
    envelope = quick[0]
    assert (envelope.center == envelope.center.round(2)).all()
    assert envelope.scale == pytest.approx(envelope.scale.round(2), abs=1e-9)


def test_a_keep_out_box_moves_the_walk_away_from_it():
    wall_to_the_left = KeepOut("cupboard", (0.2, 0.28, 0.3), (0.6, 0.3, 0.6))
    envelope, judgement = calibrate_envelope(
        "boxed", LIMITS, ClearanceConfig(keep_out=(wall_to_the_left,)), 0.9, 2000, 0
    )
    assert envelope.center[0] > 5.0  # pans to the right, which is positive
    assert judgement.accept > 0.9


def test_the_shipped_envelope_has_these_limits_and_is_larger_than_the_hand_made_at_equal_acceptance():
    shipped = load_envelope("so101-tabletop")
    assert np.stack([shipped.lower, shipped.upper], axis=1) == pytest.approx(LIMITS)
    hand = hand_made(LIMITS, ClearanceConfig())
    assert hand.center[:5] == pytest.approx(np.degrees([0, -0.6, -0.3, 0.3, 0]))
    accept = judge(hand, 4000, np.random.default_rng(0)).accept
    assert 0.95 < accept < 0.985  # too large a walk: it doesn't reach 0.99
    smaller = type(hand)("", hand.center, hand.scale * 0.9, hand.lower, hand.upper, hand.clearance)
    assert np.log(shipped.scale).sum() > np.log(smaller.scale).sum()
    assert judge(smaller, 4000, np.random.default_rng(0)).accept < 0.993


@pytest.mark.parametrize("accept", [0.0, 0.3, 1.0, float("nan")])
def test_an_acceptance_out_of_range_is_refused(accept):
    with pytest.raises(ConfigError, match=r"it must be 0.5 to 0.999"):
        calibrate_envelope("x", LIMITS, ClearanceConfig(), accept, 4000, 0)


@pytest.mark.parametrize(("accept", "least"), [(0.9, 2000), (0.99, 5000), (0.999, 50_000)])
def test_too_few_samples_are_refused(accept, least):
    check_effort(accept, least)
    with pytest.raises(ConfigError, match=rf"acceptance of {accept} takes at least {least}"):
        calibrate_envelope("x", LIMITS, ClearanceConfig(), accept, least - 1, 0)


def test_what_cannot_be_proven_is_not_returned(monkeypatch):
    """A search that aims at twice what is allowed is caught by the proof."""
    monkeypatch.setattr(calibration, "AIM", 2.0)
    monkeypatch.setattr(calibration, "TRIES", 1)
    with pytest.raises(EnvelopeError, match=r"could be shown to be left with a chance of at most 0.1: .* 2000"):
        calibrate_envelope("x", LIMITS, ClearanceConfig(), 0.9, 2000, 0)
