"""The group: fast help, nearest names, exit codes, no traceback without --debug."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from so101walk.cli.main import COMMANDS, main

HEAVY = {"numpy", "mujoco", "torch", "lerobot", "av", "pyarrow", "matplotlib", "scipy", "h5py", "pandas", "cv2"}


def test_help_imports_nothing_heavy() -> None:
    program = "import sys; from so101walk.cli.main import main\ntry: main(['--help'])\nexcept SystemExit: pass\n"
    program += "print(' '.join(sorted(m.split('.')[0] for m in sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.splitlines()[-1].split())
    assert not loaded & HEAVY
    for name in COMMANDS:
        assert name in done.stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_and_debug(name: str, so101walk) -> None:
    command = importlib.import_module(f"so101walk.cli.{name}").command
    assert command.help
    shown = so101walk(name, "--help")
    assert shown.code == 0
    assert "--debug" in shown.out
    assert command.name in (name, "command") or command.name


def test_a_wrong_command_names_the_nearest(so101walk) -> None:
    told = so101walk("colect")
    assert told.code == 2
    assert "did you mean 'collect'" in told.err


def test_version(so101walk) -> None:
    assert so101walk("--version").out.startswith("so101walk, version 0.")


def test_an_unexpected_error_is_one_line_unless_debugging(
    so101walk, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("by a fault of ours")

    monkeypatch.setattr("so101walk.rig.load_rig", broken)
    told = so101walk("collect", "--out", tmp_path / "w")
    assert told.code == 1
    assert told.err.splitlines() == [
        "error: ZeroDivisionError: by a fault of ours (run again with --debug for the traceback)"
    ]
    with pytest.raises(ZeroDivisionError):
        main(["collect", "--out", str(tmp_path / "w"), "--debug"])
