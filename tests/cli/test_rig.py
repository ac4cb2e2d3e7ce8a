"""``so101walk rig new``."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from so101walk.cli.rig import command
from so101walk.errors import UsageError
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
