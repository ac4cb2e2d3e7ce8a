"""One calibration of an envelope from request to file, picture and printed report."""

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..config import require
from ..envelope import Envelope, load_envelope
from ..joints import JOINTS, UNITS
from ..policies.fields import check_rho
from ..rig import Rig, load_rig
from ..scene.clearance import ClearanceConfig
from .envelope import calibrate_envelope, check_effort, hand_made
from .envelope_file import envelope_toml, may_write, write_envelope
from .judge import Judgement, WalkJudgement, judge, judge_walk
from .limits import GRIPPER_MARGIN_PERCENT, LIMIT_MARGIN_DEG, joint_limits

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["Request", "run"]


@dataclass(frozen=True)
class Request:
    """What ``so101walk calibrate envelope`` was asked for; see its ``--help``."""

    rig: str = "sim"
    out: Path | None = None
    name: str | None = None
    like: str | None = None
    accept: float = 0.99
    rho: float = 0.9
    samples: int = 40_000
    steps: int = 2_400
    seed: int = 0
    force: bool = False
    as_json: bool = False


@dataclass(frozen=True)
class _Result:
    envelope: Envelope
    judgement: Judgement
    walk: WalkJudgement
    hand: Envelope
    hand_judgement: Judgement


def run(request: Request) -> None:
    """Calibrate, write the envelope file and its picture, print the report.

    Raises:
        UsageError: A wrong option, or a file that exists or can't be written; nothing was started.
        EnvelopeError: No envelope fulfils the request.
    """
    from rich.console import Console

    from .picture import draw_envelope

    rig = load_rig(request.rig)
    check_rho(request.rho)
    check_effort(request.accept, request.samples)
    require(request.steps >= 1, f"steps is {request.steps}; it must be at least 1")
    require(request.seed >= 0, f"seed is {request.seed}; it must be 0 or more")
    name = request.name or (request.out.stem if request.out else f"my-{rig.name}")
    out = request.out or Path("calibration") / f"{name}.toml"
    picture = out.with_suffix(".png")
    for path in (out, picture):
        may_write(path, request.force)
    clearance = load_envelope(request.like).clearance if request.like else None
    console = Console(stderr=True)
    limits, whence = _limits_of(rig)
    if not rig.simulated:
        console.print(whence, highlight=False, soft_wrap=True)
    result = _measure(request, rig, name, limits, clearance or ClearanceConfig(), console)
    write_envelope(out, envelope_toml(result.envelope, _notes(request, result, whence)))
    draw_envelope(result.envelope, result.judgement, picture, np.random.default_rng(request.seed))
    if request.as_json:
        print(json.dumps(_as_dict(result, out, picture)))
    else:
        _print(Console(), result)
        console.print(
            f'wrote {out} and {picture}; a rig uses it by envelope = "{name}"', highlight=False, soft_wrap=True
        )


def _limits_of(rig: Rig) -> tuple[NDArray[np.float64], str]:
    """The limits that hold for a rig's arm, shape (6, 2), and where they come from."""
    margin = f"less {LIMIT_MARGIN_DEG:g} degrees (gripper: {GRIPPER_MARGIN_PERCENT:g} %) at either end"
    if rig.simulated:
        return joint_limits(), f"Limits are the model's ranges {margin}."
    from ..arms.servos import calibrated_scale, calibration_file

    file = calibration_file(rig.arm)
    measured = joint_limits(measured=calibrated_scale(file))
    narrower = [j for j, own, usual in zip(JOINTS, measured, joint_limits(), strict=True) if (own != usual).any()]
    return measured, (
        f"Limits are the ranges of both the model and {file.name} {margin}; "
        f"the arm's are narrower in {', '.join(narrower) or 'no joint'}."
    )


