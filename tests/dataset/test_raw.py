import dataclasses

import numpy as np
import pytest

from so101walk.dataset.raw import JOINT_COLUMNS, RawLog, read_raw, read_raw_attrs, write_raw
from so101walk.errors import DatasetError

from .walks import raw_log


def test_a_log_comes_back_as_it_was(tmp_path):
    log = raw_log()
    write_raw(tmp_path / "raw.h5", log)
    back = read_raw(tmp_path / "raw.h5")
    for name in JOINT_COLUMNS:
        np.testing.assert_array_equal(getattr(back, name), getattr(log, name))
        assert getattr(back, name).dtype == getattr(log, name).dtype
    assert back.captures.keys() == {"front", "wrist"}
    np.testing.assert_array_equal(back.captures["front"], [1, 2, 3])
    assert back.attrs == {"seed": 7, "policy_state": {"z": [0.5, -1.0]}}


def test_what_a_tick_did_not_read_is_nan_and_what_it_did_is_kept(tmp_path):
    write_raw(tmp_path / "raw.h5", raw_log(6))
    load = read_raw(tmp_path / "raw.h5").extra["load"]
    assert np.isnan(load[::2]).all()
    assert np.isfinite(load[1::2]).all()


def test_times_past_the_53_bits_of_a_float_are_exact(tmp_path):
    log = dataclasses.replace(raw_log(1), t_before_ns=np.array([2**60 + 1]))
    write_raw(tmp_path / "raw.h5", log)
    assert read_raw(tmp_path / "raw.h5").t_before_ns[0] == 2**60 + 1


def test_a_log_without_ticks_or_cameras_is_a_log(tmp_path):
    write_raw(tmp_path / "raw.h5", RawLog.of([]))
    back = read_raw(tmp_path / "raw.h5")
    assert back.q.shape == (0, 6)
    assert back.captures == {}


def test_attributes_may_be_large_and_nan_becomes_null(tmp_path):
    attrs = {"state": list(range(50_000)), "rate": float("nan"), "array": np.arange(3)}
    write_raw(tmp_path / "raw.h5", dataclasses.replace(raw_log(), attrs=attrs))
    back = read_raw_attrs(tmp_path / "raw.h5")
    assert back == {"state": list(range(50_000)), "rate": None, "array": [0, 1, 2]}


def test_the_log_of_an_episode_is_packed(tmp_path):
    """12 s at 100 Hz: five joint arrays of 8 bytes, of which most differ little from tick to tick."""
    ticks = np.linspace(0.0, 40.0, 1200)[:, None] + np.arange(6)
    log = RawLog(
        t_before_ns=np.arange(1200) * 10_000_000,
        t_after_ns=np.arange(1200) * 10_000_000,
        q=np.round(ticks / 0.088) * 0.088,
        ticks=ticks.astype(np.int64),
        request=ticks,
        sent=ticks,
    )
    write_raw(tmp_path / "raw.h5", log)
    assert (tmp_path / "raw.h5").stat().st_size < 1200 * 8 * (2 + 4 * 6) / 2


@pytest.mark.parametrize("kept", [0, 100, 3000])
def test_a_torn_log_is_named(tmp_path, kept):
    write_raw(tmp_path / "raw.h5", raw_log())
    content = (tmp_path / "raw.h5").read_bytes()
    assert len(content) > 3000
    (tmp_path / "raw.h5").write_bytes(content[:kept])
    with pytest.raises(DatasetError, match=r"raw\.h5"):
        read_raw(tmp_path / "raw.h5")


def test_a_missing_log_and_a_strange_one_are_named(tmp_path):
    import h5py

    with pytest.raises(DatasetError, match="missing"):
        read_raw(tmp_path / "raw.h5")
    with h5py.File(tmp_path / "other.h5", "w") as f:
        f["x"] = [1.0]
    with pytest.raises(DatasetError, match=r"other\.h5"):
        read_raw(tmp_path / "other.h5")
