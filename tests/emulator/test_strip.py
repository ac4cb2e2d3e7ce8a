"""The serial number in the images outlives what images go through, and is never read where it isn't."""

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from so101walk.emulator import strip


def picture(width=320, height=240, seed=0):
    rng = np.random.default_rng(seed)
    small = rng.integers(0, 255, (height // 8, width // 8, 3), dtype=np.uint8)
    return cv2.resize(small, (width, height), interpolation=cv2.INTER_CUBIC)


@given(st.integers(0, strip.SERIALS - 1), st.sampled_from([64, 128, 224, 320, 640]))
def test_what_is_drawn_is_read(serial, width):
    image = picture(width)
    strip.draw(image, serial)
    assert strip.read(image) == serial


def test_numbers_wrap():
    image = picture()
    strip.draw(image, strip.SERIALS + 5)
    assert strip.read(image) == 5


@settings(max_examples=25)
@given(st.integers(0, strip.SERIALS - 1), st.integers(60, 95))
def test_survives_jpeg(serial, quality):
    image = picture()
    strip.draw(image, serial)
    ok, jpeg = cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, quality])
    assert ok
    assert strip.read(cv2.imdecode(jpeg, cv2.IMREAD_COLOR)) == serial


@settings(max_examples=25)
@given(st.integers(0, 10_000))
def test_no_number_in_other_images(seed):
    assert strip.read(picture(seed=seed)) is None


@pytest.mark.parametrize("grey", [0, 16, 128, 235, 255])
def test_no_number_in_a_plain_image(grey):
    assert strip.read(np.full((240, 320, 3), grey, np.uint8)) is None


def test_a_spoilt_cell_is_noticed():
    for cell in range(strip.COLUMNS):
        image = picture()
        strip.draw(image, 123456)
        block = image[:4, cell * 4 : cell * 4 + 4]
        block[:] = 251 - block
        assert strip.read(image) is None


def test_one_step_changes_one_data_cell_and_the_strip_is_all_that_changes():
    before, after = picture(), picture()
    strip.draw(before, 1000)
    strip.draw(after, 1001)
    width, height = strip.size_px(320)
    changed = np.any(before != after, axis=2)
    assert not changed[height:].any()
    assert not changed[:, width:].any()
    cells = changed.reshape(60, 4, 80, 4).any(axis=(1, 3))
    assert cells[0, :16].sum() + cells[1, :8].sum() == 1
    assert (width, height) == (64, 8)


def test_too_small_an_image_has_none():
    assert strip.read(np.zeros((6, 32, 3), np.uint8)) is None
