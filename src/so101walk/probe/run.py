"""One probe, from a dataset and an encoder to every figure: encode, fit on the training episodes, score the held-out ones."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..dataset.reader import Dataset
from ..errors import DatasetError
from . import bars as bars_file
from . import guards
from .decode_guard import decode
from .encoders import Encoder, EncoderOptions, Fitted, Stored, check_latents, load_encoder
from .guards import Guard
from .intervals import Interval
from .latents import Latents, Notes, Progress, dataset_digest, extract
from .pixel_encoders import Pca, RandomCnn
from .quadratic import LINEAR_WIDTH, quadratic_predictions
from .recovery import (
    TURNS_FAR_DEG,
    Recovery,
    angle_targets,
    orthogonality_error,
    plain_r2,
    recovery,
    reverse_r2,
    whitened,
    within_share,
)
from .ridge import Readout, fit, folds_of
from .samples import Samples, Split, split_episodes
from .theorem import Theorem, theorem_5_3, waypoint_pairs

__all__ = ["ProbeOptions", "ProbeResult", "probe"]

Floats = NDArray[np.float64]
Say = Callable[[str], None]

GUARD_FRAMES = 6


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
        raise DatasetError(f"--cameras names {cameras[0].rsplit('.', 1)[-1]!r} or another camera twice")
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
    fitted = _Fitted.of(made.latents.array, samples, train, val, folds, rng)
    linear = recovery(samples.joints, samples.q[val], fitted.predicted, samples.episode[val], rng)
    moving = [j for j, r in enumerate(linear.r2) if np.isfinite(r.value)]
    extra = _extra(made.latents, samples, fitted, train, val, folds, moving)
    theorem = _theorem(dataset, samples, split, made.latents, fitted.readout, train, moving, extra)
    clock.end("fit")

    references = {}
    if options.references:
        say("references")
        references = _references(made, samples, fitted.readout, train, val, folds, rng)
        clock.end("references")
    found: tuple[Guard, ...] = ()
    if options.guards:
        say("guards")
        found = _guards(dataset, digest, cameras, encoder, made.latents, samples, split, fitted, moving, rng)
        clock.end("guards")
    verdicts: tuple[bars_file.Judgement, ...] = ()
    if bars is not None:
        verdicts = tuple(bars_file.judge(bars, figures_of(linear, references, extra), made.latents.made_s))
    return ProbeResult(
        dataset, encoder.spec, cameras, options, samples, split, val, fitted.predicted, linear, fitted.readout.alpha,
        made.latents, references, extra, theorem, found, verdicts, clock.seconds,
    )  # fmt: skip


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
        random_cnn = RandomCnn(256, self.options.seed, self.options.device) if self.options.references else None
        pca = Pca(1)
        wanted: list[Encoder] = []
        if not isinstance(encoder, Stored):
            wanted.append(encoder.base if isinstance(encoder, Fitted) else encoder)
        if random_cnn is not None:
            wanted += [random_cnn, pca.base]
        made = self._extract(wanted)
        if isinstance(encoder, Stored):
            array = encoder.read(self.samples.episode, self.samples.frame)
            check_latents(encoder.spec, array, len(self.samples.rows), self.samples.where)
            latents = Latents(encoder.spec, array, encoder.made_s, True)
        else:
            latents = made[0]
            if isinstance(encoder, Fitted):
                array = encoder.reduce(latents.array, train, rng)
                latents = Latents(encoder.spec, array, latents.made_s, latents.cached, latents.notes)
        if random_cnn is None:
            return _Made(latents, {})
        size = latents.width
        components = Pca(size).reduce(made[-1].array, train, rng)
        return _Made(latents, {f"pca:{components.shape[1]}": components, random_cnn.spec: made[-2].array})

    def _extract(self, encoders: Sequence[Encoder]) -> list[Latents]:
        if not encoders:
            return []
        options = self.options
        return extract(self.dataset, self.digest, self.samples, self.cameras, encoders, options.batch, self.progress)


@dataclass(frozen=True)
class _Fitted:
    """The linear readout, and what was fit beside it on the same sums: angles, and joints that were shuffled."""

    readout: Readout
    predicted: Floats
    far: list[int]
    angles: Floats
    shuffled_r2: Floats

    @classmethod
    def of(
        cls,
        latents: NDArray[Any],
        samples: Samples,
        train: NDArray[np.int64],
        val: NDArray[np.int64],
        folds: NDArray[np.int64],
        rng: np.random.Generator,
    ) -> "_Fitted":
        q = samples.q
        m = q.shape[1]
        far = [j for j, unit in enumerate(samples.units) if unit == "deg" and np.ptp(q[:, j]) > TURNS_FAR_DEG]
        angles = angle_targets(q[:, far])
        shuffled = [q[rng.permutation(len(q))] for _ in range(guards.PERMUTATIONS)]
        targets = np.concatenate([q, angles, *shuffled], axis=1)
        every = fit(latents, targets, train, folds, components=LINEAR_WIDTH)
        predicted = every.predict(latents, val)
        r2 = plain_r2(targets[val], predicted)
        first = m + angles.shape[1]
        by_permutation = np.nanmean(r2[first:].reshape(guards.PERMUTATIONS, m), axis=1)
        readout = every.of_targets(0, m)
        return cls(readout, predicted[:, :m], far, r2[m:first].reshape(2, -1).T, by_permutation)


def _extra(
    latents: Latents,
    samples: Samples,
    fitted: _Fitted,
    train: NDArray[np.int64],
    val: NDArray[np.int64],
    folds: NDArray[np.int64],
    moving: list[int],
) -> dict[str, Any]:
    share = within_share(samples.q[val], samples.episode[val])
    orthogonality = orthogonality_error(fitted.readout, latents.array, samples.q, train, val, moving)
    names = [samples.joints[j] for j in fitted.far]
    return {
        "reverse_r2": reverse_r2(samples.q, latents.array, train, val, folds),
        "orthogonality_error": orthogonality,
        "within_share": dict(zip(samples.joints, share.tolist(), strict=True)),
        "angles": {n: {"sin": float(s), "cos": float(c)} for n, (s, c) in zip(names, fitted.angles, strict=True)},
    }


def _theorem(
    dataset: Dataset,
    samples: Samples,
    split: Split,
    latents: Latents,
    readout: Readout,
    train: NDArray[np.int64],
    moving: list[int],
    extra: dict[str, Any],
) -> Theorem | None:
    """Theorem 5.3 on held-out pairs of waypoints; None, and why, where a dataset has none."""
    if not {"walk.z", "walk.waypoint"} <= dataset.features.keys():
        extra["theorem_reason"] = "the dataset has no walk.z and walk.waypoint, so no pairs a step apart"
        return None
    columns = dataset.columns(["walk.z", "walk.waypoint"])
    waypoint = columns["walk.waypoint"].reshape(-1)[samples.rows].astype(np.int64)
    z = columns["walk.z"][samples.rows].astype(np.float64)
    first, second = waypoint_pairs(samples.episode, samples.frame, waypoint)
    held = np.isin(samples.episode[first], split.val)
    first, second = first[held], second[held]
    active = [j for j in range(z.shape[1]) if z[:, j].std() > 1e-6 and j in moving]
    if len(first) < 2 * len(active) or not active or not np.isfinite(z).all():
        extra["theorem_reason"] = f"{len(first)} pairs of waypoints in the held-out episodes are too few"
        return None
    if latents.width == len(active):
        h, name = np.asarray(latents.array, dtype=np.float64), "latent"
    else:
        h, name = whitened(readout.predict(latents.array)[:, active], train), "readout"
    if h is None:
        extra["theorem_reason"] = "the readout's covariance is singular"
        return None
    found = theorem_5_3(h[first], h[second], z[first][:, active], z[second][:, active], name)
    if not found.rho > 0.0:
        extra["theorem_reason"] = f"waypoints a step apart have correlation {found.rho:.2f}; the theorem needs one above 0"
        return None
    return found


def _references(
    made: _Made,
    samples: Samples,
    linear: Readout,
    train: NDArray[np.int64],
    val: NDArray[np.int64],
    folds: NDArray[np.int64],
    rng: np.random.Generator,
) -> dict[str, Recovery]:
    q, episode = samples.q, samples.episode[val]

    def score(predicted: Floats) -> Recovery:
        return recovery(samples.joints, q[val], predicted, episode, rng)

    found = {"mean": score(np.tile(q[train].mean(axis=0), (len(val), 1)))}
    for name, latents in made.references.items():
        found[name] = score(fit(latents, q, train, folds).predict(latents, val))
    quadratic = quadratic_predictions(linear, made.latents.array, q, train, val, folds)
    found["quadratic"] = score(quadratic.predicted)
    return found


def _guards(
    dataset: Dataset,
    digest: str,
    cameras: tuple[str, ...],
    encoder: Encoder | Stored | Fitted,
    latents: Latents,
    samples: Samples,
    split: Split,
    fitted: _Fitted,
    moving: list[int],
    rng: np.random.Generator,
) -> tuple[Guard, ...]:
    """Every check, those on images kept beside cached latents since they are of the same images and encoder."""
    seen = Guard("channels", "unknown", "the latents were made elsewhere: what their encoder was fed can't be seen")
    if not isinstance(encoder, Stored):
        base = encoder.base if isinstance(encoder, Fitted) else encoder
        seen = _kept(latents.notes, "channels", lambda: guards.channels(base, _some_views(dataset, cameras), cameras))
    return (
        seen,
        guards.alignment(latents.array, samples, split, fitted.readout.alpha, moving, rng),
        _kept(Notes.of_dataset(digest), "decode", lambda: decode(dataset, cameras, rng)),
        guards.leak(samples, split, fitted.shuffled_r2),
        guards.coverage(samples, split),
    )


def _kept(notes: Notes | None, name: str, check: Callable[[], Guard]) -> Guard:
    kept = notes.get(name) if notes else None
    if isinstance(kept, dict):
        return Guard(**kept)
    found = check()
    if notes:
        notes.keep(name, vars(found))
    return found


def _some_views(dataset: Dataset, cameras: tuple[str, ...]) -> list[NDArray[np.uint8]]:
    """A few frames of each camera, from as many episodes as there are frames to take."""
    total = sum(e.length for e in dataset.episodes)
    places = np.linspace(0, total - 1, min(GUARD_FRAMES, total)).astype(int)
    wanted: dict[int, list[int]] = {}
    start = 0
    for e in dataset.episodes:
        mine = places[(places >= start) & (places < start + e.length)] - start
        if len(mine):
            wanted[e.index] = sorted(set(mine.tolist()))
        start += e.length
    return [np.concatenate([dataset.decode_at(c, e, numbers) for e, numbers in wanted.items()]) for c in cameras]
