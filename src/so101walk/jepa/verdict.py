"""Gate 1's verdict: what several seeds, with their intervals, say about marks that were fixed beforehand. Pure logic.

A criterion is *met* by a seed when the figure's whole 95 % interval is on the passing side of its mark, *missed* when
the whole interval is on the other side, and *open* in between. Over seeds it is met or missed only if every seed says
so.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ..probe.intervals import Interval

__all__ = ["ANISOTROPY_MARK", "R2_MARK", "Criterion", "Outcome", "Verdict", "decide"]

R2_MARK = 0.80
"""R1 and B1: mean R^2 that recovery is held to (the study's bar, science.md)."""

ANISOTROPY_MARK = 0.20
"""R2 and B2: best minus worst joint (the study's bar, science.md)."""

State = Literal["met", "missed", "open"]
Word = Literal["supported", "refuted", "inconclusive"]


@dataclass(frozen=True)
class Outcome:
    """What one seed's two models scored on held-out episodes of their own kind.

    Attributes:
        seed: Of the training.
        walk_r2: Mean R^2 of the walk's model.
        walk_anisotropy: Its best minus worst joint.
        goal_r2: Mean R^2 of the goal-directed model.
        goal_anisotropy: Its best minus worst joint.
        difference: ``walk_r2 - goal_r2`` with an interval of its own.
    """

    seed: int
    walk_r2: Interval
    walk_anisotropy: Interval
    goal_r2: Interval
    goal_anisotropy: Interval
    difference: Interval


@dataclass(frozen=True)
class Criterion:
    """One claim and how it fared.

    Attributes:
        id: As in the bars files: R1 to R3 of the walk, B1 and B2 of the goal-directed data.
        claim: In words.
        seeds: State by seed, in their order.
        state: Over all seeds.
    """

    id: str
    claim: str
    seeds: tuple[State, ...]
    state: State

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {**vars(self), "seeds": list(self.seeds)}


@dataclass(frozen=True)
class Verdict:
    """What gate 1 concludes.

    Attributes:
        word: ``supported``: the walk is recovered whole and the goal-directed data is not. ``refuted``: the walk is not
            recovered, or no better. ``inconclusive``: anything else.
        why: In a few words.
        criteria: What it rests on.
    """

    word: Word
    why: str
    criteria: tuple[Criterion, ...]


def decide(outcomes: Sequence[Outcome], doubts: Sequence[str] = ()) -> Verdict:
    """The verdict over all seeds.

    Args:
        outcomes: One for each seed.
        doubts: What forbids a verdict whatever the figures: bars that weren't frozen in time, a guard that fired.
    """
    criteria = (
        _criterion("R1", f"walk: mean R^2 >= {R2_MARK:g}", [_side(o.walk_r2, R2_MARK, above=True) for o in outcomes]),
        _criterion(
            "R2",
            f"walk: anisotropy < {ANISOTROPY_MARK:g}",
            [_side(o.walk_anisotropy, ANISOTROPY_MARK, above=False) for o in outcomes],
        ),
        _criterion(
            "R3", "walk above goal-directed in mean R^2", [_side(o.difference, 0.0, above=True) for o in outcomes]
        ),
        _criterion(
            "B1", f"goal-directed: mean R^2 < {R2_MARK:g}", [_side(o.goal_r2, R2_MARK, above=False) for o in outcomes]
        ),
        _criterion(
            "B2",
            f"goal-directed: anisotropy >= {ANISOTROPY_MARK:g}",
            [_side(o.goal_anisotropy, ANISOTROPY_MARK, above=True) for o in outcomes],
        ),
    )
    if doubts:
        return Verdict("inconclusive", "; ".join(doubts), criteria)
    if not outcomes:
        return Verdict("inconclusive", "nothing was measured", criteria)
    missed = [c for c in criteria[:3] if c.state == "missed"]
    if missed:
        return Verdict("refuted", "; ".join(f"{c.id} missed ({c.claim})" for c in missed), criteria)
    unmet = [c for c in criteria if c.state != "met"]
    if unmet:
        return Verdict("inconclusive", "; ".join(f"{c.id} {c.state} ({c.claim})" for c in unmet), criteria)
    seeds = f"{len(outcomes)} seed{'s' if len(outcomes) > 1 else ''}"
    return Verdict("supported", f"every criterion is met by {seeds}", criteria)


def _criterion(name: str, claim: str, seeds: list[State]) -> Criterion:
    kinds = set(seeds)
    state: State = seeds[0] if len(kinds) == 1 else "open"
    return Criterion(name, claim, tuple(seeds), state)


def _side(figure: Interval, mark: float, above: bool) -> State:
    if figure.low is None or figure.high is None or not figure.low <= figure.high:
        return "open"
    if figure.low >= mark:
        return "met" if above else "missed"
    if figure.high < mark:
        return "missed" if above else "met"
    return "open"
