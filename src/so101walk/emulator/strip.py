"""The serial number that every emulated image carries: a strip of black and white cells in its upper left corner.

Two rows of sixteen cells: 24 bits of serial number (Gray code, so that one step changes one cell) and an 8-bit check
sum. Cells are whole pixels and large enough to outlive JPEG and video coding.
"""

import numpy as np
from numpy.typing import NDArray

__all__ = ["SERIALS", "draw", "read", "size_px"]

ROWS, COLUMNS = 2, 16
SERIAL_BITS = 24
SERIALS = 1 << SERIAL_BITS
"""Numbers wrap here: after 155 hours at 30 images a second."""

CHECK_POLYNOMIAL = 0x07
"""CRC-8 (x^8 + x^2 + x + 1); 0xFF is added so that an all-black corner isn't a valid number."""

BLACK, WHITE = 16, 235
"""Within video's limited range, so that a decoder's clipping can't move them."""

UNSURE = 40
"""A cell whose mean is nearer than this to mid-grey is no cell of ours."""


def cell_px(width: int) -> int:
    """Edge of a cell: 4 px up to images 320 wide, then in proportion, so that the strip is a fifth of the width."""
    return max(4, width // 80)


def size_px(width: int) -> tuple[int, int]:
    """Width and height of the strip in an image this wide."""
    cell = cell_px(width)
    return COLUMNS * cell, ROWS * cell


def draw(rgb: NDArray[np.uint8], serial: int) -> None:
    """Draw the strip for ``serial`` (modulo :data:`SERIALS`) into an image, in place. Shape (H, W, 3), W >= 64."""
    cell = cell_px(rgb.shape[1])
    cells = np.where(_bits(serial % SERIALS), WHITE, BLACK).astype(np.uint8).reshape(ROWS, COLUMNS)
    patch = np.kron(cells, np.ones((cell, cell), np.uint8))
    rgb[: patch.shape[0], : patch.shape[1]] = patch[..., None]


def read(rgb: NDArray[np.uint8]) -> int | None:
    """The serial number in an image of shape (H, W, 3), or None where there is no strip or it can't be read."""
    cell = cell_px(rgb.shape[1])
    if rgb.shape[0] < ROWS * cell or rgb.shape[1] < COLUMNS * cell:
        return None
    grey = rgb[: ROWS * cell, : COLUMNS * cell].astype(np.float64).mean(axis=2)
    means = grey.reshape(ROWS, cell, COLUMNS, cell)[:, 1:-1, :, 1:-1].mean(axis=(1, 3)).ravel()
    if np.abs(means - (BLACK + WHITE) / 2).min() < UNSURE:
        return None
    bits = means > (BLACK + WHITE) / 2
    gray = int(np.packbits(bits[:SERIAL_BITS]).tobytes().hex(), 16)
    serial = gray
    for shift in (1, 2, 4, 8, 16):
        serial ^= serial >> shift
    return serial if np.array_equal(_bits(serial), bits) else None


def _bits(serial: int) -> NDArray[np.bool_]:
    gray = serial ^ serial >> 1
    data = gray.to_bytes(3, "big")
    return np.unpackbits(np.frombuffer(data + bytes([_crc(data)]), np.uint8)).astype(bool)


def _crc(data: bytes) -> int:
    crc = 0xFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc << 1 ^ CHECK_POLYNOMIAL if crc & 0x80 else crc << 1) & 0xFF
    return crc
