"""Training recipes: TOML files in ``recipes/``, each key checked. Two kinds, ``lejepa`` and ``lewm``."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from ..config import build, find_file, names_in, read_toml, require
from ..errors import ConfigError, nearest

__all__ = [
    "AugmentConfig",
    "EncoderConfig",
    "FramesConfig",
    "LejepaRecipe",
    "LewmRecipe",
    "OptimiserConfig",
    "PairsConfig",
    "PredictorConfig",
    "Recipe",
    "SigregConfig",
    "StopConfig",
    "WindowsConfig",
    "load_recipe",
    "recipe_names",
]


@dataclass(frozen=True)
class FramesConfig:
    """What the encoder sees.

    Args:
        size_px: Images are area-averaged to this square size.
        cameras: Names of the views, in order; empty for all of the dataset's.
        views: ``stack`` puts the views' channels on top of each other; ``towers`` gives each view its own convolutions,
            joined before the dense layers.
    """

    size_px: int = 64
    cameras: tuple[str, ...] = ()
    views: Literal["stack", "towers"] = "stack"

    def __post_init__(self) -> None:
        require(
            32 <= self.size_px <= 512 and self.size_px % 16 == 0,
            f"size_px is {self.size_px}; it must be a multiple of 16 from 32 to 512",
        )


@dataclass(frozen=True)
class EncoderConfig:
    """Layers of the encoder: convolutions, a dense layer, the latent.

    The first convolution is 4x4 with stride 4, each further entry of ``channels`` one of 3x3 with stride 2.
    BatchNorm and GELU follow each layer but the last. The shape is that of a prototype of this study (issue 5).
    """

    channels: tuple[int, ...] = (48, 96, 192)
    hidden: int = 256
    latent: int = 6

    def __post_init__(self) -> None:
        require(1 <= len(self.channels) <= 5, f"channels has {len(self.channels)} entries; it must have 1 to 5")
        require(all(1 <= c <= 4096 for c in self.channels), f"channels is {self.channels}; each must be 1 to 4096")
        require(1 <= self.hidden <= 65536, f"hidden is {self.hidden}; it must be 1 to 65536")
        require(1 <= self.latent <= 4096, f"latent is {self.latent}; it must be 1 to 4096")


@dataclass(frozen=True)
class SigregConfig:
    """The regulariser: its weight in the loss, random directions a step, knots on [0, t_max]. See :mod:`.sigreg`."""

    weight: float = 0.02
    slices: int = 64
    knots: int = 17
    t_max: float = 3.0

    def __post_init__(self) -> None:
        require(self.weight > 0.0, f"weight is {self.weight}; it must be above 0, or the latent collapses")
        require(1 <= self.slices <= 65536, f"slices is {self.slices}; it must be 1 to 65536")
        require(2 <= self.knots <= 1000, f"knots is {self.knots}; it must be 2 to 1000")
        require(0.0 < self.t_max <= 10.0, f"t_max is {self.t_max}; it must be above 0 and at most 10")


@dataclass(frozen=True)
class PairsConfig:
    """Which two images of an episode make a pair.

    Args:
        unit: ``frame`` pairs any frame with the one ``lag`` steps later; ``waypoint`` takes only frames at which the
            arm had reached a waypoint, where the correlation of a pair is exactly the policy's ``rho ** lag``.
        lags: In steps of the policy; mixed in equal shares.
        step_frames: Frames a step, for datasets whose metadata don't say; 0 refuses such a dataset.
    """

    unit: Literal["frame", "waypoint"] = "frame"
    lags: tuple[float, ...] = (1.0, 2.0, 3.0, 4.0)
    step_frames: int = 0

    def __post_init__(self) -> None:
        require(bool(self.lags), "lags is empty; name at least one, in steps")
        require(all(0.0 < x <= 1000.0 for x in self.lags), f"lags is {self.lags}; each must be above 0, in steps")
        if self.unit == "waypoint":
            whole = all(x == int(x) for x in self.lags)
            require(whole, f"lags is {self.lags}; from waypoint to waypoint they are whole numbers of steps")
        require(self.step_frames >= 0, f"step_frames is {self.step_frames}; it must be 0 or more")


@dataclass(frozen=True)
class AugmentConfig:
    """Changes of the images that leave the joints as they are, drawn for each image and view alone; 0 turns one off.

    Args:
        shift_px: Moved by up to so many pixels each way, the edge repeated.
        brightness: Added, up to this share of the full range, either way.
        contrast: Scaled about the image's mean by up to this share, either way.
        noise: Standard deviation of independent noise on each pixel, as a share of the full range.
    """

    shift_px: int = 0
    brightness: float = 0.0
    contrast: float = 0.0
    noise: float = 0.0

    def __post_init__(self) -> None:
        require(0 <= self.shift_px <= 16, f"shift_px is {self.shift_px}; it must be 0 to 16")
        for name in ("brightness", "contrast", "noise"):
            require(0.0 <= getattr(self, name) < 1.0, f"{name} is {getattr(self, name)}; it must be 0 to below 1")


@dataclass(frozen=True)
class OptimiserConfig:
    """AdamW with a linear warm-up and a cosine to zero.

    Args:
        lr: Highest learning rate.
        weight_decay: Decoupled weight decay.
        warmup_steps: Steps of the warm-up.
        clip: Largest norm of the gradient.
        batch: Pairs (``lejepa``) or windows (``lewm``) a step.
        steps: Optimiser steps.
    """

    lr: float = 2e-3
    weight_decay: float = 1e-4
    warmup_steps: int = 100
    clip: float = 1.0
    batch: int = 128
    steps: int = 2000

    def __post_init__(self) -> None:
        require(0.0 < self.lr < 1.0, f"lr is {self.lr}; it must be above 0 and below 1")
        require(0.0 <= self.weight_decay < 10.0, f"weight_decay is {self.weight_decay}; it must be 0 to below 10")
        require(self.clip > 0.0, f"clip is {self.clip}; it must be above 0")
        require(2 <= self.batch <= 65536, f"batch is {self.batch}; it must be 2 to 65536")
        require(1 <= self.steps <= 10_000_000, f"steps is {self.steps}; it must be 1 or more")
        require(
            0 <= self.warmup_steps <= self.steps,
            f"warmup_steps is {self.warmup_steps}; it must be 0 to steps ({self.steps})",
        )


@dataclass(frozen=True)
class StopConfig:
    """When the validation episodes are looked at, and when to stop.

    Args:
        every: Steps from one look to the next.
        patience: Looks in a row without better weights after which training stops; 0 never stops early.
        validation: Share of the training episodes kept for these looks, at least one episode.
    """

    every: int = 200
    patience: int = 0
    validation: float = 0.1

    def __post_init__(self) -> None:
        require(self.every >= 1, f"every is {self.every}; it must be 1 or more")
        require(self.patience >= 0, f"patience is {self.patience}; it must be 0 or more")
        require(0.0 < self.validation < 1.0, f"validation is {self.validation}; it must be above 0 and below 1")


@dataclass(frozen=True)
class LejepaRecipe:
    """Encoder alone: alignment of pairs + SIGReg (arXiv 2605.26379)."""

    kind: Literal["lejepa"] = "lejepa"
    name: str = "lejepa"
    frames: FramesConfig = field(default_factory=FramesConfig)
    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    pairs: PairsConfig = field(default_factory=PairsConfig)
    sigreg: SigregConfig = field(default_factory=SigregConfig)
    augment: AugmentConfig = field(default_factory=AugmentConfig)
    optimiser: OptimiserConfig = field(default_factory=OptimiserConfig)
    stop: StopConfig = field(default_factory=StopConfig)

    def __post_init__(self) -> None:
        require(
            self.sigreg.weight < 1.0, f"sigreg.weight is {self.sigreg.weight}; beside 1 - weight it must be below 1"
        )


@dataclass(frozen=True)
class WindowsConfig:
    """Which frames a window of ``lewm`` holds: ``history + 1`` of them, ``stride`` frames apart.

    Args:
        history: Latents that the predictor looks back on.
        stride: Frames from one to the next; the predictor is given all the actions between (LeWM calls it frameskip).
        relative_actions: Give actions relative to that of each stride's first frame, so that they tell how the arm was
            asked to move, not where to.
    """

    history: int = 3
    stride: int = 5
    relative_actions: bool = False

    def __post_init__(self) -> None:
        require(1 <= self.history <= 64, f"history is {self.history}; it must be 1 to 64")
        require(1 <= self.stride <= 1000, f"stride is {self.stride}; it must be 1 to 1000")


@dataclass(frozen=True)
class PredictorConfig:
    """The action-conditioned causal transformer (LeWM: 6 layers, 16 heads of 64, MLP 2048, dropout 0.1)."""

    layers: int = 6
    heads: int = 16
    head_width: int = 64
    mlp: int = 2048
    dropout: float = 0.1

    def __post_init__(self) -> None:
        for name in ("layers", "heads", "head_width", "mlp"):
            require(1 <= getattr(self, name) <= 65536, f"{name} is {getattr(self, name)}; it must be 1 or more")
        require(0.0 <= self.dropout < 1.0, f"dropout is {self.dropout}; it must be 0 to below 1")


@dataclass(frozen=True)
class LewmRecipe:
    """An action-conditioned world model: next-latent error + SIGReg, as LeWM trains it."""

    kind: Literal["lewm"] = "lewm"
    name: str = "lewm"
    frames: FramesConfig = field(default_factory=FramesConfig)
    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    projector: int = 2048
    windows: WindowsConfig = field(default_factory=WindowsConfig)
    predictor: PredictorConfig = field(default_factory=PredictorConfig)
    sigreg: SigregConfig = field(default_factory=lambda: SigregConfig(weight=0.09, slices=1024))
    augment: AugmentConfig = field(default_factory=AugmentConfig)
    optimiser: OptimiserConfig = field(default_factory=OptimiserConfig)
    stop: StopConfig = field(default_factory=StopConfig)

    def __post_init__(self) -> None:
        require(1 <= self.projector <= 65536, f"projector is {self.projector}; it must be 1 to 65536")


Recipe = LejepaRecipe | LewmRecipe
KINDS: dict[str, type] = {"lejepa": LejepaRecipe, "lewm": LewmRecipe}


def recipe_names() -> list[str]:
    """Names (without suffix) of the recipes in ``./recipes`` and of those that ship with so101walk."""
    return names_in("recipes")


def load_recipe(name_or_path: str | Path) -> Recipe:
    """The recipe that a name (in ``recipes/``) or a path means; a path wins over a name.

    Raises:
        UsageError: No such recipe; the nearest names are offered.
        ConfigError: A key is unknown, missing, of the wrong type, or out of its limits.
    """
    path = find_file("recipes", name_or_path)
    return parse_recipe(read_toml(path), str(path))


def parse_recipe(table: dict, where: str) -> Recipe:
    """A recipe from a parsed table; ``where`` leads every message. Errors as for :func:`load_recipe`."""
    kind = table.get("kind")
    if kind not in KINDS:
        raise ConfigError(f"{where}: kind is {kind!r}; {nearest(str(kind), KINDS)}")
    return build(KINDS[kind], table, where)
