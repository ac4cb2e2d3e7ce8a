import threading

import numpy as np
import pytest

from so101walk.dataset.verify import check_video
from so101walk.dataset.video import QUEUE, VideoWriter, decode, key_frame_every, probe
from so101walk.errors import DatasetError

from .walks import CAMERAS, image, serial

SIZE = CAMERAS["wrist"]
GOP = key_frame_every(30)


def encode(path, serials, fps=30):
    video = VideoWriter(path, fps, *SIZE)
    for k in serials:
        video.add(image(k, SIZE))
    return video.finish()


def test_decoded_image_k_is_image_k(tmp_path):
    serials = [(k * 37) % 1000 for k in range(3 * GOP + 4)]
    encode(tmp_path / "v.mp4", serials)
    assert [serial(rgb) for rgb in decode(tmp_path / "v.mp4")] == serials
    assert probe(tmp_path / "v.mp4", 30) == (len(serials), *SIZE)


def test_there_are_no_b_frames_and_a_key_frame_every_gop(tmp_path):
    import av

    encode(tmp_path / "v.mp4", range(2 * GOP + 3))
    with av.open(str(tmp_path / "v.mp4")) as container:
        packets = [p for p in container.demux(video=0) if p.size]
    assert [p.pts for p in packets] == [p.dts for p in packets] == sorted(p.pts for p in packets)
    assert [k for k, p in enumerate(packets) if p.is_keyframe] == [0, GOP, 2 * GOP]


@pytest.mark.parametrize(("fps", "ghost"), [(1, False), (4, False), (30, True)])
def test_at_few_images_a_second_none_has_a_ghost_of_the_one_before(tmp_path, fps, ghost):
    decoded = []
    for before in (3, 700):
        encode(tmp_path / "v.mp4", (before, 42), fps)
        decoded.append(list(decode(tmp_path / "v.mp4"))[1])
    assert (decoded[0] != decoded[1]).any() == ghost


def test_colours_come_back_close(tmp_path):
    encode(tmp_path / "v.mp4", range(12))
    errors = [np.abs(rgb[16:].astype(int) - image(k, SIZE)[16:]) for k, rgb in enumerate(decode(tmp_path / "v.mp4"))]
    assert np.mean(errors) < 2.0
    assert np.percentile(errors, 99) <= 8


def test_more_images_than_the_queue_holds_are_all_kept(tmp_path):
    serials = list(range(4 * QUEUE))
    encode(tmp_path / "v.mp4", serials)
    assert [serial(rgb) for rgb in decode(tmp_path / "v.mp4")] == serials


def test_an_image_may_be_changed_once_it_was_given(tmp_path):
    video = VideoWriter(tmp_path / "v.mp4", 30, *SIZE)
    buffer = np.empty((*SIZE, 3), dtype=np.uint8)
    for k in range(8):
        buffer[:] = image(k, SIZE)
        video.add(buffer)
        buffer[:] = 0
    video.finish()
    assert [serial(rgb) for rgb in decode(tmp_path / "v.mp4")] == list(range(8))


def test_the_same_images_give_the_same_bytes(tmp_path):
    encode(tmp_path / "a.mp4", range(20))
    encode(tmp_path / "b.mp4", range(20))
    assert (tmp_path / "a.mp4").read_bytes() == (tmp_path / "b.mp4").read_bytes()


@pytest.mark.parametrize("given", [0, 1, 3 * QUEUE])
def test_cancelling_ends_the_thread(tmp_path, given):
    before = threading.active_count()
    video = VideoWriter(tmp_path / "v.mp4", 30, *SIZE)
    for k in range(given):
        video.add(image(k, SIZE))
    video.cancel()
    video.cancel()
    assert threading.active_count() == before


def test_an_unwritable_path_is_told(tmp_path):
    video = VideoWriter(tmp_path / "missing" / "v.mp4", 30, *SIZE)
    video.add(image(0, SIZE))
    with pytest.raises(DatasetError, match=r"v\.mp4"):
        video.finish()


def test_a_video_cut_anywhere_is_named(tmp_path):
    encode(tmp_path / "whole.mp4", range(30))
    content = (tmp_path / "whole.mp4").read_bytes()
    cuts = {0, 1, 40, *range(len(content) - 1000, len(content), 37), len(content) - 1}
    for kept in sorted(cuts):
        (tmp_path / "v.mp4").write_bytes(content[:kept])
        with pytest.raises(DatasetError, match=r"v\.mp4 is torn"):
            probe(tmp_path / "v.mp4", 30)


def test_a_video_whose_images_were_overwritten_is_named(tmp_path):
    encode(tmp_path / "v.mp4", range(30))
    content = bytearray((tmp_path / "v.mp4").read_bytes())
    content[3000:6000] = bytes(3000)
    (tmp_path / "v.mp4").write_bytes(content)
    with pytest.raises(DatasetError, match=r"v\.mp4"):
        check_video(tmp_path / "v.mp4", 30, SIZE, 30)


@pytest.mark.parametrize(
    ("rows", "size", "told"),
    [(29, SIZE, "30 decodable frames for 29 rows"), (30, (48, 96), "128x64 px; 96x48 was to be written")],
)
def test_a_video_that_does_not_fit_its_rows_is_told(tmp_path, rows, size, told):
    encode(tmp_path / "v.mp4", range(30))
    with pytest.raises(DatasetError, match=told):
        check_video(tmp_path / "v.mp4", rows, size, 30)


def test_a_video_of_another_rate_is_told(tmp_path):
    encode(tmp_path / "v.mp4", range(5), fps=25)
    with pytest.raises(DatasetError, match="frame 1 is not at 1/30 s"):
        probe(tmp_path / "v.mp4", 30)


def test_a_missing_video_is_named(tmp_path):
    with pytest.raises(DatasetError, match="missing"):
        probe(tmp_path / "v.mp4", 30)
