"""Latency files: written, read back, refused."""

import dataclasses
from pathlib import Path

import pytest

from so101walk.errors import ConfigError, UsageError
from so101walk.latencies import Latencies, load_latencies, write_latencies
from so101walk.rig import load_rig


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "late.toml"
    written = Latencies("late", {"front": 103.25, "wrist": 80.5}, {"front": 3.5}, measured="2026-11-30")
    write_latencies(path, written)
    rig = dataclasses.replace(load_rig("emulated"), latency=str(path))
    read = load_latencies(rig)
    assert read == written
    assert read.camera_ns == {"front": 103_250_000, "wrist": 80_500_000}


def test_none_is_zero_and_nonsense_is_refused(tmp_path: Path) -> None:
    rig = load_rig("emulated")
    assert load_latencies(rig).camera_ns == {}
    with pytest.raises(UsageError, match="nowhere"):
        load_latencies(dataclasses.replace(rig, latency="nowhere"))
    path = tmp_path / "late.toml"
    write_latencies(path, Latencies("late", {"frnt": 1.0}))
    with pytest.raises(ConfigError, match="did you mean 'front'"):
        load_latencies(dataclasses.replace(rig, latency=str(path)))
    path.write_text('name = "late"\n[camera_ms]\nfront = nan\n')
    with pytest.raises(ConfigError, match="front is nan"):
        load_latencies(dataclasses.replace(rig, latency=str(path)))
