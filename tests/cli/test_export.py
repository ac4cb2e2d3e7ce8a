"""``so101walk export`` as a user runs it."""

import json

import h5py
import numpy as np

from ..jepa.conftest import ou_chain, write_dataset


def test_export_writes_beside_the_dataset_and_never_over_it(so101walk, tmp_path):
    rng = np.random.default_rng(0)
    dataset = write_dataset(tmp_path / "walk", [ou_chain(rng, 6, 0.8) for _ in range(2)])
    done = so101walk("export", dataset, "--size", 48, "--tile", "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out) == {
        "out": str(tmp_path / "walk.h5"), "episodes": 2, "frames": 12, "pixels": [48, 48],
        "cameras": ["observation.images.front", "observation.images.wrist"], "format": "swm-hdf5",
    }  # fmt: skip
    with h5py.File(tmp_path / "walk.h5") as f:
        assert f["pixels"].shape == (12, 48, 48, 3)
    again = so101walk("export", dataset)
    assert again.code == 2
    assert "exists" in again.err
