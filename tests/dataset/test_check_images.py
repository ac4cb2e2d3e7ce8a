from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from so101walk.dataset.check_images import Look, check_looks, look_at_camera
from so101walk.dataset.decoding import Span
from so101walk.dataset.episodes import Episode
from so101walk.dataset.video import VideoWriter

from .planted import FPS, SIZE, episodes, picture
from .stock_dataset import SIZE as STOCK_SIZE

CAMERA = "observation.images.front"
N = 150


def film(tmp_path, change=None, count=2, keep=slice(None)):
    """Episodes whose images go through a real codec, one file each; ``change`` plants in the last one."""
    made = episodes(count, N, seed=6)
    if change is not None:
        change(made[-1])
    found = []
    for k, c in enumerate(made):
        path = tmp_path / f"{k}.mp4"
        writer = VideoWriter(path, FPS, *SIZE)
        for row in c["image_of"][keep]:
            writer.add(picture(c["observation.state"][row]))
        writer.finish()
        span = Span(path, 0.0, N, float(FPS))
        found.append(Episode(k, N, k * N, (k + 1) * N, ("Walk.",), Path("none"), {CAMERA: span}))
    rows = dict(enumerate(made))
    dataset = SimpleNamespace(
        root=tmp_path, episodes=found, repair_hint="", features={CAMERA: {"shape": (*SIZE, 3)}}, fps=FPS
    )
    return dataset, rows


def findings(dataset, rows):
    counted = []
    looks, found = look_at_camera(dataset, CAMERA, dataset.episodes, counted.append)
    return found + list(check_looks(dataset, CAMERA, looks, rows))


def test_images_that_follow_the_joints_have_no_findings(tmp_path):
    assert findings(*film(tmp_path)) == []


def test_progress_counts_every_image(tmp_path):
    dataset, _ = film(tmp_path)
    counted = []
    looks, _ = look_at_camera(dataset, CAMERA, dataset.episodes, counted.append)
    assert sum(counted) == 2 * N
    assert all(look.seen.all() for look in looks)
    assert looks[0].size == SIZE


def test_one_picture_for_20_rows_while_the_joints_move(tmp_path):
    def stuck(c):
        c["image_of"][70:90] = 70

    (finding,) = findings(*film(tmp_path, stuck))
    assert (finding.code, finding.severity, finding.episode) == ("images.repeated", "error", 1)
    assert (
        finding.message
        == "front: rows 70 to 89 show one picture (20 rows) while the joints move: the camera stood still"
    )


def test_a_stalled_camera_that_is_marked_is_a_warning(tmp_path):
    def stuck(c):
        c["image_of"][70:90] = 70
        c["sync.repeated.front"][71:90] = 1

    (finding,) = findings(*film(tmp_path, stuck))
    assert (finding.code, finding.severity) == ("images.stalled", "warning")


def test_a_still_arm_may_show_one_picture(tmp_path):
    def rest(c):
        c["observation.state"][70:100] = c["observation.state"][70]

    assert findings(*film(tmp_path, rest)) == []


def test_images_that_are_100_ms_late_are_not_repeats(tmp_path):
    def late(c):
        c["observation.state"][60:80] = c["observation.state"][60]
        c["image_of"][3:] = np.arange(N - 3)

    assert findings(*film(tmp_path, late)) == []


def test_a_camera_slower_than_the_rows(tmp_path):
    def eighteen_fps(c):
        phase = np.arange(N)[:, None] / 12 + np.arange(6)
        c["observation.state"] = 40 * np.sin(phase)
        c["image_of"] = (np.arange(N) * 18 // 30) * 30 // 18

    assert [f.code for f in findings(*film(tmp_path, eighteen_fps))] == ["images.doubled"]


def test_one_picture_in_the_whole_dataset(tmp_path):
    def stuck(c):
        c["image_of"][:] = 0

    (finding,) = findings(*film(tmp_path, stuck, count=1))
    assert finding.message == "front: shows one picture in the whole dataset while the joints move"


def test_fewer_images_than_rows(tmp_path):
    found = findings(*film(tmp_path, keep=slice(0, 140), count=1))
    assert [f.code for f in found] == ["structure.video_frames", "images.unknown"]
    assert found[0].message == "front: 140 images can be decoded for 150 rows"
    assert found[0].severity == "error"


def test_more_images_than_rows(tmp_path):
    def longer(c):
        c["image_of"] = np.concatenate([c["image_of"], [149, 149]])

    (finding,) = findings(*film(tmp_path, longer, count=1))
    assert (finding.code, finding.severity) == ("structure.extra_frames", "error")
    assert finding.message == "0.mp4 has 2 frames that belong to no row"


def test_a_truncated_file(tmp_path):
    dataset, rows = film(tmp_path)
    path = tmp_path / "1.mp4"
    path.write_bytes(path.read_bytes()[:2000])
    (finding,) = findings(dataset, rows)
    assert (finding.code, finding.episode) == ("structure.torn", 1)
    assert "0 images can be decoded for 150 rows (1.mp4: can't be decoded" in finding.message


def test_another_size_than_the_metadata_says(tmp_path):
    dataset, rows = film(tmp_path, count=1)
    dataset.features[CAMERA]["shape"] = (64, 64, 3)
    (finding,) = findings(dataset, rows)
    assert finding.code == "structure.image_size"
    assert "images are 96x48 px; the metadata says 64x64" in finding.message


def test_without_joints_repeats_are_unknown(tmp_path):
    dataset, _ = film(tmp_path, count=1)
    (finding,) = findings(dataset, {})
    assert (finding.code, finding.severity) == ("images.unknown", "note")


@pytest.mark.parametrize("share", [0.1, 0.5])
def test_the_mean_colour_is_that_of_the_images(share):
    import av

    rgb = np.zeros((*STOCK_SIZE, 3), np.uint8)
    rgb[: int(share * STOCK_SIZE[0])] = (250, 100, 0)
    look = Look(0, np.zeros(1, bool), np.full(1, np.nan))
    look.add(0, av.VideoFrame.from_ndarray(rgb, format="rgb24"))
    assert look.mean == pytest.approx(rgb.reshape(-1, 3).mean(0) / 255, abs=0.01)
