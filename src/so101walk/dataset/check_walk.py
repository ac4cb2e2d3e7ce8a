"""Is a dataset an isotropic random walk? The evidence at its waypoints, or, without any, in its frames.

The verdict is one of :data:`VERDICTS`. In a dataset of a ``ou`` or ``gennorm`` policy a walk that isn't isotropic is an
error; in any other (a goal-directed one, someone else's recording) it is a warning, since nobody said it was one.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .claims import Claims
from .findings import Finding
from .reader import Dataset
from .walk_evidence import Evidence, from_frames, from_waypoints
from .walk_judge import Property

__all__ = ["GAUSSIAN", "VERDICTS", "check_walk"]

Rows = Mapping[str, NDArray[Any]]

VERDICTS = ("isotropic walk", "isotropic but not Gaussian", "not an isotropic walk", "unknown")

GAUSSIAN = ("skew", "kurtosis", "sigreg")
"""Properties that a walk of other marginals lacks, without ceasing to be isotropic."""

REJECTED_SHARE, REJECTED_COUNT = 0.05, 6
"""More refused steps than this shift the walk's law; the envelopes aim at 1 % (science.md)."""


@dataclass(frozen=True)
class _Fault:
    """A property that failed, and the joints it failed in."""

    words: str
    joints: tuple[str, ...]
    name: str


def check_walk(
    dataset: Dataset, rows: Mapping[int, Rows], claims: Claims, seed: int = 0
) -> tuple[dict[str, Any], list[Finding]]:
    """Judge the walk.

    Args:
        dataset: Whose.
        rows: Columns of each sound episode.
        claims: What it says it is.
        seed: Of the Monte-Carlo walks and of the bootstrap; the same data and seed give the same result.

    Returns:
        The ``walk`` part of a check's result (plain values; None where a number can't be computed), and findings.
    """
    rng = np.random.default_rng(seed)
    has_walk = "walk.z" in dataset.features and "walk.waypoint" in dataset.features
    evidence = from_waypoints(rows, claims, rng) if has_walk else from_frames(dataset, rows, rng)
    if isinstance(evidence, str):
        return {"verdict": "unknown", "why": evidence}, [Finding("walk.unknown", "note", f"walk: {evidence}")]
    faults = _faults(evidence, claims)
    verdict = _verdict(faults)
    joints = list(dict.fromkeys(j for name in evidence.names for f in faults for j in f.joints if j == name))
    findings = _findings(evidence, claims, verdict, faults, joints)
    report = {
        "verdict": verdict,
        "joints_at_fault": joints,
        "reasons": [_reason(f) for f in faults],
        "source": evidence.source,
        "policy": claims.kind or "unknown",
        "declared_rho": claims.rho,
        **_numbers(evidence),
    }
    return report, findings


def _faults(evidence: Evidence, claims: Claims) -> list[_Fault]:
    faults = [_Fault("never moves", (name,), "still") for name in evidence.still]
    for p in evidence.properties.values():
        if p.failed and p.name != "rho":
            faults.append(_Fault(p.words, tuple(evidence.moving[j] for j in p.joints), p.name))
    return faults


def _verdict(faults: Sequence[_Fault]) -> str:
    if any(f.name not in GAUSSIAN for f in faults):
        return "not an isotropic walk"
    return "isotropic but not Gaussian" if faults else "isotropic walk"


def _reason(fault: _Fault) -> str:
    return f"{fault.words}: {', '.join(fault.joints)}" if fault.joints else fault.words


def _findings(
    evidence: Evidence, claims: Claims, verdict: str, faults: list[_Fault], joints: list[str]
) -> list[Finding]:
    found: list[Finding] = []
    reasons = "; ".join(_reason(f) for f in faults)
    named = f" (joints: {', '.join(joints)})" if joints else ""
    if verdict == "not an isotropic walk":
        severity = "error" if claims.is_walk else "warning"
        found.append(Finding("walk.not_isotropic", severity, f"not an isotropic walk{named}: {reasons}"))  # type: ignore[arg-type]
    elif verdict == "isotropic but not Gaussian":
        planned = claims.alpha is not None and claims.alpha != 2.0
        severity = "note" if planned else "error" if claims.kind == "ou" else "warning"
        found.append(Finding("walk.not_gaussian", severity, f"isotropic but not Gaussian{named}: {reasons}"))  # type: ignore[arg-type]
    rho = evidence.properties.get("rho")
    if rho is not None and rho.failed:
        text = f"rho at the step is {evidence.pooled_rho:.3f} over all joints; the policy says {claims.rho:g}"
        found.append(Finding("walk.rho", "error", text))
    count, steps = evidence.rejected, evidence.steps
    if claims.is_walk and count is not None and count >= REJECTED_COUNT and count > REJECTED_SHARE * steps:
        text = f"the envelope refused {count} of {steps} steps ({count / steps:.1%}); lower its scales to come near 1 %"
        found.append(Finding("walk.rejected", "warning", text))
    return found


def _numbers(evidence: Evidence) -> dict[str, Any]:
    table: dict[str, Any] = {}
    moving = {name: k for k, name in enumerate(evidence.moving)}
    for name in evidence.names:
        if name not in moving:
            table[name] = {"moves": False}
            continue
        j = moving[name]
        table[name] = {
            "moves": True,
            "rho": _plain(evidence.rho[j]),
            "rho_ci": [_plain(v) for v in evidence.rho_ci[j]],
            "mean": _plain(evidence.mean[j]),
            "std": _plain(evidence.std[j]),
            "skew": _plain(evidence.skew[j]),
            "kurtosis": _plain(evidence.kurtosis[j]),
        }
    strongest = evidence.strongest
    return {
        "episodes": evidence.episodes,
        "waypoints": evidence.points if evidence.at_waypoints else None,
        "lag_frames": evidence.lag_frames,
        "steps": evidence.steps,
        "rejected": evidence.rejected,
        "rejected_share": evidence.rejected / evidence.steps
        if evidence.rejected is not None and evidence.steps
        else None,
        "effective_samples": _plain(evidence.effective),
        "rho": _plain(evidence.pooled_rho),
        "rho_spread": _plain(float(np.max(evidence.rho) - np.min(evidence.rho))),
        "rho_spread_ci": [_plain(v) for v in evidence.spread_ci],
        "rho_resolution": _resolution(evidence),
        "largest_correlation": None
        if strongest is None
        else {"joints": list(strongest[0]), "lag": strongest[1], "value": _plain(strongest[2])},
        "sigreg": None if evidence.sigreg is None else {k: _plain(v) for k, v in vars(evidence.sigreg).items()},
        "tests": {name: _test(p, evidence) for name, p in evidence.properties.items()},
        "autocorrelation": evidence.curves,
        "joints": table,
    }


def _resolution(evidence: Evidence) -> list[float | None]:
    """Between which two values a single joint's rho can lie without so few samples telling it from the others'."""
    center, width = math.atanh(min(evidence.pooled_rho, 0.9999)), evidence.properties["isotropy"].resolution
    return [_plain(math.tanh(center - width)), _plain(math.tanh(center + width))]


def _test(p: Property, evidence: Evidence) -> dict[str, Any]:
    return {"p": p.p, "failed": p.failed, "joints": [evidence.moving[j] for j in p.joints]}


def _plain(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
