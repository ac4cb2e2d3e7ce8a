"""``so101walk rig new``."""

from pathlib import Path

import cv2
import numpy as np
import pytest
from click.testing import CliRunner

from so101walk.cli.rig import command
from so101walk.errors import HardwareError, UsageError
from so101walk.rig import load_rig


def run(*words: str, typed: str | None = None) -> str:
    result = CliRunner().invoke(command, ["new", *words], input=typed, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_without_questions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shown = run("mine", "--port", "/dev/ttyACM0", "--camera", "front=zmq:127.0.0.1:5601@320x240", "--fps", "15")
    assert "so101walk doctor --rig mine" in shown
    rig = load_rig("mine")
    assert (rig.arm.port, rig.arm.id, rig.fps) == ("/dev/ttyACM0", "mine", 15)
    with pytest.raises(UsageError, match=r"exists\. Replace it with --force"):
        run("mine", "--port", "/dev/ttyACM1", "--camera", "front=zmq:127.0.0.1:5601")
    run("mine", "--port", "/dev/ttyACM1", "--camera", "front=zmq:127.0.0.1:5601", "--force")
    assert load_rig("mine").arm.port == "/dev/ttyACM1"


def test_a_port_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("so101walk.rig_file.find_ports", lambda: ["/dev/serial/by-id/board"])
    run("mine", "--camera", "front=opencv:0", typed="\n")
    assert load_rig("mine").arm.port == "/dev/serial/by-id/board"


def test_what_can_not_be_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Exception, match="width is 641"):
        run("mine", "--port", "x", "--camera", "front=opencv:0@641x480")
    assert list(tmp_path.rglob("*.*")) == []


def film(path: Path, grey: int) -> str:
    """A file that OpenCV opens as it opens a camera: one image of a grey."""
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*"MJPG"), 30, (64, 48))
    writer.write(np.full((48, 64, 3), grey, np.uint8))
    writer.release()
    return str(path)


def test_cameras_are_found_shown_and_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    profile = {"width": 640, "height": 480, "fps": 30.0}
    where = [film(tmp_path / "a.avi", 40), film(tmp_path / "b.avi", 200), str(tmp_path / "dead.avi")]
    found = [{"id": w, "default_stream_profile": profile} for w in where]
    monkeypatch.setattr("lerobot.cameras.opencv.OpenCVCamera.find_cameras", lambda: found)
    shown = run("mine", "--port", "/dev/ttyACM0", "--pictures", "seen", typed="front\n\nwrist\n320x240@25\n\n")
    assert "640x480 at 30" in shown
    assert "no picture: it doesn't deliver" in shown
    rig = load_rig("mine")
    assert {n: (c.type, c.width, c.height, c.fps) for n, c in rig.cameras.items()} == {
        "front": ("opencv", 640, 480, 30.0),
        "wrist": ("opencv", 320, 240, 25.0),
    }
    assert [c.options["index_or_path"] for c in rig.cameras.values()] == where[:2]
    greys = [cv2.imread(str(p)).mean() for p in sorted((tmp_path / "seen").iterdir())]
    assert greys == pytest.approx([40, 200], abs=8)
    with pytest.raises(HardwareError, match="no camera was chosen"):
        run("other", "--port", "/dev/ttyACM0", "--pictures", "seen", typed="\n\n\n")
    assert not (tmp_path / "collect/other.toml").exists()
