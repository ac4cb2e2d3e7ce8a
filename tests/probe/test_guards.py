"""Each guard passes on a sound probe and fires on the fault that it is for."""

from dataclasses import replace

import numpy as np
import pytest

from so101walk.dataset.reader import Dataset
from so101walk.joints import JOINTS, UNITS
from so101walk.probe import guards
from so101walk.probe.decode_guard import decode
from so101walk.probe.pixel_encoders import Pixels
from so101walk.probe.ridge import fit, folds_of
from so101walk.probe.samples import Samples, Split

from .made import CENTER, SCALE, images_of, make_dataset, ou_chain

CAMERAS = ("observation.images.front", "observation.images.wrist")


@pytest.fixture(scope="module")
def views():
    rng = np.random.default_rng(0)
    return list(images_of(CENTER + SCALE * rng.standard_normal((6, 6))).values())


class Fed:
    """An encoder that hands its network what ``feed`` makes of a view, and hides or shows it."""

    spec, fingerprint = "fed", None

    def __init__(self, feed):
        self.feed = feed

    def encode(self, views):
        return np.concatenate([self.feed(v).reshape(len(v), -1).astype(np.float64) for v in views], axis=1)


class Showing(Fed):
    def inputs(self, view):
        return self.feed(view).transpose(0, 3, 1, 2).astype(np.float64)


def _one_channel_thrice(view):
    return np.repeat(view[..., :1], 3, axis=3)


@pytest.mark.parametrize("encoder", [Pixels(16), Fed(lambda v: v), Showing(lambda v: v / 127.5 - 1.0)])
def test_channels_pass_for_a_sound_encoder(encoder, views):
    found = guards.channels(encoder, views, CAMERAS)
    assert found.status == "pass"
    assert min(found.figures["influence"]["front"]) > 0.2


@pytest.mark.parametrize("kind", [Fed, Showing])
def test_one_channel_fed_thrice_fires(kind, views):
    found = guards.channels(kind(_one_channel_thrice), views, CAMERAS)
    assert found.status == "warn"
    assert "front: green, front: blue, wrist: green, wrist: blue" in found.message
    assert found.figures["influence"]["front"][0] > 0.9


def test_one_channel_fed_thrice_for_one_camera_only_fires(views):
    class Half(Fed):
        def encode(self, views):
            good, bad = views
            return np.concatenate([x.reshape(len(x), -1) * 1.0 for x in (good, _one_channel_thrice(bad))], axis=1)

    found = guards.channels(Half(None), views, CAMERAS)
    assert found.status == "warn"
    assert "wrist: green" in found.message
    assert "front" not in found.message


def test_luma_is_no_fault(views):
    luma = np.array([0.299, 0.587, 0.114])
    assert guards.channels(Fed(lambda v: v @ luma), views, CAMERAS).status == "pass"


def test_swapped_channels_fire_where_the_input_can_be_seen(views):
    found = guards.channels(Showing(lambda v: v[..., ::-1]), views, CAMERAS)
    assert found.status == "warn"
    assert "follows the image's" in found.message


def test_a_channel_mixed_into_another_fires(views):
    def mixed(view):
        out = view.astype(np.float64)
        out[..., 2] = 0.97 * out[..., 1] + 0.03 * out[..., 2]
        return out

    found = guards.channels(Showing(mixed), views, CAMERAS)
    assert found.status == "warn"


def test_gray_images_and_a_deaf_encoder_fire(views):
    gray = guards.channels(Pixels(16), [_one_channel_thrice(v) for v in views], CAMERAS)
    assert gray.status == "warn"
    assert "are gray" in gray.message
    constant = guards.channels(Fed(lambda v: np.ones((len(v), 2))), views, CAMERAS)
    assert constant.status == "warn"


class Walk:
    """Samples of an OU walk, and latents that see the joints of ``shift`` frames later."""

    def __init__(self, shift=0, episodes=12, length=80, rho=0.8, seed=0):
        rng = np.random.default_rng(seed)
        z = ou_chain(rng, episodes, length + 20, 6, rho)
        state = (CENTER + SCALE * z[:, 10:-10]).reshape(-1, 6)
        seen = z[:, 10 + shift : length + 10 + shift].reshape(-1, 6)
        self.latents = (seen + 0.3 * rng.standard_normal(seen.shape)) @ rng.standard_normal((6, 10))
        episode, frame = np.repeat(np.arange(episodes), length), np.tile(np.arange(length), episodes)
        rows = np.arange(len(state))
        self.samples = Samples(JOINTS, UNITS, 30, 1, state, episode, rows, episode, frame)
        self.split = Split(tuple(range(4, episodes)), (0, 1, 2, 3))
        train = self.samples.in_episodes(self.split.train)
        self.alpha = fit(self.latents, state, train, folds_of(episode[train], frame[train])).alpha
        self.rng = rng

    def alignment(self):
        return guards.alignment(self.latents, self.samples, self.split, self.alpha, list(range(6)), self.rng)


def test_alignment_passes_in_step():
    found = Walk().alignment()
    assert found.status == "pass"
    assert abs(found.figures["peak_frames"]) < 0.3
    assert max(found.figures["curve"]) == found.figures["curve"][10]


