"""What so101walk asks of a camera. Real ones and simulated ones are twins behind this protocol."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["Camera", "Image"]


@dataclass(frozen=True)
class Image:
    """One image and the moment of its capture on the arm's clock [ns]. ``rgb`` is (H, W, 3) uint8, read-only."""

    t_ns: int
    rgb: NDArray[np.uint8]


class Camera(Protocol):
    """A stream of stamped images. Images gather in a ring buffer from ``start`` to ``stop``, as often as one likes."""

    name: str
    width: int
    height: int

    def start(self) -> None:
        """Begin to gather images, from now on; opens the device at the first call.

        Raises:
            HardwareError: The camera can't be opened or doesn't deliver.
        """
        ...

    def drain(self) -> list[Image]:
        """The images captured since the last call, oldest first."""
        ...

    def stop(self) -> None:
        """Stop gathering and forget what was not drained. Safe to call more than once."""
        ...

    def close(self) -> None:
        """Give the device back. Safe to call more than once; never raises for what is already gone."""
        ...
