import numpy as np
import pytest

from so101walk.envelope import Envelope, load_envelope


@pytest.fixture(scope="session")
def boundless():
    """An envelope that refuses nothing: the policy's own law is seen."""
    return Envelope("boundless", np.zeros(6), np.ones(6), np.full(6, -1e6), np.full(6, 1e6), clearance=None)


@pytest.fixture(scope="session")
def tabletop():
    return load_envelope("so101-tabletop")
