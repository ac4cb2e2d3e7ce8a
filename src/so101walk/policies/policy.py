"""What a policy is: something that proposes the next waypoint. Users implement this in a Python file.

Example:
    A policy of one's own, used as ``so101walk collect --policy my_policy.py``::

        import numpy as np

        class Policy:
            name = "sway"
            frames_per_step = 15
            settle_frames = 3

            def start(self, rng, envelope):
                return np.zeros(6)

            def propose(self, z, rng):
                return -z + rng.normal(0.0, 0.1, 6)
"""

from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from ..envelope import Envelope

__all__ = ["Policy"]


class Policy(Protocol):
    """Proposes waypoints in the latent ``z`` (6,), where joints are ``q = center + scale * z``.

    A policy object lives for one episode. It never checks safety: the walk keeps the old state, and counts it, when a
    proposal leaves the envelope.

    Attributes:
        name: Short name, kept in the dataset.
        frames_per_step: Dataset frames from one waypoint to the next, unless stretched by the speed limits.
        settle_frames: The last of these frames that the arm holds still before the waypoint counts as reached.
    """

    name: str
    frames_per_step: int
    settle_frames: int

    def start(self, rng: np.random.Generator, envelope: "Envelope") -> NDArray[np.float64]:
        """The first waypoint, drawn from the stationary law restricted to the envelope. Shape (6,)."""
        ...

    def propose(self, z: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
        """The next waypoint wished for, given the present one. Shapes (6,) and (6,)."""
        ...
