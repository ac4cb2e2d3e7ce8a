"""A dataset by stock LeRobot for the tests of the reader and of ``check``: made once, since its import takes long."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def stock(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Several episodes in each file; what stock LeRobot reads from it lies beside it as ``.npz``. Not to be changed."""
    out = tmp_path_factory.mktemp("stock") / "data"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1"}
    script = ROOT / "tests/dataset/stock_dataset.py"
    subprocess.run([sys.executable, script, out], check=True, capture_output=True, env=environment)
    return out
