"""What gate 1 found, as JSON and Markdown; the first line is the verdict."""

from typing import Any

import numpy as np

from ..dataset.durable import json_bytes, plain, read_json, write_bytes
from ..probe import intervals
from ..probe.bars import frozen_at
from ..probe.intervals import Interval
from ..probe.record import interval_of, read_run, sums_of
from .gate import BARS, Gate, effective_sizes
from .gate_plan import Arm
from .run import load_run
from .verdict import Outcome, Verdict, decide

__all__ = ["build_report", "markdown", "write_report"]


def write_report(gate: Gate) -> dict[str, Any]:
    """Build the report from what the stages left, write ``report.json`` and ``report.md``, and return it."""
    report = plain(build_report(gate))
    write_bytes(gate.out / "report.json", json_bytes(report))
    write_bytes(gate.out / "report.md", markdown(report).encode())
    return report


def build_report(gate: Gate) -> dict[str, Any]:
    """Every figure: the verdict and its criteria, each arm, across kinds, the bound, and the study beside them."""
    walk, goal = gate.plan.arm("walk"), gate.plan.arm("goal")
    runs = {(a.name, s): read_run(str(gate.run(a, s))) for a, s in gate.jobs()}
    outcomes = [_outcome(gate, runs, s) for s in range(min(walk.seeds, goal.seeds))]
    verdict = decide(outcomes, _doubts(gate, runs))
    report: dict[str, Any] = {
        "verdict": verdict.word,
        "headline": _headline(verdict, outcomes),
        "why": verdict.why,
        "quick": gate.plan.quick,
        "criteria": [c.to_json() for c in verdict.criteria],
        "difference": [_told(o.difference) for o in outcomes],
    }
    for arm in gate.plan.arms:
        figures = _arm(gate, arm, [runs[arm.name, s] for s in range(arm.seeds)])
        if arm.name in ("walk", "goal"):
            report[arm.name] = figures
        else:
            report.setdefault("ablations", {})[arm.name] = figures | {"below_walk": _below(gate, runs, arm)}
    report["cross"] = {
        f"{a.name} on {other}": [_figures(read_run(str(gate.run(a, s) / f"on-{other}"))) for s in range(a.seeds)]
        for a, other in ((walk, "goal"), (goal, "walk"))
    }
    if gate.plan.bound:
        report["bound"] = {a.name: _figures(read_run(str(gate.bound(a)))) for a in (walk, goal)}
    report["study"] = {w: _figures(read_run(f"study:{w}")) for w in ("w1", "w2")}
    return report


def _outcome(gate: Gate, runs: dict[tuple[str, int], dict[str, Any]], seed: int) -> Outcome:
    walk, goal = runs["walk", seed], runs["goal", seed]
    return Outcome(
        seed,
        _interval(walk, "mean_r2"),
        _interval(walk, "anisotropy"),
        _interval(goal, "mean_r2"),
        _interval(goal, "anisotropy"),
        _difference(gate, walk, goal),
    )


def _interval(run: dict[str, Any], metric: str) -> Interval:
    return interval_of(run, metric) or Interval(float("nan"), None, None)


def _difference(gate: Gate, first: dict[str, Any], second: dict[str, Any]) -> Interval:
    a, b = sums_of(first), sums_of(second)
    if a is None or b is None:
        return Interval(float("nan"), None, None)
    moving = [i for i, v in enumerate(first["r2"].values()) if v is not None]
    moving = [i for i in moving if list(second["r2"].values())[i] is not None]
    rng = np.random.default_rng([gate.plan.seed, 9])
    return intervals.difference(a, b, intervals.mean(moving), rng)[0]


def _below(gate: Gate, runs: dict[tuple[str, int], dict[str, Any]], arm: Arm) -> dict[str, Any]:
    """Mean R^2 of the walk's first seed minus that of an ablation's, both on held-out episodes of their own kind."""
    return _told(_difference(gate, runs["walk", 0], runs[arm.name, 0]))


def _doubts(gate: Gate, runs: dict[tuple[str, int], dict[str, Any]]) -> list[str]:
    doubts = []
    for name in BARS:
        frozen = frozen_at(gate.bars(name))
        made = [r["encoder"]["made_s"] for r in runs.values() if r.get("encoder")]
        if frozen is None or any(m <= frozen for m in made):
            doubts.append(f"{gate.bars(name).name} wasn't frozen before the latents were made: exploratory")
    for (arm, seed), run in runs.items():
        fired = [n for n, g in (run.get("guards") or {}).items() if g.get("status") == "warn"]
        if fired and arm in ("walk", "goal"):
            doubts.append(f"guard {', '.join(fired)} fired on {arm} seed {seed}")
    return doubts


def _arm(gate: Gate, arm: Arm, runs: list[dict[str, Any]]) -> dict[str, Any]:
    joints = list(runs[0]["r2"])
    trained = load_run(gate.run(arm, 0))
    seeds = [{"seed": s, **_figures(r), **_training(gate, arm, s)} for s, r in enumerate(runs)]
    return {
        "mean_r2": float(np.mean([r["mean_r2"] for r in runs])),
        "anisotropy": float(np.mean([r["anisotropy"] for r in runs])),
        "r2": {j: float(np.mean([r["r2"][j] for r in runs if r["r2"][j] is not None] or [np.nan])) for j in joints},
        "seeds": seeds,
        "references": {n: _figures(r) for n, r in (runs[0].get("references") or {}).items()},
        "quadratic": _figures(runs[0]["quadratic"]) if runs[0].get("quadratic") else None,
        "dataset": str(gate.dataset(arm)),
        "train": effective_sizes(gate.dataset(arm), trained.train),
        "held_out": effective_sizes(gate.dataset(arm), trained.held_out),
    }


