"""The first waypoint of an episode: a draw from a law restricted to the envelope."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ..envelope import Envelope
from ..errors import EnvelopeError

__all__ = ["draw_inside"]

MAX_TRIES = 2000
"""At the acceptance of 0.99 that envelopes are made for, one try in a hundred fails; 2000 failures mean a wrong one."""


def draw_inside(
    draw: Callable[[], NDArray[np.float64]], envelope: Envelope, max_tries: int = MAX_TRIES
) -> NDArray[np.float64]:
    """The first of repeated draws that lies in the envelope: exactly the law of ``draw`` given that it does.

    Args:
        draw: Gives an independent draw of ``z`` (6,) at each call.
        envelope: The safe set.
        max_tries: Give up after so many draws.

    Returns:
        ``z``, shape (6,).

    Raises:
        EnvelopeError: No draw was inside; tells the acceptance and what refused the last draw.
    """
    for _ in range(max_tries):
        z = draw()
        if envelope.contains(envelope.z_to_q(z)):
            return z
    why = envelope.why_not(envelope.z_to_q(z))
    raise EnvelopeError(
        f"no start pose: none of {max_tries} draws lies in the envelope (acceptance below {1 / max_tries:.2%}; "
        f"0.99 is usual). The last one: {why}"
    )
