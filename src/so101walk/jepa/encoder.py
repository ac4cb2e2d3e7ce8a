"""A trained run as an encoder of the probe.

``jepa:RUN``, and ``lewm:CHECKPOINT`` for one that was trained elsewhere.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..errors import UsageError, nearest
from ..probe.encoders import Encoder, EncoderOptions, Views
from ..probe.pretrained import weights_digest
from .frames import shrink
from .model import best_device
from .run import Run, load_module, load_run

__all__ = ["RunEncoder", "load_jepa", "load_lewm"]


class RunEncoder:
    """The latent of a run's best look. See :class:`so101walk.probe.encoders.Encoder`.

    Args:
        run: A trained run of either kind.
        cameras: Names of the views in the order in which they will come; the run's own if empty.
        device: Torch device.

    Attributes:
        trained_on: Digest of the dataset (:func:`so101walk.probe.latents.dataset_digest`) and episodes that training
            or its early stopping saw; a score on one of these is no held-out score.

    Raises:
        UsageError: The run was trained on a view that is missing.
    """

    def __init__(self, run: Run, cameras: Sequence[str] = (), device: str | None = None) -> None:
        self.run = run
        self.spec = f"jepa:{run.root}"
        self.trained_on = (run.digest, tuple(sorted(run.train + run.validation)))
        self._order = _order(run, cameras)
        self._device = best_device(device)
        self._module = load_module(run).to(self._device)
        self.fingerprint: str | None = f"jepa {weights_digest(self._module)} {run.recipe.frames} {self._order}"

    def inputs(self, view: NDArray[np.uint8]) -> NDArray[np.floating]:
        """One camera's images (n, H, W, 3) as the network sees them: (n, 3, size, size), on a scale of -1 to 1."""
        small = self._small(view).astype(np.float32)
        return (small * (2.0 / 255.0) - 1.0).transpose(0, 3, 1, 2)

    def encode(self, views: Views) -> NDArray[np.float32]:
        """Latents (n, d) of n frames, each seen by every view (n, H, W, 3) uint8."""
        import torch

        images = np.stack([self._small(views[i]) for i in self._order], axis=1)
        with torch.inference_mode():
            return self._module(torch.from_numpy(images).to(self._device)).float().cpu().numpy()

    def _small(self, view: NDArray[np.uint8]) -> NDArray[np.uint8]:
        return np.stack([shrink(image, self.run.recipe.frames.size_px) for image in view])


def _order(run: Run, cameras: Sequence[str]) -> tuple[int, ...]:
    """Where each of the run's views stands among ``cameras``, which may be columns or their last parts."""
    short = [c.rsplit(".", 1)[-1] for c in cameras] or [c.rsplit(".", 1)[-1] for c in run.cameras]
    order = []
    for name in (c.rsplit(".", 1)[-1] for c in run.cameras):
        if name not in short:
            raise UsageError(
                f"{run.root} was trained on camera {name!r}, which isn't among those probed; {nearest(name, short)}"
            )
        order.append(short.index(name))
    return tuple(order)


def load_jepa(argument: str, options: EncoderOptions) -> RunEncoder:
    """The encoder of a run's folder; the loader behind ``jepa:RUN``.

    Raises:
        UsageError: No such run, no weights yet, or a view that isn't there.
    """
    device = None if options.device == "auto" else options.device
    return RunEncoder(load_run(argument), options.cameras, device)


def load_lewm(argument: str, options: EncoderOptions) -> Encoder:
    """The loader behind ``lewm:CHECKPOINT``: a checkpoint of stable-worldmodel's, or a run of ours.

    Raises:
        UsageError: As :func:`so101walk.jepa.swm.load_checkpoint` and :func:`load_jepa`.
    """
    from .swm import load_checkpoint

    return (
        load_jepa(argument, options) if (Path(argument) / "run.json").is_file() else load_checkpoint(argument, options)
    )
