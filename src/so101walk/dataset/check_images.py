"""Does every row have its image, and do images change while the joints move? One decoding pass over each video.

Every image is shrunk to 32x32 (area averages, so that what the codec adds is averaged away) and compared with the one
before. A camera that serves its last picture for ever looks healthy in every other way (field.md).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..errors import DatasetError
from .check_motion import runs
from .decoding import decode_file
from .episodes import Episode
from .findings import Finding, rows_text
from .reader import Dataset

if TYPE_CHECKING:
    import av

__all__ = ["Look", "check_looks", "look_at_camera"]

Floats = NDArray[np.float64]

SMALL = 32
"""Side of the shrunk image [px]."""

CHANGED_CELLS = 8
"""An image's change is the mean over the 8 shrunk pixels of 1024 that change most: a moving arm fills few of them."""

SAME_LEVELS, SAME_SHARE = 1.5, 0.12
"""Two images are the same picture if the grey level changes by less than 1.5 of 255, what a codec makes of one picture
coded twice (x264 at crf 18: 99 % below 1.4), or by less than an eighth of the usual change while joints move."""

ONE_PICTURE_LEVELS = 3.0
"""A camera whose images never change by more shows one picture (the codec alone: at most 2.0)."""

GREY = np.array([0.299, 0.587, 0.114])
"""Luma of red, green and blue (ITU-R BT.601); colour alone is coded too coarsely to compare."""

MOVING_LEVELS = 4.0
"""An image should change visibly in a row whose joint speeds let expect this many levels of change."""

STILL_LEVELS = 20.0
"""A run of one picture is a fault once the joint speeds let expect this many levels of change within it ..."""

TWO_JOINTS, TWO_JOINTS_IN_A_ROW = 0.02, 0.002
"""... and two joints have covered this share of their ranges, in the run or in a single row: one joint alone may move
where the camera doesn't see it, such as a gripper behind the arm."""

LATE = 5
"""... its last so many rows left aside, since an image may be 100 ms behind the joints (field.md)."""

SCATTERED = 0.01
"""Single repeats in more than this share of the moving rows are worth a warning."""


@dataclass
class Look:
    """What one pass over an episode's images saw.

    Attributes:
        episode: Index.
        seen: Which rows have an image, shape (n,).
        change: Change of each image against the one before [levels], shape (n,); the first is 0, NaN where unseen.
        mean: Sum over the images of the mean of each channel in 0..1, shape (3,).
        size: Height and width [px] of the images, None if none was seen.
        torn: Why decoding ended early, or "".
    """

    episode: int
    seen: NDArray[np.bool_]
    change: Floats
    mean: Floats = field(default_factory=lambda: np.zeros(3))
    size: tuple[int, int] | None = None
    torn: str = ""
    _last: Floats | None = None

    @classmethod
    def blank(cls, episode: Episode) -> "Look":
        """Nothing seen yet."""
        return cls(episode.index, np.zeros(episode.length, bool), np.full(episode.length, np.nan))

    def add(self, row: int, frame: "av.VideoFrame") -> None:
        """Take the image of a row; rows come in order."""
        small = frame.reformat(SMALL, SMALL, "rgb24", interpolation="AREA").to_ndarray().astype(np.float64)
        grey = small @ GREY
        if self._last is None:
            self.change[row] = 0.0
        else:
            difference = np.abs(grey - self._last).ravel()
            self.change[row] = np.partition(difference, -CHANGED_CELLS)[-CHANGED_CELLS:].mean()
        self._last = grey
        self.mean += small.reshape(-1, 3).mean(0) / 255.0
        self.seen[row] = True
        self.size = (frame.height, frame.width)


def look_at_camera(
    dataset: Dataset, camera: str, episodes: Sequence[Episode], advance: Callable[[int], None]
) -> tuple[list[Look], list[Finding]]:
    """Decode every image of a camera once.

    Args:
        dataset: Whose.
        camera: Column name.
        episodes: Which.
        advance: Called with the number of images looked at since the last call.

    Returns:
        A look at each episode, and findings about frames that belong to none.
    """
    looks = {e.index: Look.blank(e) for e in episodes}
    found: list[Finding] = []
    files: dict[Path, list[Episode]] = {}
    for e in episodes:
        if camera in e.videos:
            files.setdefault(e.videos[camera].path, []).append(e)
        else:
            _look_at_stored(dataset, camera, e, looks[e.index])
            advance(e.length)
    for path, inside in files.items():
        found += _look_at_file(dataset, path, camera, inside, looks, advance)
    return list(looks.values()), found


def _look_at_file(
    dataset: Dataset,
    path: Path,
    camera: str,
    inside: list[Episode],
    looks: Mapping[int, Look],
    advance: Callable[[int], None],
) -> list[Finding]:
    spans = sorted(((e.videos[camera], e.index) for e in inside), key=lambda s: s[0].from_s)
    whole = len(inside) == sum(e.videos[camera].path == path for e in dataset.episodes)
    k, strays, waiting = 0, 0, 0
    try:
        for t_s, frame in decode_file(path):
            while k + 1 < len(spans) and spans[k + 1][0].number(t_s) >= 0:
                k += 1
            row = spans[k][0].number(t_s)
            if 0 <= row < spans[k][0].length and not looks[spans[k][1]].seen[row]:
                looks[spans[k][1]].add(row, frame)
            else:
                strays += 1
            waiting += 1
            if waiting == 30:
                advance(waiting)
                waiting = 0
    except DatasetError as e:
        for _, index in spans:
            looks[index].torn = str(e).replace(f"{dataset.root}/", "")
    advance(waiting)
    if strays and whole:
        text = f"{path.relative_to(dataset.root)} has {strays} frames that belong to no row"
        only = inside[0].index if len(inside) == 1 else None
        return [Finding("structure.extra_frames", "error" if only is not None else "warning", text, only)]
    return []


