"""Did time run as the timestamps say? Cadence, gaps, ages of images and of joint readings, from the measured times.

LeRobot's ``timestamp`` is ``frame_index / fps`` whatever really happened; only recorders that keep measured times
(``sync.*``) can be checked, for others this is unknown.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .findings import Finding
from .reader import Dataset

__all__ = ["EpisodeTiming", "check_timing", "timing_report"]

Rows = Mapping[str, NDArray[Any]]
Floats = NDArray[np.float64]

WALL, GAP = "sync.wall_ns", "sync.state_gap_ns"
CAPTURE, REPEATED = "sync.capture_ns.", "sync.repeated."

CADENCE_LIMIT = 0.005
"""Half a percent. Our recorder keeps 0.05 %; lerobot-record ran 0.3 to 1.5 % slow unnoticed (field.md)."""

GAP_FACTOR = 2.0
"""An interval of more than twice the usual one is a gap, not the cadence."""


@dataclass(frozen=True)
class EpisodeTiming:
    """Measured times of one episode.

    Attributes:
        seconds: From the first to the last frame.
        cadence_error: Usual measured interval against the nominal one, less 1; gaps left out. Positive is slow.
        gaps: Row before which time is missing, and how long the interval was [s].
        ages: From each frame's nominal time to its image's capture [s], by camera, shape (n,).
        state_gap_s: Widths of the joint brackets, shape (n,).
        repeated: Frames of each camera that are marked as showing an earlier image.
        unmarked: Rows of each camera whose image has the capture time of the row before, unmarked.
    """

    seconds: float
    cadence_error: float
    gaps: tuple[tuple[int, float], ...]
    ages: dict[str, Floats]
    state_gap_s: Floats
    repeated: dict[str, int]
    unmarked: dict[str, list[int]]

    @classmethod
    def measure(cls, rows: Rows, fps: float) -> "EpisodeTiming | None":
        """From the columns of an episode; None where the measured times are not there or the episode has one row."""
        if WALL not in rows or len(rows[WALL]) < 2:
            return None
        wall_s = rows[WALL].astype(np.float64) / 1e9
        interval = np.diff(wall_s)
        usual = float(np.median(interval))
        gap = interval > max(GAP_FACTOR * usual, GAP_FACTOR / fps)
        cadence = float(interval[~gap].mean()) * fps - 1.0 if not gap.all() else 0.0
        cameras = [n.removeprefix(CAPTURE) for n in rows if n.startswith(CAPTURE)]
        marks = {c: rows[REPEATED + c] != 0 for c in cameras if REPEATED + c in rows}
        return cls(
            seconds=float(wall_s[-1] - wall_s[0]),
            cadence_error=cadence,
            gaps=tuple((int(i) + 1, float(interval[i])) for i in np.flatnonzero(gap)),
            ages={c: rows[CAPTURE + c].astype(np.float64) / 1e9 for c in cameras},
            state_gap_s=rows[GAP].astype(np.float64) / 1e9 if GAP in rows else np.zeros(0),
            repeated={c: int(m.sum()) for c, m in marks.items()},
            unmarked={c: _same_capture(rows[CAPTURE + c], fps, marks.get(c)) for c in cameras},
        )


def _same_capture(capture_ns: NDArray[Any], fps: float, marked: NDArray[np.bool_] | None) -> list[int]:
    """Rows that show the image of the row before: its capture lies one frame period further back."""
    absolute = capture_ns.astype(np.float64) + np.arange(len(capture_ns)) * 1e9 / fps
    again = np.concatenate([[False], np.abs(np.diff(absolute)) < 1e3])
    return [int(i) for i in np.flatnonzero(again if marked is None else again & ~marked)]


def check_timing(dataset: Dataset, episode: int, timing: EpisodeTiming) -> list[Finding]:
    """Findings about one episode's measured times."""
    return [Finding(f"timing.{code}", "error", text, episode) for code, text in _faults(timing, dataset.fps)]


def _faults(timing: EpisodeTiming, fps: float) -> Iterator[tuple[str, str]]:
    error = timing.cadence_error
    if abs(error) > CADENCE_LIMIT:
        measured = (1 + error) / fps
        how = f"compressed by {error / (1 + error):.1%}" if error > 0 else f"stretched by {-error / (1 + error):.1%}"
        text = f"frames are {1000 * measured:.1f} ms apart where {fps} fps means {1000 / fps:.1f} ms: time is {how}"
        yield "cadence", text
    for row, seconds in timing.gaps:
        yield (
            "gap",
            f"{1000 * seconds:.0f} ms pass between rows {row - 1} and {row}, where {fps} fps means {1000 / fps:.1f}",
        )
    for camera, ages in timing.ages.items():
        old = np.flatnonzero(np.abs(ages) > 1.5 / fps)
        if len(old):
            worst = int(np.abs(ages).argmax())
            text = (
                f"{camera}: {len(old)} images are over {1500 / fps:.0f} ms away from their frame, the worst "
                f"{1000 * ages[worst]:.0f} ms at row {worst}"
            )
            yield "image_age", text
    for camera, rows in timing.unmarked.items():
        if rows:
            text = (
                f"{camera}: {len(rows)} rows show the image of the row before without being marked, first row {rows[0]}"
            )
            yield "unmarked_repeat", text
    wide = np.flatnonzero(timing.state_gap_s > 2 / fps)
    if len(wide):
        worst = int(timing.state_gap_s.argmax())
        text = (
            f"joints of {len(wide)} rows are interpolated over more than two frames, the widest "
            f"{1000 * timing.state_gap_s[worst]:.0f} ms at row {worst}"
        )
        yield "state_gap", text


def timing_report(episodes: Sequence[EpisodeTiming], fps: float) -> dict[str, Any]:
    """The ``timing`` part of a check's result; values that can't be known are ``"unknown"``."""
    if not episodes:
        return {"fps": fps, "measured": False, "cadence_error": "unknown", "gaps": "unknown", "image_age_ms": "unknown"}
    seconds = np.array([t.seconds for t in episodes])
    cadence = np.array([t.cadence_error for t in episodes])
    cameras = sorted({c for t in episodes for c in t.ages})
    widths = np.concatenate([t.state_gap_s for t in episodes])
    return {
        "fps": fps,
        "measured": True,
        "seconds": float(seconds.sum()),
        "cadence_error": float(np.average(cadence, weights=seconds)) if seconds.sum() > 0 else 0.0,
        "cadence_error_worst": float(cadence[np.abs(cadence).argmax()]),
        "gaps": sum(len(t.gaps) for t in episodes),
        "image_age_ms": {c: _quantiles([t.ages[c] for t in episodes if c in t.ages]) for c in cameras},
        "repeated": {c: sum(t.repeated.get(c, 0) for t in episodes) for c in cameras},
        "state_gap_ms": _quantiles([widths]) if len(widths) else "unknown",
    }


def _quantiles(parts: list[Floats]) -> dict[str, float]:
    ms = 1000 * np.concatenate(parts)
    return {
        "median": float(np.median(ms)),
        "p99": float(np.quantile(np.abs(ms), 0.99)),
        "max": float(np.abs(ms).max()),
    }