@pytest.mark.parametrize(("shift", "meaning"), [(3, "joints are stamped late"), (-2, "images lag")])
def test_alignment_fires_with_the_shift_and_what_it_means(shift, meaning):
    found = Walk(shift).alignment()
    assert found.status == "warn"
    assert f"at a shift of {shift:+d} frames" in found.message
    assert abs(found.figures["peak_frames"] - shift) < 0.5
    assert meaning in found.message


def test_alignment_rarely_cries_wolf():
    alarms = sum(Walk(seed=s, episodes=10, length=50, rho=0.97).alignment().status == "warn" for s in range(30))
    assert alarms <= 2


def test_alignment_of_a_latent_that_holds_nothing_is_unknown():
    walk = Walk()
    walk.latents = walk.rng.standard_normal(walk.latents.shape)
    assert walk.alignment().status == "unknown"


def test_alignment_of_short_episodes_is_unknown_and_of_strided_frames_is_not():
    assert Walk(length=4).alignment().status == "unknown"
    walk = Walk(2)
    s = walk.samples
    kept = np.flatnonzero(s.frame % 4 == 0)
    walk.samples = replace(s, stride=4, rows=kept, episode=s.episode[kept], frame=s.frame[kept])
    walk.latents = walk.latents[kept]
    found = walk.alignment()
    assert found.status == "warn"
    assert abs(found.figures["peak_frames"] - 2) < 0.5


def test_leak_passes_on_a_sound_split():
    walk = Walk()
    found = guards.leak(walk.samples, walk.split, np.array([-0.02, -0.01, 0.003, -0.004, -0.01]))
    assert found.status == "pass"


def test_leak_fires_on_shared_and_on_copied_episodes_and_on_a_readout_that_knows_too_much():
    walk = Walk()
    low = np.array([-0.01, -0.02])
    shared = guards.leak(walk.samples, Split((1, 2, 5), (0, 1)), low)
    assert (shared.status, "[1]" in shared.message) == ("warn", True)
    state = walk.samples.state.copy()
    state[walk.samples.state_episode == 2] = state[walk.samples.state_episode == 7]
    known = guards.leak(walk.samples, walk.split, low, trained_on=(*walk.split.train, walk.split.val[0]))
    assert known.status == "warn"
    assert f"trained on episodes [{walk.split.val[0]}]" in known.message
    assert guards.leak(walk.samples, walk.split, low, trained_on=walk.split.train).status == "pass"
    copied = guards.leak(replace(walk.samples, state=state), walk.split, low)
    assert copied.status == "warn"
    assert "episode 2 has the joints of training episode 7" in copied.message
    assert guards.leak(walk.samples, walk.split, np.array([0.3, 0.31, 0.29])).status == "warn"


def test_a_readout_of_shuffled_joints_scores_above_zero_only_if_training_frames_are_scored():
    rng = np.random.default_rng(1)
    latents, joints = rng.standard_normal((300, 200)), rng.standard_normal((300, 6))
    train, scored = np.arange(200), np.arange(100, 300)
    readout = fit(latents, joints, train, folds_of(train // 40, train % 40), strengths=(1e-3,))

    def mean_r2(rows):
        error = ((readout.predict(latents, rows) - joints[rows]) ** 2).sum(axis=0)
        return (1 - error / ((joints[rows] - joints[rows].mean(axis=0)) ** 2).sum(axis=0)).mean()

    walk = Walk()
    assert guards.leak(walk.samples, walk.split, np.array([mean_r2(scored[100:])])).status == "pass"
    assert guards.leak(walk.samples, walk.split, np.array([mean_r2(scored[:100])])).status == "warn"


def test_coverage_names_the_joints_that_hardly_move():
    walk = Walk()
    assert guards.coverage(walk.samples, walk.split).status == "pass"
    state = walk.samples.state.copy()
    held = np.isin(walk.samples.state_episode, walk.split.val)
    state[held, 3] = CENTER[3] + 0.5 * np.sin(np.arange(held.sum()))
    state[:, 5] = 40.0
    found = guards.coverage(replace(walk.samples, state=state), walk.split)
    assert found.status == "warn"
    assert found.figures["still"] == ["wrist_flex", "gripper"]


def test_decode_is_equal_to_stock_lerobot(dataset):
    found = decode(Dataset.open(dataset), CAMERAS, np.random.default_rng(0))
    assert found.status == "pass"
    assert found.figures["frames"] >= 2 * 2 * 4


def test_decode_fires_on_another_frame(dataset):
    class Late(Dataset):
        def decode_at(self, camera, episode, frame_indices):
            length = self.episode(episode).length
            return super().decode_at(camera, episode, [min(i + 1, length - 1) for i in frame_indices])

    opened = Dataset.open(dataset)
    found = decode(Late(opened.root, opened.info, opened.episodes), CAMERAS, np.random.default_rng(0))
    assert found.status == "warn"
    assert "not the same image" in found.message


def test_decode_tells_what_stock_lerobot_can_not_read(tmp_path):
    path = make_dataset(tmp_path / "broken", episodes=2, length=20)
    opened = Dataset.open(path)
    (path / "meta/tasks.parquet").unlink()
    found = decode(opened, CAMERAS, np.random.default_rng(0))
    assert found.status == "warn"
    assert "stock LeRobot can't read" in found.message
