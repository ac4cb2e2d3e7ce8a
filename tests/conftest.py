"""What every test shares: caches of this run's own, and a second try for what runs in real time."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A cache folder for this run, for this process and those it starts."""
    folder = tmp_path_factory.mktemp("cache")
    before = os.environ.get("XDG_CACHE_HOME")
    os.environ["XDG_CACHE_HOME"] = str(folder)
    yield folder
    if before is None:
        del os.environ["XDG_CACHE_HOME"]
    else:
        os.environ["XDG_CACHE_HOME"] = before


REAL_TIME = ("tests/hardware/", "tests/emulator/", "tests/clients/test_lerobot_drives_emulator.py")
"""Tests that drive the emulated bus in real time. Shared machines stand still for half a second now and then, which is
longer than a servo may take to answer; a fault of ours fails at every try."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let real-time tests try again, twice at most; each such try is in the summary."""
    for item in items:
        if item.nodeid.startswith(REAL_TIME):
            item.add_marker(pytest.mark.flaky(reruns=2))
