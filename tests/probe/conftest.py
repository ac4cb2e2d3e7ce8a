"""Datasets shared by the probe's tests, and a cache of their own."""

from pathlib import Path

import pytest
from threadpoolctl import threadpool_limits

from .made import make_dataset


@pytest.fixture(scope="session", autouse=True)
def one_thread():
    """The systems of these tests are tiny: more threads would only wait for each other."""
    with threadpool_limits(1):
        yield


@pytest.fixture(scope="session")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight episodes of an OU walk with two views of it."""
    return make_dataset(tmp_path_factory.mktemp("probe") / "walk", episodes=8, length=46)


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty latent cache."""
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    return folder
