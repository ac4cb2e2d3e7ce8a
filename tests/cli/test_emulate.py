"""The emulate command's options; what it starts is tested in tests/emulator/test_stage.py."""

import pytest
from click.testing import CliRunner

from so101walk.cli.emulate import command, parse_cameras, parse_size
from so101walk.errors import ConfigError, UsageError


def test_cameras():
    assert parse_cameras(("front=5601", "wrist=5602")) == {"front": 5601, "wrist": 5602}
    assert parse_cameras(()) == {}


@pytest.mark.parametrize("text", ["front", "front=", "=5601", "front=x", "front=0", "front=70000", "fr ont=1"])
def test_a_camera_that_is_none(text):
    with pytest.raises(UsageError, match="must be NAME=PORT"):
        parse_cameras((text,))


@pytest.mark.parametrize("texts", [("front=1", "front=2"), ("front=1", "wrist=1")])
def test_cameras_that_collide(texts):
    with pytest.raises(UsageError, match="taken by another camera"):
        parse_cameras(texts)


def test_size():
    assert parse_size("320x240") == (320, 240)


@pytest.mark.parametrize("text", ["320", "x", "320x", "321x240", "32x32", "320x240x3", "9000x240"])
def test_a_size_that_is_none(text):
    with pytest.raises(UsageError, match="must be WxH"):
        parse_size(text)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (["--camera", "front"], UsageError, "NAME=PORT"),
        (["--faults", "none.toml"], ConfigError, "none.toml"),
        (["--hand", "wave", "--seconds", "1"], UsageError, "unknown gesture 'wave'"),
    ],
)
def test_bad_options_are_told_before_anything_starts(tmp_path, arguments, error, message):
    result = CliRunner().invoke(command, ["--link", str(tmp_path / "arm"), *arguments])
    assert isinstance(result.exception, error)
    assert message in str(result.exception)
    assert list(tmp_path.iterdir()) == []
