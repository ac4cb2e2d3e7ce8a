"""What is written is what is read."""

import numpy as np
import pytest

from so101walk.emulator.assembly import rad_to_raw
from so101walk.emulator.log import Recorder, read_log
from so101walk.errors import UsageError
from so101walk.joints import rad_to_q


def test_round_trip_in_blocks(tmp_path):
    path = tmp_path / "deep" / "log.h5"
    recorder = Recorder(path, ["front", "wrist"])
    rng = np.random.default_rng(3)
    t_ns = 7 * 10**15 + np.arange(500) * 1_000_000
    rad = rng.uniform(-1, 1, (500, 6))
    servo = rng.integers(-900, 900, (500, 3, 6)).astype(np.int16)
    for block in (slice(0, 250), slice(250, 500)):
        recorder.joints(t_ns[block], rad[block], servo[block])
    recorder.bus(np.arange(14).reshape(2, 7))
    recorder.images("front", np.array([[5, 111, 222, 0], [5, 111, 333, 1]]))
    recorder.event(9, "drop motor=gripper")
    recorder.flush()
    recorder.close()
    recorder.close()

    truth = read_log(path)
    np.testing.assert_array_equal(truth.t_ns, t_ns)
    np.testing.assert_array_equal(truth.rad, rad)
    np.testing.assert_array_equal(truth.torque, servo[:, 0])
    np.testing.assert_array_equal(truth.goal_ticks, servo[:, 1])
    np.testing.assert_array_equal(truth.load, servo[:, 2])
    np.testing.assert_array_equal(truth.bus["replied_ns"], [1, 8])
    assert truth.cameras["front"].rendered_ns(5) == 111
    np.testing.assert_array_equal(truth.cameras["front"].repeated, [0, 1])
    assert len(truth.cameras["wrist"].serial) == 0
    assert truth.events == ((9, "drop motor=gripper"),)
    with pytest.raises(KeyError):
        truth.cameras["front"].rendered_ns(6)


def test_truth_in_lerobots_units_between_samples(tmp_path):
    recorder = Recorder(tmp_path / "log.h5", [])
    t_ns = 10**15 + np.array([0, 1_000_000])
    rad = np.array([np.zeros(6), np.full(6, 0.2)])
    recorder.joints(t_ns, rad, np.zeros((2, 3, 6), np.int16))
    recorder.close()
    truth = read_log(tmp_path / "log.h5")
    np.testing.assert_allclose(truth.q, rad_to_q(rad), atol=0.13)  # a tick, and LeRobot's 4095 to the turn
    np.testing.assert_allclose(truth.q_at(t_ns[0] + 250_000), 0.75 * truth.q[0] + 0.25 * truth.q[1], atol=1e-9)
    assert truth.q_at(t_ns).shape == (2, 6)
    assert rad_to_raw(rad).shape == (2, 6)


def test_not_a_log(tmp_path):
    path = tmp_path / "x.h5"
    path.write_text("no")
    with pytest.raises(UsageError, match="isn't a readable emulator log"):
        read_log(path)


def test_a_place_that_cant_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="can't be written"):
        Recorder(tmp_path / "file" / "log.h5", [])
