import numpy as np
import pytest

from so101walk.dataset.decoding import SEEK_FRAMES, Span, decode, decode_file
from so101walk.dataset.video import VideoWriter
from so101walk.errors import DatasetError

from .walks import image, serial

SIZE = (48, 96)
COUNT = 200


@pytest.fixture(scope="module")
def film(tmp_path_factory):
    """200 images, each with its number in it."""
    path = tmp_path_factory.mktemp("film") / "a" / "b" / "film.mp4"
    path.parent.mkdir(parents=True)
    writer = VideoWriter(path, 30, *SIZE)
    for k in range(COUNT):
        writer.add(image(k, SIZE))
    writer.finish()
    return path


def numbers(span, wanted):
    return [(k, serial(frame.to_ndarray(format="rgb24"))) for k, frame in decode(span, wanted)]


def test_frame_k_is_image_k(film):
    span = Span(film, 0.0, COUNT, 30.0)
    assert numbers(span, range(COUNT)) == [(k, k) for k in range(COUNT)]


@pytest.mark.parametrize("first", [1, 37, 61, 199])
def test_an_episode_later_in_the_file_counts_from_its_own_beginning(film, first):
    span = Span(film, first / 30, COUNT - first, 30.0)
    assert numbers(span, range(span.length)) == [(k, k + first) for k in range(span.length)]


def test_far_gaps_are_jumped_over_and_land_on_the_right_frame(film):
    rng = np.random.default_rng(0)
    span = Span(film, 10 / 30, COUNT - 10, 30.0)
    for _ in range(20):
        wanted = sorted(rng.choice(span.length, size=4, replace=False).tolist())
        assert numbers(span, wanted) == [(k, k + 10) for k in wanted]
    edge = [0, SEEK_FRAMES, 2 * SEEK_FRAMES + 1]
    assert numbers(span, edge) == [(k, k + 10) for k in edge]


def test_a_frame_beyond_the_end_is_refused_by_number(film):
    with pytest.raises(DatasetError, match=r"film.mp4: frame 200 of 230 of the episode can't be decoded"):
        numbers(Span(film, 0.0, 230, 30.0), range(230))
    with pytest.raises(DatasetError, match="frame 210 of 230"):
        numbers(Span(film, 0.0, 230, 30.0), [0, 210])


def test_nothing_wanted_reads_nothing():
    assert numbers(Span("no such file", 0.0, 3, 30.0), []) == []


def test_a_truncated_file_and_a_missing_one_are_named(film, tmp_path):
    torn = tmp_path / "torn.mp4"
    torn.write_bytes(film.read_bytes()[: film.stat().st_size // 2])
    with pytest.raises(DatasetError, match=r"torn.mp4: can't be decoded"):
        list(decode_file(torn))
    with pytest.raises(DatasetError, match=r"gone.mp4: the video file is missing"):
        list(decode_file(tmp_path / "gone.mp4"))
