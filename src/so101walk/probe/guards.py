"""Checks that guard the number: each tries to catch one way in which a probe's R^2 has been wrong before."""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from . import intervals
from .encoders import Encoder, Inspectable, Views
from .intervals import EpisodeSums
from .recovery import plain_r2
from .ridge import solve
from .samples import Samples, Split

__all__ = ["Guard", "alignment", "channels", "coverage", "leak"]

Floats = NDArray[np.float64]
Status = Literal["pass", "warn", "unknown"]

GRAY_LEVELS = 1.0
"""Images whose channels differ by less than this many of 255 levels on average are gray."""

LEAST_SHARE = 0.02
"""Least effect of replacing one colour channel, as a share of replacing all three. Blue has 0.114 of luma's weight
(ITU-R BT.601), so even an encoder that reads nothing but luma stays well above."""

MAX_SHIFT = 10
"""Frames that joints are shifted against images, each way."""

SURE_GAIN = 0.03
"""A gain in R^2 at another shift that no interval is asked about: over few episodes it would span anything."""

LEAST_R2 = 0.1
"""A mean R^2 below this at every shift has no peak worth the name."""

PERMUTATIONS = 5


@dataclass(frozen=True)
class Guard:
    """What one check found: its status, what that means in a line, and the figures it rests on."""

    name: str
    status: Status
    message: str
    figures: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """``status``, ``message`` and the figures."""
        return {"status": self.status, "message": self.message, **self.figures}


def channels(encoder: Encoder, views: Views, cameras: tuple[str, ...]) -> Guard:
    """Does the encoder see three colour channels that differ as the images do?

    Every colour channel of every camera is replaced, alone, by that of other frames: the latent must change. Where the
    encoder shows its network's input, each of its channels must also follow the image channel of its own place, and
    differ from the others as the image's do.

    Args:
        encoder: Whose input is checked.
        views: Some frames that differ, at least 2. Shape (n, H, W, 3) a camera.
        cameras: Names of the views.
    """
    names = [c.rsplit(".", 1)[-1] for c in cameras]
    contrast = {name: round(_contrast(view), 3) for name, view in zip(names, views, strict=True)}
    share = _influence(encoder, views, names)
    figures: dict[str, Any] = {"channel_contrast_levels": contrast, "influence": share}
    gray = [name for name, value in contrast.items() if value < GRAY_LEVELS]
    if gray:
        text = f"the images of {' and '.join(gray)} are gray ({contrast[gray[0]]:.2f} of 255 levels between channels): "
        return Guard("channels", "warn", text + "one channel may have been stored thrice", figures)
    deaf = [
        f"{name}: {c}"
        for name, s in share.items()
        for c, v in zip(("red", "green", "blue"), s, strict=True)
        if v < LEAST_SHARE
    ]
    if deaf:
        text = f"the latent doesn't depend on {', '.join(deaf)}: the encoder is not fed three colour channels"
        return Guard("channels", "warn", text, figures)
    if isinstance(encoder, Inspectable):
        fault = _input_fault(encoder, views, names)
        if fault:
            return Guard("channels", "warn", fault, figures)
    least = min(v for s in share.values() for v in s)
    return Guard("channels", "pass", f"every colour channel moves the latent (least share {least:.2f})", figures)


def _contrast(view: NDArray[np.uint8]) -> float:
    x = view.astype(np.float32)
    return float(max(np.abs(x[..., i] - x[..., j]).mean() for i, j in ((0, 1), (1, 2), (0, 2))))


