"""``so101walk rank`` with encoders of the probe, and what it refuses."""

import numpy as np
import pytest

from ..jepa.conftest import ou_chain, write_dataset


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    rng = np.random.default_rng(0)
    return write_dataset(tmp_path_factory.mktemp("data") / "walk", [ou_chain(rng, 40, 0.8) for _ in range(6)])


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_any_encoder_can_be_ranked_with_a_predictor_on_top(so101walk, dataset):
    done = so101walk("rank", "pca:8", dataset, "--trials", 40, "--horizon", 2, "-k", 6)
    assert done.code == 0, done.err
    for words in ("pca:8", "same episode", "other episodes", "last action", "mean displacement", "0.167"):
        assert words in done.out


@pytest.mark.parametrize(
    ("who", "options", "words"),
    [
        ("pcaa:8", [], "did you mean 'pca'"),
        ("pca:8", ["--horizon", "30"], "Lower --horizon"),
        ("pca:8", ["--val", "1"], "hold out more episodes"),
    ],
)
def test_what_cannot_be_ranked_gets_one_line(so101walk, dataset, who, options, words):
    done = so101walk("rank", who, dataset, *options)
    assert done.code in (1, 2)
    assert words in done.err
    assert "Traceback" not in done.err