def _look_at_stored(dataset: Dataset, camera: str, episode: Episode, look: Look) -> None:
    import av

    try:
        for row, image in enumerate(dataset.frames(camera, episode.index)):
            look.add(row, av.VideoFrame.from_ndarray(np.ascontiguousarray(image), format="rgb24"))
    except DatasetError as e:
        look.torn = str(e).replace(f"{dataset.root}/", "")


def check_looks(
    dataset: Dataset, camera: str, looks: Sequence[Look], rows: Mapping[int, Mapping[str, NDArray[Any]]]
) -> Iterator[Finding]:
    """Findings about one camera's images.

    How much an image should change in a row is expected from the joints' speeds, by a non-negative regression over the
    dataset: a joint that this camera hardly sees lets expect hardly any change.

    Args:
        dataset: Whose.
        camera: Column name.
        looks: What was seen.
        rows: Columns by episode; without ``observation.state`` whether joints move is unknown.
    """
    name = camera.rsplit(".", 1)[-1]
    for look in looks:
        yield from _missing(dataset, camera, name, look)
    known = [k for k in looks if k.seen.all() and len(k.seen) > 1 and "observation.state" in rows.get(k.episode, {})]
    if not known:
        yield Finding("images.unknown", "note", f"{name}: whether images repeat while the joints move is unknown")
        return
    moves = [_steps(rows[look.episode]) for look in known]
    expected, same_below = _expected_change([look.change[1:] for look in known], moves)
    if max(look.change.max() for look in known) <= ONE_PICTURE_LEVELS and max(m.max(initial=0.0) for m in moves) > 0:
        text = f"{name}: shows one picture in the whole dataset while the joints move"
        yield Finding("images.repeated", "error", text)
        return
    width = _ranges(rows)
    single, moving = 0, 0
    for look, hoped, moved in zip(known, expected, (m / width for m in moves), strict=True):
        marks = rows[look.episode].get(f"sync.repeated.{name}", np.zeros(len(look.seen), int)) != 0
        clear = (hoped >= MOVING_LEVELS) & (_second_most(moved) >= TWO_JOINTS_IN_A_ROW)
        moving += int(clear.sum())
        for first, last in runs(look.change[1:] <= same_below):
            told = bool(marks[first + 1 : last + 2].all())
            due = slice(first, max(first, last + 1 - LATE))
            if hoped[due].sum() >= STILL_LEVELS and _second_most(moved[due].sum(0)) >= TWO_JOINTS:
                yield _repeat(name, look.episode, first, last + 1, told)
            elif not told and first >= LATE and clear[first - LATE : last + 2].all():
                single += last + 1 - first
    if single > SCATTERED * moving:
        text = (
            f"{name}: {single} of {moving} rows in which the joints move show the image of the row before: "
            "the camera is slower than the rows"
        )
        yield Finding("images.doubled", "warning", text)


def _missing(dataset: Dataset, camera: str, name: str, look: Look) -> Iterator[Finding]:
    have, need = int(look.seen.sum()), len(look.seen)
    if have != need:
        why = f" ({look.torn})" if look.torn else ""
        text = f"{name}: {have} images can be decoded for {need} rows{why}{dataset.repair_hint}"
        yield Finding("structure.torn" if look.torn else "structure.video_frames", "error", text, look.episode)
    height, width = dataset.features[camera]["shape"][:2]
    if look.size is not None and look.size not in ((height, width), tuple(dataset.features[camera]["shape"][1:])):
        text = f"{name}: images are {look.size[1]}x{look.size[0]} px; the metadata says {width}x{height}"
        yield Finding("structure.image_size", "error", text, look.episode)


def _repeat(name: str, episode: int, first: int, last: int, told: bool) -> Finding:
    count = last - first + 1
    text = f"{name}: {rows_text(first, last)} show one picture ({count} rows) while the joints move"
    if told:
        return Finding("images.stalled", "warning", f"{text}; marked in sync.repeated.{name}", episode)
    return Finding("images.repeated", "error", f"{text}: the camera stood still", episode)


def _steps(columns: Mapping[str, NDArray[Any]]) -> Floats:
    """How far each joint moves from row to row. Shape (n - 1, d)."""
    return np.abs(np.diff(columns["observation.state"].astype(np.float64), axis=0))


def _ranges(rows: Mapping[int, Mapping[str, NDArray[Any]]]) -> Floats:
    """What each joint covers in the dataset, infinite for one that doesn't move. Shape (d,)."""
    q = [r["observation.state"] for r in rows.values() if "observation.state" in r]
    width = np.max([x.max(0) for x in q], axis=0).astype(float) - np.min([x.min(0) for x in q], axis=0)
    return np.where(width > 0, width, np.inf)


def _expected_change(changes: list[Floats], moves: list[Floats]) -> tuple[list[Floats], float]:
    """What the joints' speeds let expect.

    Returns:
        The change of each row's image, by episode; and the change below which two images are the same picture.
    """
    from scipy.optimize import nnls

    all_moves, all_changes = np.concatenate(moves), np.concatenate(changes)
    weight, _ = nnls(all_moves.T @ all_moves, all_moves.T @ all_changes)
    expected = [m @ weight for m in moves]
    visible = np.concatenate(expected) >= MOVING_LEVELS
    usual = float(np.median(all_changes[visible])) if visible.any() else 0.0
    return expected, max(SAME_LEVELS, SAME_SHARE * usual)


def _second_most(shares: Floats) -> Floats:
    """The second largest share of its range that a joint covers, or the only one. Shape (..., d) to (...)."""
    return np.sort(shares, axis=-1)[..., -min(2, shares.shape[-1])]