def _influence(encoder: Encoder, views: Views, names: list[str]) -> dict[str, list[float]]:
    """Mean change of the latent when one channel comes from other frames, over that when the whole view does."""
    plain = np.asarray(encoder.encode(views), dtype=np.float64)
    half = max(1, len(plain) // 2)

    def change(camera: int, which: list[int]) -> float:
        changed = [v.copy() if i == camera else v for i, v in enumerate(views)]
        for c in which:
            changed[camera][..., c] = np.roll(255 - views[camera][..., c], half, axis=0)
        return float(np.linalg.norm(np.asarray(encoder.encode(changed), dtype=np.float64) - plain, axis=1).mean())

    share = {}
    for i, name in enumerate(names):
        whole = change(i, [0, 1, 2])
        share[name] = [round(change(i, [c]) / whole, 4) if whole > 0 else 0.0 for c in range(3)]
    return share


def _input_fault(encoder: Inspectable, views: Views, names: list[str]) -> str | None:
    import cv2

    for view, name in zip(views, names, strict=True):
        fed = np.asarray(encoder.inputs(view), dtype=np.float64)
        if fed.ndim != 4 or fed.shape[1] != 3:
            return f"the network's input for {name} is {fed.shape}; three colour channels are expected"
        height, width = fed.shape[2:]
        small = np.stack([cv2.resize(im, (width, height), interpolation=cv2.INTER_AREA) for im in view])
        image, fed = _flat(small.transpose(0, 3, 1, 2).astype(np.float64)), _flat(fed)
        across, of_image, of_fed = _correlation(fed, image), _correlation(image, image), _correlation(fed, fed)
        for c, color in enumerate(("red", "green", "blue")):
            if across[c].max() > across[c, c] + 1e-3:
                other = ("red", "green", "blue")[int(across[c].argmax())]
                return (
                    f"the network's {color} input for {name} follows the image's {other}: swapped or repeated channels"
                )
        for i, j in ((0, 1), (1, 2), (0, 2)):
            if (1 - of_fed[i, j]) < 0.3 * (1 - of_image[i, j]) - 1e-4:
                return f"two of the network's colour inputs for {name} are alike, the image's aren't: repeated channel"
    return None


def _flat(x: Floats) -> Floats:
    flat = x.transpose(1, 0, 2, 3).reshape(3, -1)
    centred = flat - flat.mean(axis=1, keepdims=True)
    return centred / np.maximum(np.linalg.norm(centred, axis=1, keepdims=True), 1e-12)


def _correlation(a: Floats, b: Floats) -> Floats:
    return a @ b.T


def alignment(
    latents: NDArray[Any],
    samples: Samples,
    split: Split,
    alpha: Floats,
    moving: list[int],
    rng: np.random.Generator,
) -> Guard:
    """Is R^2 highest with joints and images taken at the same frame?

    The readout is fit and scored anew with the joints shifted by -10 to +10 frames, on the same images for every shift.
    A peak at +k means that the images show where the joints will be k frames later: joints are stamped late, or
    images early; at -k the images lag.

    Args:
        latents: Of the encoded rows. Shape (n, d).
        samples: Those rows, and the joints of every row.
        split: Training and held-out episodes.
        alpha: Ridge strength of each joint. Shape (m,).
        moving: Joints that count.
        rng: For the interval of the gain at the peak.
    """
    length = {int(e): int(c) for e, c in zip(*np.unique(samples.state_episode, return_counts=True), strict=True)}
    reach = min(MAX_SHIFT, (min(length[e] for e in (*split.train, *split.val)) - 1) // 4)
    if reach < 1 or not moving:
        return Guard("alignment", "unknown", "episodes are too short to shift joints against images")
    last = np.array([length[int(e)] for e in samples.episode])
    inner = (samples.frame >= reach) & (samples.frame < last - reach)
    train = np.flatnonzero(inner & np.isin(samples.episode, split.train))
    val = np.flatnonzero(inner & np.isin(samples.episode, split.val))
    shifts = np.arange(-reach, reach + 1)
    m = len(moving)
    targets = np.zeros((len(samples.rows), m * len(shifts)))
    rows = np.flatnonzero(inner)
    for k, offset in enumerate(shifts):
        targets[rows, k * m : (k + 1) * m] = samples.state[samples.rows[rows] + offset][:, moving]
    readout = solve(latents, targets, train, np.tile(alpha[moving], len(shifts)))
    predicted = readout.predict(latents, val)
    curve = plain_r2(targets[val], predicted).reshape(len(shifts), m).mean(axis=1)

    def sums(k: int) -> EpisodeSums:
        part = slice(k * m, (k + 1) * m)
        return EpisodeSums.of(targets[val][:, part], predicted[:, part], samples.episode[val])

    best = int(np.argmax(curve))
    gain, _ = intervals.difference(sums(best), sums(reach), intervals.mean(list(range(m))), rng, paired=True)
    peak = float(shifts[best]) + _vertex(curve, best)
    figures = {
        "shifts": shifts.tolist(),
        "curve": [round(float(c), 5) for c in curve],
        "peak_frames": round(peak, 2),
        "peak_ms": round(1000.0 * peak / samples.fps, 1),
        "gain": round(gain.value, 5),
        "gain_interval": gain.to_json(),
    }
    if curve[best] < LEAST_R2:
        text = f"R^2 is {curve[best]:.2f} at best: too little is read to tell a shift"
        return Guard("alignment", "unknown", text, figures)
    sure = gain.value > SURE_GAIN or (gain.low is not None and gain.low > 0)
    if best != reach and sure:
        shift = int(shifts[best])
        meaning = "joints are stamped late against images" if shift > 0 else "images lag behind the joints"
        at = f"{shift:+d} frames ({figures['peak_ms']:+.0f} ms)"
        text = f"R^2 peaks at a shift of {at}, higher by {gain.value:.3f}: {meaning}"
        return Guard("alignment", "warn", text, figures)
    if best != reach:
        text = f"R^2 peaks at {shifts[best]:+d} frames, but by no more than chance ({gain.value:.4f})"
        return Guard("alignment", "pass", text, figures)
    return Guard("alignment", "pass", f"R^2 peaks at no shift (parabola {peak:+.2f} frames)", figures)


def _vertex(curve: Floats, best: int) -> float:
    """Offset of the peak from its highest sample, by the parabola through it and its neighbours."""
    if not 0 < best < len(curve) - 1:
        return 0.0
    left, top, right = curve[best - 1 : best + 2]
    bend = left - 2 * top + right
    return 0.0 if bend >= 0 else float(np.clip(0.5 * (left - right) / bend, -0.5, 0.5))


def leak(samples: Samples, split: Split, shuffled_r2: Floats, trained_on: Collection[int] = ()) -> Guard:
    """Is the training data kept out of the score?

    No episode may be on both sides, nor be a copy of one on the other side; and a readout of joints that were
    shuffled among all frames must score at or below zero.

    Args:
        samples: The rows.
        split: Training and held-out episodes.
        shuffled_r2: Held-out mean R^2 of each of some readouts of shuffled joints. Shape (k,).
        trained_on: Episodes of this dataset that the encoder itself was trained on.
    """
    score = float(shuffled_r2.mean())
    chance = 2.0 * float(shuffled_r2.std(ddof=1)) / len(shuffled_r2) ** 0.5 if len(shuffled_r2) > 1 else 0.0
    figures = {"shuffled_r2": round(score, 5), "shuffled_chance": round(chance, 5)}
    shared = sorted(set(split.train) & set(split.val))
    if shared:
        return Guard("leak", "warn", f"episodes {shared} are both fit on and scored", figures)
    known = sorted(set(trained_on) & set(split.val))
    if known:
        text = (
            f"the encoder was trained on episodes {known}, which are scored: give the --val and --seed of its training"
        )
        return Guard("leak", "warn", text, {**figures, "trained_on": known})
    copies = _copies(samples, split)
    if copies:
        text = (
            f"held-out episode {copies[0][1]} has the joints of training episode {copies[0][0]}: {len(copies)} copies"
        )
        return Guard("leak", "warn", text, {**figures, "copies": copies})
    if score - chance > 0.0 and score > 1e-3:
        text = f"a readout of shuffled joints scores {score:.3f}, above zero: training frames leak into the score"
        return Guard("leak", "warn", text, figures)
    return Guard("leak", "pass", f"no episode on both sides; shuffled joints score {score:+.4f}", figures)


def _copies(samples: Samples, split: Split) -> list[tuple[int, int]]:
    def content(episode: int) -> bytes:
        return samples.state[samples.state_episode == episode].tobytes()

    known = {content(e): e for e in split.train}
    return [(known[content(e)], e) for e in split.val if content(e) in known]


def coverage(samples: Samples, split: Split) -> Guard:
    """Does every joint move in the held-out episodes? The R^2 of one that hardly does means little.

    Named is a joint whose standard deviation there is below 1 unit (a degree: about the arm's backlash, field.md)
    where the unit is known, or below a tenth of that in training.
    """
    train = samples.q[samples.in_episodes(split.train)]
    held = samples.q[samples.in_episodes(split.val)]
    spread, usual = held.std(axis=0), train.std(axis=0)
    still = []
    for j, name in enumerate(samples.joints):
        least = max(1.0 if samples.units[j] else 0.0, 0.1 * usual[j])
        if spread[j] < least or spread[j] <= 1e-9 * (1.0 + np.abs(held[:, j]).max()):
            still.append(name)
    figures = {
        "std": {n: round(float(s), 4) for n, s in zip(samples.joints, spread, strict=True)},
        "train_std": {n: round(float(s), 4) for n, s in zip(samples.joints, usual, strict=True)},
        "still": still,
    }
    if still:
        move = "moves" if len(still) == 1 else "move"
        text = f"{', '.join(still)} hardly {move} in the held-out episodes: that R^2 means little"
        return Guard("coverage", "warn", text, figures)
    return Guard("coverage", "pass", "every joint moves in the held-out episodes", figures)
