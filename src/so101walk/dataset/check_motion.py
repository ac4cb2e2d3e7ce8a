"""Do the joints move as an arm's do? Frozen, saturated, jumping or out of the limits, by episode and joint."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .claims import Claims
from .findings import Finding, rows_text
from .reader import Dataset

__all__ = ["check_constant_joints", "check_motion", "check_saturation", "runs"]

Rows = Mapping[str, NDArray[Any]]
Floats = NDArray[np.float64]

STATE, ACTION, REQUEST = "observation.state", "action", "walk.request"

FROZEN_S = 0.5
"""A joint that stands still to the last bit for so long ..."""

FROZEN_COMMAND = 0.04
"""... while its command moves by this share of the range that it covers in the dataset is frozen. The encoder's tick is
0.088 deg and backlash 1 deg (field.md), so a joint that follows at all changes its reading."""

LAG_S = 0.2
"""A joint may begin to move so long after its command did: twice the 100 ms told (field.md)."""

SAG = 5.0
"""A measured joint may be so far outside the envelope [deg or %]: sag up to 2.6, backlash 1 (field.md)."""

TICK = 0.1
"""Commands are whole ticks of 0.088 deg."""

PILE_SHARE, PILE_VISITS = 0.02, 4
"""Clipping shows as the same extreme value in over 2 % of the frames, on at least 4 occasions: holding one waypoint, or
refusing to leave it, is one occasion."""


def runs(mask: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """First and last index of each run of True."""
    edge = np.diff(np.concatenate([[0], mask.astype(np.int8), [0]]))
    return [(int(a), int(b) - 1) for a, b in zip(np.flatnonzero(edge == 1), np.flatnonzero(edge == -1), strict=True)]


def check_motion(dataset: Dataset, episode: int, rows: Rows, claims: Claims, command_range: Floats) -> list[Finding]:
    """Frozen joints, jumps and values out of the limits in one episode.

    Args:
        dataset: For rates and names.
        episode: Index, for the findings.
        rows: Columns of the episode; without ``observation.state`` nothing is said.
        claims: The limits, where they are known.
        command_range: What each joint's ``action`` covers in the whole dataset, shape (d,).
    """
    if STATE not in rows:
        return []
    q, names = rows[STATE].astype(np.float64), dataset.names(STATE)
    found = list(_jumps(q, names, dataset.fps, claims, episode))
    found += _outside(rows, names, claims, episode)
    if ACTION in rows and rows[ACTION].shape == q.shape:
        found += _frozen(q, rows[ACTION].astype(np.float64), names, dataset.fps, command_range, episode)
        if REQUEST in rows:
            found += _limited(rows[ACTION] - rows[REQUEST], names, episode)
    return found


def _jumps(q: Floats, names: tuple[str, ...], fps: int, claims: Claims, episode: int) -> Iterator[Finding]:
    if claims.max_speed is None or len(q) < 2:
        return
    limit = claims.max_speed if claims.velocity is None else np.minimum(claims.max_speed, 2 * claims.velocity)
    speed = np.abs(np.diff(q, axis=0)) * fps
    for j in np.flatnonzero((speed > limit).any(0)):
        at = int(speed[:, j].argmax()) + 1
        count = int((speed[:, j] > limit[j]).sum())
        text = (
            f"{_short(names[j])} jumps from {q[at - 1, j]:.1f} to {q[at, j]:.1f} at row {at}: {speed[at - 1, j]:.0f} "
            f"a second, where {limit[j]:.0f} is the most that is plausible ({count} such steps)"
        )
        yield Finding("motion.jump", "error", text, episode)


def _outside(rows: Rows, names: tuple[str, ...], claims: Claims, episode: int) -> Iterator[Finding]:
    if claims.lower is None or claims.upper is None:
        return
    for column, slack in ((ACTION, TICK), (STATE, SAG)):
        if column not in rows or rows[column].shape[1:] != claims.lower.shape:
            continue
        q = rows[column].astype(np.float64)
        past = np.maximum(claims.lower - q, q - claims.upper)
        for j in np.flatnonzero((past > slack).any(0)):
            at = int(past[:, j].argmax())
            text = (
                f"{column} of {_short(names[j])} is {q[at, j]:.1f} at row {at}; the envelope allows "
                f"{claims.lower[j]:.1f} to {claims.upper[j]:.1f} ({int((past[:, j] > slack).sum())} rows outside)"
            )
            yield Finding("motion.outside_limits", "error", text, episode)


def _frozen(
    q: Floats, action: Floats, names: tuple[str, ...], fps: int, command_range: Floats, episode: int
) -> Iterator[Finding]:
    long, lag = max(2, round(FROZEN_S * fps)), round(LAG_S * fps)
    for j, name in enumerate(names):
        worst: tuple[int, int, float] | None = None
        for first, last in runs(np.diff(q[:, j]) == 0):
            count = last + 2 - first
            if count <= long:
                continue
            asked = float(np.ptp(action[first : first + count - lag, j]))
            if asked > max(FROZEN_COMMAND * command_range[j], 20 * TICK):
                worst = max(worst or (0, -1, 0.0), (first, last + 1, asked), key=lambda r: r[1] - r[0])
        if worst is not None:
            first, last, asked = worst
            text = (
                f"{_short(name)} reads {q[first, j]:.1f} without any change in {rows_text(first, last)} while its "
                f"command moves by {asked:.1f}: the sensor or the servo stands still"
            )
            yield Finding("motion.frozen", "error", text, episode)


def _limited(difference: NDArray[Any], names: tuple[str, ...], episode: int) -> Iterator[Finding]:
    off = np.abs(difference)
    for j in np.flatnonzero((off > 2 * TICK).any(0)):
        count = int((off[:, j] > 2 * TICK).sum())
        text = (
            f"{_short(names[j])}: what went on the wire differs from what was asked in {count} rows, by up to "
            f"{off[:, j].max():.1f}: a limit cut the walk short"
        )
        yield Finding("motion.limited", "warning", text, episode)


def check_constant_joints(dataset: Dataset, q: Floats, claims: Claims) -> list[Finding]:
    """Joints that never move in the whole dataset, except those that the policy switched off.

    Args:
        dataset: For names.
        q: Measured joints of all episodes, (n, d).
        claims: Which joints should walk, where that is known.
    """
    found: list[Finding] = []
    for j in np.flatnonzero(np.ptp(q, axis=0) == 0):
        if claims.active is not None and j < len(claims.active) and not claims.active[j]:
            continue
        text = f"{_short(dataset.names(STATE)[j])} reads {q[0, j]:.1f} in every row of the dataset"
        found.append(Finding("motion.constant", "error" if claims.is_walk else "warning", text))
    return found


def check_saturation(dataset: Dataset, q: Floats, claims: Claims) -> list[Finding]:
    """Joints whose command piles up at one extreme: clipped at a limit, which breaks a walk's Gaussianity.

    In a dataset that doesn't claim to be a walk it is only noted: a gripper that closes fully does it too.

    Args:
        dataset: For names.
        q: Commands (``action``) of all episodes, (n, d).
        claims: Whether it should be a walk.
    """
    found: list[Finding] = []
    for j, name in enumerate(dataset.names(ACTION)):
        width = np.ptp(q[:, j])
        if width == 0:
            continue
        for side, extreme in (("lowest", q[:, j].min()), ("highest", q[:, j].max())):
            at = np.abs(q[:, j] - extreme) <= max(1e-3 * width, 1e-6)
            if at.mean() > PILE_SHARE and len(runs(at)) >= PILE_VISITS:
                text = (
                    f"{_short(name)} is commanded to its {side} value {extreme:.1f} in {at.mean():.0%} of the rows, on "
                    f"{len(runs(at))} occasions: clipped at a limit"
                )
                found.append(Finding("motion.saturated", "warning" if claims.is_walk else "note", text))
    return found


def _short(name: str) -> str:
    return name.removesuffix(".pos")
