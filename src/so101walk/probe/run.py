"""One probe, from a dataset and an encoder to every figure: encode, fit on the training episodes, score the held-out
ones."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..dataset.reader import Dataset
from ..errors import UsageError
from . import bars as bars_file
from .checks import run_guards
from .encoders import Encoder, EncoderOptions, Fitted, Stored, check_latents, load_encoder
from .guards import Guard
from .intervals import Interval
from .latents import Latents, Progress, dataset_digest, extract
from .measure import Fit, plain_figures, score_references, theorem_figures
from .pixel_encoders import Pca, RandomCnn
from .recovery import Recovery, recovery
from .ridge import folds_of
from .samples import Samples, Split, split_episodes
from .theorem import Theorem

__all__ = ["ProbeOptions", "ProbeResult", "encode", "probe"]

Floats = NDArray[np.float64]
Say = Callable[[str], None]


@dataclass(frozen=True)
class ProbeOptions:
    """What may be chosen about a probe.

    Attributes:
        val: Held-out episodes, see :func:`split_episodes`.
        seed: Of the split, the resamples, the random CNN and the guards.
        cameras: Names of the views; all of the dataset's if empty.
        stride: Encode every ``stride``-th frame.
        device: Torch device, or ``auto``.
        batch: Frames encoded at once.
        bars: A bars file, by path or shipped name.
        guards: Run the checks that guard the number.
        references: Also score the mean, PCA of pixels, a random CNN and the quadratic probe.
    """

    val: str = "0.3"
    seed: int = 0
    cameras: tuple[str, ...] = ()
    stride: int = 1
    device: str = "auto"
    batch: int = 64
    bars: str | None = None
    guards: bool = True
    references: bool = True


@dataclass(frozen=True)
class ProbeResult:
    """Everything that one probe found.

    Attributes:
        dataset: What was read.
        spec: The encoder's SPEC.
        cameras: Column names of its views.
        options: What was chosen.
        samples: The frames.
        split: Training and held-out episodes.
        val: Places of the held-out frames. Shape (n_val,).
        predicted: Joints that the linear readout gives for them. Shape (n_val, m).
        linear: How well it does.
        alpha: Ridge strength of each joint. Shape (m,).
        latents: Who made the latents, and when.
        references: Recovery of the references, by name.
        extra: ``reverse_r2``, ``orthogonality_error``, ``angles`` and what else is a plain figure.
        theorem: The figures of theorem 5.3, or None with the reason in ``extra``.
        guards: What the checks found.
        verdicts: What the bars say.
        seconds: Time that each stage took.
    """

    dataset: Dataset
    spec: str
    cameras: tuple[str, ...]
    options: ProbeOptions
    samples: Samples
    split: Split
    val: NDArray[np.int64]
    predicted: Floats
    linear: Recovery
    alpha: Floats
    latents: Latents
    references: dict[str, Recovery] = field(default_factory=dict)
    extra: dict[str, Any] = field(default_factory=dict)
    theorem: Theorem | None = None
    guards: tuple[Guard, ...] = ()
    verdicts: tuple[bars_file.Judgement, ...] = ()
    seconds: dict[str, float] = field(default_factory=dict)


def probe(
    path: str | Path,
    encoder: str | Encoder | Stored | Fitted,
    options: ProbeOptions | None = None,
    progress: Progress | None = None,
    say: Say = lambda _: None,
) -> ProbeResult:
    """Measure how well a linear readout of an encoder's latents recovers the joints.

    Args:
        path: Folder of a LeRobot v3 dataset.
        encoder: A SPEC, or an encoder.
        options: See :class:`ProbeOptions`.
        progress: Told of every batch encoded.
        say: Told in a line what is being done.

    Raises:
        UsageError: An option, SPEC or encoder that can't be used.
        DatasetError: The dataset can't be read, or has no joints or cameras.
    """
    options = options or ProbeOptions()
    bars = bars_file.find_bars(options.bars) if options.bars else None
    if bars is not None:
        bars_file.load_bars(bars)
    clock = _Stages()
    dataset = Dataset.open(path)
    samples = Samples.of(dataset, options.stride)
    cameras = tuple(dataset.camera(c) for c in options.cameras) or dataset.cameras
    if len(set(cameras)) < len(cameras):
        raise UsageError("--cameras names a camera twice")
    split = split_episodes(tuple(e.index for e in dataset.episodes), options.val, options.seed)
    train, val = samples.in_episodes(split.train), samples.in_episodes(split.val)
    if isinstance(encoder, str):
        say(f"loading {encoder}")
        encoder = load_encoder(encoder, EncoderOptions(options.device, cameras, options.seed))
    digest = dataset_digest(dataset, cameras)
    clock.end("load")

    say("encoding")
    rng = np.random.default_rng(np.random.SeedSequence((options.seed, 4)))
    made = _Maker(dataset, digest, samples, cameras, options, progress).make(encoder, train, rng)
    clock.end("encode")

    say("fitting")
    folds = folds_of(samples.episode[train], samples.frame[train])
    fitted = Fit.of(made.latents.array, samples, train, val, folds, rng)
    linear = recovery(samples.joints, samples.q[val], fitted.predicted, samples.episode[val], rng)
    moving = [j for j, r in enumerate(linear.r2) if np.isfinite(r.value)]
    extra = plain_figures(made.latents, samples, fitted, train, val, folds, moving)
    theorem = theorem_figures(dataset, samples, split, made.latents, fitted.readout, train, moving, extra)
    clock.end("fit")

    references = {}
    if options.references:
        say("references")
        references = score_references(
            made.references, made.latents.array, samples, fitted.readout, train, val, folds, rng
        )
        clock.end("references")
    found: tuple[Guard, ...] = ()
    if options.guards:
        say("guards")
        found = run_guards(dataset, digest, cameras, encoder, made.latents, samples, split, fitted, moving, rng)
        clock.end("guards")
    verdicts: tuple[bars_file.Judgement, ...] = ()
    if bars is not None:
        verdicts = tuple(bars_file.judge(bars, figures_of(linear, references, extra), made.latents.made_s))
    return ProbeResult(
        dataset, encoder.spec, cameras, options, samples, split, val, fitted.predicted, linear, fitted.readout.alpha,
        made.latents, references, extra, theorem, found, verdicts, clock.seconds,
    )  # fmt: skip


def encode(path: str | Path, specs: Sequence[str], options: ProbeOptions, progress: Progress | None = None) -> None:
    """Make the latents of several encoders, and of the references if they are wanted, in one pass over the images.

    A probe of each of them with the same options then finds them in the cache.

    Args:
        path: Folder of a LeRobot v3 dataset.
        specs: The encoders.
        options: As for :func:`probe`.
        progress: Told of every batch encoded.

    Raises:
        UsageError: A SPEC that can't be used.
        DatasetError: The dataset can't be read.
    """
    dataset = Dataset.open(path)
    cameras = tuple(dataset.camera(c) for c in options.cameras) or dataset.cameras
    encoders = [load_encoder(s, EncoderOptions(options.device, cameras, options.seed)) for s in specs]
    maker = _Maker(
        dataset, dataset_digest(dataset, cameras), Samples.of(dataset, options.stride), cameras, options, progress
    )
    maker.extract([e.base if isinstance(e, Fitted) else e for e in encoders if not isinstance(e, Stored)])


def figures_of(linear: Recovery, references: dict[str, Recovery], extra: dict[str, Any]) -> dict[str, Interval]:
    """What bars may be held against, by metric."""
    figures = {"mean_r2": linear.mean, "anisotropy": linear.anisotropy}
    figures |= {f"r2.{name}": r for name, r in zip(linear.joints, linear.r2, strict=True)}
    figures |= {key: Interval(float(extra[key]), None, None) for key in ("reverse_r2", "orthogonality_error")}
    if "quadratic" in references:
        figures["quadratic_mean_r2"] = references["quadratic"].mean
    return figures


class _Stages:
    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._start = time.perf_counter()

    def end(self, name: str) -> None:
        now = time.perf_counter()
        self.seconds[name] = round(now - self._start, 3)
        self._start = now


@dataclass(frozen=True)
class _Made:
    """Latents of the encoder, and of the references made in the same pass over the images."""

    latents: Latents
    references: dict[str, NDArray[Any]]


@dataclass(frozen=True)
class _Maker:
    dataset: Dataset
    digest: str
    samples: Samples
    cameras: tuple[str, ...]
    options: ProbeOptions
    progress: Progress | None

    def make(self, encoder: Encoder | Stored | Fitted, train: NDArray[np.int64], rng: np.random.Generator) -> _Made:
        """Encode with the encoder and the references, decoding once."""
        wanted: list[Encoder] = []
        if not isinstance(encoder, Stored):
            wanted.append(encoder.base if isinstance(encoder, Fitted) else encoder)
        made = self.extract(wanted)
        if isinstance(encoder, Stored):
            array = encoder.read(self.samples.episode, self.samples.frame)
            check_latents(encoder.spec, array, len(self.samples.rows), self.samples.where)
            latents = Latents(encoder.spec, array, encoder.made_s, True)
        else:
            latents = made[0]
            if isinstance(encoder, Fitted):
                array = encoder.reduce(latents.array, train, rng)
                latents = Latents(encoder.spec, array, latents.made_s, latents.cached, latents.notes)
        if not self.options.references:
            return _Made(latents, {})
        components = Pca(latents.width).reduce(made[-1].array, train, rng)
        return _Made(latents, {f"pca:{components.shape[1]}": components, made[-2].spec: made[-2].array})

    def extract(self, encoders: Sequence[Encoder]) -> list[Latents]:
        """Latents of the encoders, then, if references are wanted, those of the random CNN and the pixels for PCA."""
        options = self.options
        wanted = list(encoders)
        if options.references:
            wanted += [RandomCnn(256, options.seed, options.device), Pca(1).base]
        if not wanted:
            return []
        return extract(self.dataset, self.digest, self.samples, self.cameras, wanted, options.batch, self.progress)
