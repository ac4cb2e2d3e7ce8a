"""A LeWM trained by stable-worldmodel as an encoder of the probe: ``lewm:CHECKPOINT``. Needs the extra ``swm``.

A checkpoint is what that package's ``save_pretrained`` writes: a folder with ``config.json`` and one ``.pt`` file, or
such a file. The config names classes that are then built, so load only checkpoints that you trust.
"""

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import UsageError
from ..probe.encoders import EncoderOptions, Views
from ..probe.pretrained import weights_digest
from .model import best_device

__all__ = ["SwmEncoder", "load_checkpoint"]

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)
"""What the package's training scripts normalise pixels with (torchvision's ImageNet statistics)."""

NEEDS = ("stable_worldmodel", "hydra", "hdf5plugin", "transformers")


class SwmEncoder:
    """The projected CLS latent of one view. See :class:`so101walk.probe.encoders.Encoder`.

    Args:
        model: A ``stable_worldmodel.wm.lewm.LeWM``.
        spec: The SPEC it was made from.
        size_px: What the encoder takes; images are area-averaged to it.
        view: Which of the views that come; that package's reader takes a primary camera too.
        device: Torch device.
    """

    def __init__(self, model: Any, spec: str, size_px: int, view: int = 0, device: str | None = None) -> None:
        self.spec = spec
        self._size, self._view, self._device = size_px, view, best_device(device)
        self._model = model.to(self._device).eval()
        self.fingerprint: str | None = f"swm {weights_digest(model)} {size_px} {view}"

    def inputs(self, view: NDArray[np.uint8]) -> NDArray[np.floating]:
        """One camera's images (n, H, W, 3) as the network sees them: (n, 3, size, size)."""
        from .frames import shrink

        small = np.stack([shrink(image, self._size) for image in view]).astype(np.float32) / 255.0
        return ((small - np.array(IMAGENET_MEAN, np.float32)) / np.array(IMAGENET_STD, np.float32)).transpose(
            0, 3, 1, 2
        )

    def encode(self, views: Views) -> NDArray[np.float32]:
        """Latents (n, d) of n frames; views (n, H, W, 3) uint8."""
        import torch

        pixels = torch.from_numpy(np.ascontiguousarray(self.inputs(views[self._view]))).to(self._device)
        with torch.inference_mode():
            latent: torch.Tensor = self._model.encode({"pixels": pixels[:, None]})["emb"][:, 0]
        return latent.float().cpu().numpy()


def load_checkpoint(argument: str, options: EncoderOptions) -> SwmEncoder:
    """The encoder of a checkpoint, on the first of the cameras.

    Raises:
        UsageError: No such checkpoint, a package is missing, or the model isn't a LeWM.
    """
    path = Path(argument)
    if not path.exists():
        raise UsageError(
            f"checkpoint {argument} does not exist; give the folder that save_pretrained wrote, or its .pt file"
        )
    folder = path if path.is_dir() else path.parent
    if not (folder / "config.json").is_file():
        raise UsageError(f"{folder} has no config.json beside the weights; save with save_pretrained(..., config=...)")
    missing = [name for name in NEEDS if importlib.util.find_spec(name) is None]
    if missing:
        raise UsageError(f"encoder 'lewm' needs {' and '.join(missing)}; pip install 'so101walk[swm]'")
    from hydra.errors import HydraException
    from stable_worldmodel.wm.utils import load_pretrained

    try:
        model = load_pretrained(str(path.resolve()), cache_dir=str(folder))
    except (ValueError, KeyError, RuntimeError, FileNotFoundError, ImportError, HydraException) as e:
        raise UsageError(f"{argument} can't be loaded: {str(e).splitlines()[0][:120]}") from e
    size = _image_size(model)
    if not hasattr(model, "encode") or size is None:
        raise UsageError(f"{argument} holds a {type(model).__name__}; it must be a LeWM with a ViT encoder")
    return SwmEncoder(model, f"lewm:{argument}", size, device=None if options.device == "auto" else options.device)


def _image_size(model: Any) -> int | None:
    config = getattr(getattr(model, "encoder", None), "config", None)
    size: int | Sequence[int] | None = getattr(config, "image_size", None)
    return size if isinstance(size, int) or size is None else int(size[0])
