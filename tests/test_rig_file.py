"""Rig files that are written load as what was meant."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from so101walk.errors import UsageError
from so101walk.rig import load_rig
from so101walk.rig_file import CameraChoice, find_ports, parse_camera, rig_toml


def test_words_for_cameras() -> None:
    assert parse_camera("front=opencv:/dev/video0@320x240@25") == CameraChoice(
        "front", "opencv", {"index_or_path": "/dev/video0", "fourcc": "MJPG"}, 320, 240, 25.0
    )
    assert parse_camera("top=opencv:2").options == {"index_or_path": 2, "fourcc": "MJPG"}
    assert parse_camera("far=opencv:http://10.0.0.5/stream").options == {"index_or_path": "http://10.0.0.5/stream"}
    assert parse_camera("w=zmq:127.0.0.1:5601@320x240").options["port"] == 5601
    assert parse_camera("d=intelrealsense:0123").options == {"serial_number_or_name": "0123"}


@pytest.mark.parametrize(
    "text",
    [
        "front",
        "front=opencv",
        "a b=opencv:0",
        "f=opencv:",
        "f=opencv:0@640",
        "f=zmq:5601",
        "f=kinect:0",
        "f=opencv:0@1x2@x",
    ],
)
def test_what_is_no_camera_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--camera"):
        parse_camera(text)


@given(st.text(st.characters(codec="utf-8", exclude_categories=["C"]), min_size=1), st.sampled_from([15, 30, 60]))
def test_what_is_written_loads(tmp_path_factory: pytest.TempPathFactory, port: str, fps: int) -> None:
    path: Path = tmp_path_factory.mktemp("rig") / "mine.toml"
    cameras = [parse_camera("front=opencv:/dev/video0"), parse_camera("hand=zmq:localhost:5602@320x240@60")]
    path.write_text(rig_toml("mine", port, 'my "arm"', cameras, fps), encoding="utf-8")
    rig = load_rig(path)
    assert (rig.arm.port, rig.arm.id, rig.fps, rig.simulated) == (port, 'my "arm"', fps, False)
    assert rig.cameras["hand"].options["camera_name"] == "hand"
    assert (rig.cameras["hand"].width, rig.cameras["hand"].fps) == (320, 60.0)
    assert rig.twin().cameras["hand"].view == "wrist"


def test_ports_by_their_lasting_names(tmp_path: Path) -> None:
    assert find_ports(tmp_path) == []
    (tmp_path / "ttyACM0").touch()
    assert find_ports(tmp_path) == [str(tmp_path / "ttyACM0")]
    (tmp_path / "serial" / "by-id").mkdir(parents=True)
    (tmp_path / "serial" / "by-id" / "usb-board").touch()
    assert find_ports(tmp_path) == [str(tmp_path / "serial/by-id/usb-board")]


def test_the_shipped_rigs_load() -> None:
    for name in ("so101", "emulated"):
        rig = load_rig(name)
        assert not rig.simulated
        assert list(rig.cameras) == ["front", "wrist"]
        assert rig.twin().simulated
