"""``so101walk doctor`` on a virtual arm that is well, and on ones that are not."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from so101walk.cli.doctor import command
from so101walk.emulator.faults import Fault
from so101walk.errors import UsageError

from ..hardware.conftest import Bench, bench  # noqa: F401
from ..hardware.test_signals import files


def examine(rig: Path, *words: str) -> tuple[int, dict[str, Any]]:
    result = CliRunner().invoke(
        command, ["--rig", str(rig), "--json", *words], catch_exceptions=False, standalone_mode=False
    )
    return result.return_value, json.loads(result.stdout)


def by_name(told: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {c["name"]: c for c in told["checks"]}


def test_an_arm_that_is_well(bench: Bench) -> None:  # noqa: F811
    stage = bench.stage(cameras=True, at=None)
    code, told = examine(files(bench))
    assert (code, told["ok"]) == (0, True), told
    names = ["port", "servos", "firmware", "supply", "error bits", "temperature", "calibration", "ranges", "pose"]
    assert [c["name"] for c in told["checks"]] == [*names, "camera front"]
    assert not any(stage.state().torque)


def test_what_is_wrong_is_named_with_its_mend(bench: Bench) -> None:  # noqa: F811
    stage = bench.stage(cameras=False, at=None, supply_v=12.0)
    calibration = bench.folder / "calibration" / "emulated.json"
    stored = json.loads(calibration.read_text())
    stored["elbow_flex"] |= {"range_min": 0, "range_max": 4095}
    calibration.write_text(json.dumps(stored))
    bench.ports = {"front": 9}
    stage.strike(Fault("overload", at_s=0.0, motor="gripper"))
    code, told = examine(files(bench), "--no-cameras")
    checks = by_name(told)
    assert (code, told["ok"]) == (1, False)
    assert checks["supply"]["ok"] is False
    assert "wrong supply" in checks["supply"]["mend"]
    assert "gripper: input voltage, overload" in checks["error bits"]["found"]
    assert "elbow_flex: range_min is 0 in the file, 945 in the servo" in checks["calibration"]["found"]
    assert "elbow_flex has the whole turn 0-4095" in checks["ranges"]["found"]
    assert checks["servos"]["ok"] is True


def test_a_silent_servo_and_a_missing_port(bench: Bench) -> None:  # noqa: F811
    stage = bench.stage(cameras=False, at=None)
    bench.ports = {"front": 9}
    rig = files(bench)
    stage.strike(Fault("silence", at_s=0.0, motor="wrist_flex"))
    _, told = examine(rig, "--no-cameras")
    servos = by_name(told)["servos"]
    assert servos["ok"] is False
    assert servos["found"] == "wrist_flex (id 4) silent"
    assert "cable from elbow_flex to wrist_flex" in servos["mend"]
    bench.close()
    _, told = examine(rig, "--no-cameras")
    assert by_name(told)["port"]["ok"] is False
    assert "doesn't exist" in by_name(told)["port"]["found"]


def test_a_simulated_rig_has_nothing_to_examine() -> None:
    with pytest.raises(UsageError, match="is simulated"):
        CliRunner().invoke(command, ["--rig", "sim"], catch_exceptions=False, standalone_mode=False)


def test_the_table_is_for_people(bench: Bench) -> None:  # noqa: F811
    bench.stage(cameras=False, at=np.zeros(6))
    bench.ports = {"front": 9}
    result = CliRunner().invoke(command, ["--rig", str(files(bench)), "--no-cameras"], standalone_mode=False)
    assert result.return_value == 0
    assert "fit to move" in result.output