def _measure(
    request: Request,
    rig: Rig,
    name: str,
    limits: NDArray[np.float64],
    clearance: ClearanceConfig,
    console: "Console",
) -> _Result:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    seeds = np.random.SeedSequence((request.seed, 1 << 20)).spawn(2)
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("poses judged", total=2 * request.samples)
        envelope, judgement = calibrate_envelope(
            name, limits, clearance, request.accept, request.samples, request.seed, lambda n: progress.advance(task, n)
        )
        envelope = dataclasses.replace(envelope, source=name)
        hand = hand_made(limits, clearance)
        task = progress.add_task("hand-made choice, for comparison", total=request.samples)
        hand_judgement = judge(
            hand, request.samples, np.random.default_rng(seeds[0]), lambda n: progress.advance(task, n)
        )
        task = progress.add_task("steps walked", total=request.steps)
        walk = judge_walk(
            envelope, request.rho, request.steps, rig.limits, rig.fps, np.random.default_rng(seeds[1]),
            lambda n: progress.advance(task, n),
        )  # fmt: skip
    return _Result(envelope, judgement, walk, hand, hand_judgement)


def _notes(request: Request, result: _Result, limits: str) -> list[str]:
    defaults = Request()
    options = [
        f"--{key} {getattr(request, key)}"
        for key in ("rig", "like", "accept", "rho", "samples", "steps", "seed")
        if getattr(request, key) != getattr(defaults, key)
    ]
    j, w = result.judgement, result.walk
    return [
        "Safe envelope of an SO-101 on a table. LeRobot units; joints = center + scale * z with z ~ N(0, I).",
        " ".join(["Found by: so101walk calibrate envelope", *options, f"--name {result.envelope.name}"]),
        f"The largest walk with P(safe) >= {request.accept:g}: sum of log scales {_log_volume(result.envelope):.3f}.",
        f"Fresh sample of {j.samples}: {j.accept:.4f} safe; leaving at most {j.leave_upper:.4f} at 95 % confidence.",
        f"A walk of rho {w.rho:g} had {w.rejected:.2%} of its steps refused, whole segments checked.",
        limits,
        "",
    ]


def _log_volume(envelope: Envelope) -> float:
    return float(np.log(envelope.scale).sum())


def _as_dict(result: _Result, out: Path, picture: Path) -> dict[str, Any]:
    return {
        "file": str(out),
        "picture": str(picture),
        "envelope": result.envelope.to_dict(),
        "digest": result.envelope.digest,
        "log_volume": _log_volume(result.envelope),
        **dataclasses.asdict(result.judgement),
        "walk": dataclasses.asdict(result.walk),
        "hand_made": {
            "accept": result.hand_judgement.accept,
            "log_volume": _log_volume(result.hand),
            "causes": result.hand_judgement.causes,
        },
    }


def _print(console: "Console", result: _Result) -> None:
    from rich.table import Table

    e, j, w = result.envelope, result.judgement, result.walk
    table = Table(title=f"envelope {e.name}")
    for column in ("joint", "center", "scale", "limits", "outside", "covered"):
        table.add_column(column, justify="left" if column == "joint" else "right", no_wrap=True)
    for i, joint in enumerate(JOINTS):
        values = [f"{e.center[i]:.2f} {UNITS[i]}", f"{e.scale[i]:.2f}", f"{e.lower[i]:.1f} to {e.upper[i]:.1f}"]
        table.add_row(joint, *values, f"{j.leave_by_limit[joint]:.3%}", f"{j.coverage[joint]:.0%}")
    console.print(table)
    lines = [
        f"safe: {j.accept:.2%} of {j.samples:,} fresh poses; leaving at most {j.leave_upper:.2%} at 95 % confidence",
        "refused: " + ("; ".join(f"{c} {s:.2%}" for c, s in list(j.causes.items())[:6]) or "none"),
        "outside: chance of a joint past its limits; covered: share of its range within two scales of the center",
        f"walk of rho {w.rho:g}: {w.rejected:.2%} of {w.steps:,} steps refused ({w.rejected_between:.2%} with safe "
        f"ends), {w.step_s:.2f} s a step, {w.stretched:.0%} stretched",
        f"size: sum of log scales {_log_volume(e):.2f}; the hand-made choice has {_log_volume(result.hand):.2f} "
        f"with {result.hand_judgement.accept:.2%} safe",
    ]
    for line in lines:
        console.print(line, highlight=False, soft_wrap=True)
