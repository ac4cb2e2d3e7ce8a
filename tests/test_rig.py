"""The shipped rigs load; what can't be is refused."""

from pathlib import Path

import numpy as np
import pytest

from so101walk.errors import ConfigError
from so101walk.rig import LimitsConfig, Rig, load_rig

CAMERA = '[cameras.front]\ntype = "simulated"\n'


def rig_from(tmp_path: Path, text: str) -> Rig:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    return load_rig(path)


def test_the_default_rig() -> None:
    rig = load_rig("sim")
    assert rig.simulated
    assert rig.fps == 30
    assert list(rig.cameras) == ["front", "wrist"]
    assert {(c.width, c.height) for c in rig.cameras.values()} == {(224, 224)}
    assert rig.twin() is rig


def test_limits_of_the_gripper_are_the_same_angle_in_percent() -> None:
    velocity = LimitsConfig(velocity_deg_s=110.0).velocity()
    np.testing.assert_allclose(velocity[:5], 110.0)
    np.testing.assert_allclose(velocity[5], 100.0, rtol=1e-3)


@pytest.mark.parametrize("value", ["nan", "0", "-5", "inf"])
def test_a_limit_that_is_no_limit_is_refused(tmp_path: Path, value: str) -> None:
    with pytest.raises(ConfigError, match="velocity_deg_s"):
        rig_from(tmp_path, f'name = "mine"\n{CAMERA}[limits]\nvelocity_deg_s = {value}\n')


def test_a_whole_number_limit_works(tmp_path: Path) -> None:
    rig = rig_from(tmp_path, f'name = "mine"\n{CAMERA}[limits]\nvelocity_deg_s = 5\n')
    assert rig.limits.velocity_deg_s == 5.0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('name = "mine"\n', "at least one camera"),
        (f'name = "mine"\nfps = 0\n{CAMERA}', "fps is 0"),
        (f'name = "mine"\nfsp = 30\n{CAMERA}', "did you mean 'fps'"),
        ('name = "mine"\n[cameras.front]\nwidth = 225\n', "even"),
        ('name = "mine"\n[cameras.front]\ntype = "opencv"\n', "simulated or real as a whole"),
        ('name = "mine"\n[cameras."a b"]\n', "letters"),
        (f'name = "mine"\n{CAMERA}[arm]\ntype = "so102"\n', "arm: type is 'so102'"),
    ],
)
def test_a_rig_that_can_not_be_is_refused(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        rig_from(tmp_path, text)


def test_the_twin_of_a_real_rig_keeps_names_sizes_and_rates(tmp_path: Path) -> None:
    rig = rig_from(
        tmp_path,
        'name = "mine"\nfps = 25\n[arm]\ntype = "so101_follower"\ncontrol_hz = 50\n'
        '[cameras.top]\ntype = "opencv"\nwidth = 320\nheight = 240\noptions = { index_or_path = 0 }\n'
        '[cameras.hand]\ntype = "opencv"\nview = "wrist"\n',
    )
    twin = rig.twin()
    assert not rig.simulated
    assert twin.simulated
    assert twin.fps == 25
    assert twin.arm.control_hz == 50
    assert (twin.cameras["top"].width, twin.cameras["top"].view) == (320, "front")
    assert twin.cameras["hand"].view == "wrist"
