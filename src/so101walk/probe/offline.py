"""Keep Hugging Face's libraries off the network: what isn't here must be told, not fetched."""

import contextlib
from collections.abc import Iterator

__all__ = ["offline"]


@contextlib.contextmanager
def offline() -> Iterator[None]:
    """While it lasts, ``huggingface_hub`` behaves as under ``HF_HUB_OFFLINE=1``, which it reads only at its import."""
    import huggingface_hub.constants as constants

    before, constants.HF_HUB_OFFLINE = constants.HF_HUB_OFFLINE, True
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = before
