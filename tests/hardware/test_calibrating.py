"""Calibrating the virtual arm's cameras; its joints are calibrated by command in test_whole.py."""

import numpy as np
import pytest

from so101walk.calibrate.latency import estimate_latency
from so101walk.calibrate.latency_moves import measure_moves
from so101walk.emulator.log import read_log
from so101walk.envelope import load_envelope
from so101walk.real import open_real

from .conftest import CENTER, Bench


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
