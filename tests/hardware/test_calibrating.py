"""Calibrating the virtual arm, by its hand and by its cameras."""

import json
import time

import numpy as np
import pytest

from so101walk.arms.wire import open_wire
from so101walk.calibrate.arm import calibrate, keep, let_loose
from so101walk.calibrate.latency import estimate_latency
from so101walk.calibrate.latency_moves import measure_moves
from so101walk.emulator.assembly import HOMING_OFFSET
from so101walk.emulator.hand import SWEEP_S
from so101walk.emulator.log import read_log
from so101walk.envelope import load_envelope
from so101walk.joints import JOINTS, TickScale
from so101walk.real import open_real

from .conftest import CENTER, Bench

MIDDLE_Q = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 50.0])


def test_a_sweep_by_hand_gives_lerobots_file(bench: Bench) -> None:
    stage = bench.stage(at=MIDDLE_Q)
    wire = open_wire(str(bench.link), "mine", bench.folder / "lerobot" / "mine.json", calibrated=False)
    begun = 0.0
    try:
        let_loose(wire)

        def finished() -> bool:
            nonlocal begun
            if not begun:
                begun = time.monotonic()
                stage.take("sweep")
            return time.monotonic() - begun > 6 * SWEEP_S + 1.0

        ranges = calibrate(wire, finished)
        own, copy = keep(wire, bench.folder / "kept")
    finally:
        wire.close()
    usual = TickScale.of_model()
    np.testing.assert_allclose(ranges.homing_offset, HOMING_OFFSET, atol=3)
    np.testing.assert_allclose(ranges.range_min, usual.range_min, atol=25)
    np.testing.assert_allclose(ranges.range_max, usual.range_max, atol=25)
    stored = json.loads(own.read_text())
    assert stored == json.loads(copy.read_text())
    assert [stored[j]["range_min"] for j in JOINTS] == list(ranges.range_min)
    state = stage.state()
    assert [state.register(j, "Min_Position_Limit") for j in JOINTS] == list(ranges.range_min)
    assert [state.register(j, "Homing_Offset") for j in JOINTS] == list(ranges.homing_offset)
    assert not any(state.torque)


def test_the_latency_that_was_put_in_is_found(bench: Bench) -> None:
    stage = bench.stage(cameras=True, latency_ms=120.0, at=CENTER)
    rig = bench.rig(fps=10)
    envelope = load_envelope("so101-tabletop")
    with open_real(rig, envelope) as real:
        real.arm.prepare()
        stage.let_go()
        seen = measure_moves(real, rig, envelope, 16, np.random.default_rng(0))
    bench.close()
    logged = read_log(bench.log).cameras["front"]
    true_ms = float(np.median(logged.published_ns - logged.t_ns)) / 1e6
    assert true_ms > 119
    found = estimate_latency("front", seen["front"])
    assert found.latency_ms == pytest.approx(true_ms + 5.0, abs=15.0), "and some milliseconds to arrive and decode"
    assert found.half_width_ms < 12