def _training(gate: Gate, arm: Arm, seed: int) -> dict[str, Any]:
    run = load_run(gate.run(arm, seed))
    best: dict[str, Any] = next((h["validation"] for h in run.history if h["step"] == run.best_step), {})
    rank = read_json(gate.run(arm, seed) / "rank.json")
    return {
        "pair_correlation": best.get("pair_correlation"),
        "perfect_pair_correlation": best.get("perfect"),
        "train_seconds": (run.facts or {}).get("seconds"),
        "rank_top1": rank["top1"],
        "rank_baselines": rank["baselines"],
        "rank_chance": rank["chance"][0],
    }


def _figures(run: dict[str, Any]) -> dict[str, Any]:
    return {key: run.get(key) for key in ("mean_r2", "anisotropy", "r2", "intervals") if key in run}


def _told(i: Interval) -> dict[str, Any]:
    return {"value": i.value, "low": i.low, "high": i.high}


def _headline(verdict: Verdict, outcomes: list[Outcome]) -> str:
    def span(figures: list[Interval]) -> str:
        lows = [i.low for i in figures if i.low is not None]
        highs = [i.high for i in figures if i.high is not None]
        mean = float(np.mean([i.value for i in figures])) if figures else float("nan")
        return f"{mean:.3f}" + (f" [{min(lows):.3f}, {max(highs):.3f}]" if lows and highs else "")

    return (
        f"{verdict.word}: mean R^2 of the random walk {span([o.walk_r2 for o in outcomes])}, "
        f"of goal-directed data {span([o.goal_r2 for o in outcomes])}; "
        f"anisotropy {span([o.walk_anisotropy for o in outcomes])} and {span([o.goal_anisotropy for o in outcomes])} "
        f"({len(outcomes)} seeds, 95 % over held-out episodes of all seeds)"
    )


def markdown(report: dict[str, Any]) -> str:
    """The report to read; its first line is the verdict."""
    lines = [report["headline"], "", report["why"] + ".", ""]
    if report["quick"]:
        lines += [
            "A quick run: small data and short training. What it shows is that the gate works, not where it ends.",
            "",
        ]
    lines += ["| criterion | claim | over all seeds | by seed |", "|---|---|---|---|"]
    lines += [f"| {c['id']} | {c['claim']} | {c['state']} | {', '.join(c['seeds'])} |" for c in report["criteria"]]
    joints = list(report["walk"]["r2"])
    lines += ["", "| data, on held-out episodes of its own kind | mean R^2 | anisotropy | " + " | ".join(joints) + " |"]
    lines += ["|---" * (3 + len(joints)) + "|"]
    for name in ("walk", "goal"):
        arm = report[name]
        lines += [_row(f"{name}, seed {s['seed']}", s, joints) for s in arm["seeds"]]
        if "bound" in report:
            lines.append(_row(f"{name}, supervised bound", report["bound"][name], joints))
        lines += [_row(f"{name}, {n}", r, joints) for n, r in arm["references"].items()]
        if arm["quadratic"]:
            lines.append(_row(f"{name}, quadratic probe", arm["quadratic"], joints))
    for name, arm in (report.get("ablations") or {}).items():
        lines += [_row(f"{name}, seed {s['seed']}", s, joints) for s in arm["seeds"]]
    for name, figures in report["cross"].items():
        lines += [_row(f"{name}, seed {i}", f, joints) for i, f in enumerate(figures)]
    for name, figures in report["study"].items():
        lines.append(_row(f"hardware study, {name.upper()}", figures, joints))
    lines += ["", "Ranking action chunks (top-1) and training:", ""]
    lines += ["| data | top-1 | chance | last action | mean displacement | pair correlation | perfect | training s |"]
    lines += ["|---" * 8 + "|"]
    for name in ("walk", "goal", *(report.get("ablations") or {})):
        arm = report.get(name) or report["ablations"][name]
        lines += [_ranking(f"{name}, seed {s['seed']}", s) for s in arm["seeds"]]
    lines += ["", "Equal frames are not equal information: effective sample sizes of a joint's mean (worst joint).", ""]
    lines += ["| data | training frames | worth | held-out frames | worth |", "|---|---|---|---|---|"]
    for name in ("walk", "goal", *(report.get("ablations") or {})):
        arm = report.get(name) or report["ablations"][name]
        cells = [f"{arm[p]['frames']} | {min(arm[p]['effective'].values()):.0f}" for p in ("train", "held_out")]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _row(name: str, figures: dict[str, Any], joints: list[str]) -> str:
    both = figures.get("intervals") or {}
    cells = [_cell(figures.get(k), both.get(k)) for k in ("mean_r2", "anisotropy")]
    return f"| {name} | {' | '.join(cells + [_cell((figures.get('r2') or {}).get(j)) for j in joints])} |"


def _cell(value: float | None, interval: list[float] | None = None) -> str:
    if value is None:
        return "-"
    return f"{value:.3f}" + (f" [{interval[0]:.3f}, {interval[1]:.3f}]" if interval else "")


def _ranking(name: str, s: dict[str, Any]) -> str:
    last, displaced = (s["rank_baselines"][k]["value"] for k in ("last_action", "mean_displacement"))
    top = s["rank_top1"]
    cells = [_cell(top["value"], None if top["low"] is None else [top["low"], top["high"]])]
    cells += [
        _cell(v) for v in (s["rank_chance"], last, displaced, s["pair_correlation"], s["perfect_pair_correlation"])
    ]
    return f"| {name} | {' | '.join(cells)} | {_cell(s['train_seconds'])} |"
