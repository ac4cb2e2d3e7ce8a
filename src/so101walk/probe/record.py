"""A probe on disk: ``probe.json`` with every figure, ``predictions.npz`` with the held-out frames, ``report.html``."""

import datetime
import json
import math
import os
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from .. import __version__
from ..errors import So101WalkError, UsageError, nearest
from .intervals import LEVEL, EpisodeSums, Interval
from .recovery import Recovery
from .run import ProbeResult

__all__ = ["read_run", "recovery_json", "sums_of", "to_json", "write_run"]

STUDY = "study:"


def to_json(result: ProbeResult) -> dict[str, Any]:
    """Every figure of a probe as plain JSON values; what isn't a number is null."""
    dataset, split, samples, latents = result.dataset, result.split, result.samples, result.latents
    extra = result.extra
    made = datetime.datetime.fromtimestamp(latents.made_s, datetime.UTC).isoformat(timespec="seconds")
    references = {name: recovery_json(r) for name, r in result.references.items()}
    sums = result.linear.sums
    return _plain(
        {
            **recovery_json(result.linear),
            "dataset": {
                "path": str(dataset.root),
                "episodes": len(dataset.episodes),
                "frames": len(samples.rows),
                "fps": samples.fps,
                "stride": samples.stride,
            },
            "encoder": {
                "spec": result.spec,
                "width": latents.width,
                "made": made,
                "made_s": latents.made_s,
                "cached": latents.cached,
            },
            "cameras": list(result.cameras),
            "split": {
                "train": list(split.train),
                "val": list(split.val),
                "seed": result.options.seed,
                "val_frames": len(result.val),
            },
            "alpha": dict(zip(samples.joints, result.alpha.tolist(), strict=True)),
            "within_share": extra["within_share"],
            "reverse_r2": extra["reverse_r2"],
            "orthogonality_error": extra["orthogonality_error"],
            "angles": extra["angles"],
            "theorem": {**asdict(result.theorem), "holds": result.theorem.holds} if result.theorem else None,
            "theorem_reason": extra.get("theorem_reason"),
            "quadratic": references.pop("quadratic", None),
            "references": references,
            "guards": {g.name: g.to_json() for g in result.guards},
            "verdicts": [v.to_json() for v in result.verdicts],
            "seconds": result.seconds,
            "sums": {key: np.asarray(value).tolist() for key, value in vars(sums).items()},
            "so101walk": __version__,
        }
    )


def recovery_json(r: Recovery) -> dict[str, Any]:
    """``mean_r2``, ``anisotropy``, ``r2`` a joint, ``r2_within``, and the ``intervals`` of the first three."""
    return {
        "mean_r2": r.mean.value,
        "anisotropy": r.anisotropy.value,
        "r2": {name: i.value for name, i in zip(r.joints, r.r2, strict=True)},
        "r2_within": dict(zip(r.joints, r.within.tolist(), strict=True)),
        "intervals": {
            "level": LEVEL,
            "mean_r2": r.mean.to_json(),
            "anisotropy": r.anisotropy.to_json(),
            "r2": {name: i.to_json() for name, i in zip(r.joints, r.r2, strict=True)},
        },
    }


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def write_run(result: ProbeResult, out: Path) -> Path:
    """Write a probe into the folder ``out``, beside what else a run keeps there, and return the report's path.

    Raises:
        So101WalkError: The folder can't be written.
    """
    from .report import report_html

    samples, val = result.samples, result.val
    try:
        out.mkdir(parents=True, exist_ok=True)
        _replace(out / "probe.json", (json.dumps(to_json(result), indent=1) + "\n").encode())
        partial = out / "predictions.npz.partial"
        with partial.open("wb") as file:
            np.savez_compressed(
                file,
                joints=np.array(samples.joints),
                episode_index=samples.episode[val],
                frame_index=samples.frame[val],
                true=samples.q[val].astype(np.float32),
                predicted=result.predicted.astype(np.float32),
            )
        os.replace(partial, out / "predictions.npz")
        _replace(out / "report.html", report_html(result).encode())
    except OSError as e:
        raise So101WalkError(f"{out} can't be written ({e.strerror}); choose another --out") from e
    return out / "report.html"


def _replace(path: Path, content: bytes) -> None:
    partial = path.with_name(path.name + ".partial")
    partial.write_bytes(content)
    os.replace(partial, path)


def read_run(name_or_path: str) -> dict[str, Any]:
    """The figures of a run: a folder with ``probe.json``, such a file, or ``study:w1`` and ``study:w2``.

    ``mean_r2`` and ``anisotropy`` are computed from ``r2`` where the file doesn't state them; ``rank_top1`` (with
    ``intervals.rank_top1``) is taken from ``rank.json`` in the same folder if there is one. ``name`` is what to call
    it.

    Raises:
        UsageError: There is no such run, or it isn't one.
    """
    if name_or_path.startswith(STUDY):
        known = json.loads((files("so101walk.probe") / "shipped" / "study.json").read_text())
        name = name_or_path.removeprefix(STUDY)
        if name not in known:
            raise UsageError(
                f"no run {name_or_path!r} in the study; {nearest(name_or_path, [STUDY + k for k in known])}"
            )
        return _complete(known[name], name_or_path)
    path = Path(name_or_path)
    path = path / "probe.json" if path.is_dir() else path
    if not path.is_file():
        raise UsageError(
            f"{name_or_path} is not a run: there is no {path}; `so101walk probe DATASET --out {name_or_path}` makes one"
        )
    run = _read(path)
    rank = path.parent / "rank.json"
    if rank.is_file():
        run = _with_rank(run, _read(rank))
    run.setdefault("name", path.parent.name)
    return _complete(run, str(path))


def _read(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text())
    except (OSError, ValueError) as e:
        raise UsageError(f"{path}: can't be read ({e})") from e
    if not isinstance(value, dict):
        raise UsageError(f"{path}: holds no JSON object")
    return value


def _with_rank(run: dict[str, Any], rank: dict[str, Any]) -> dict[str, Any]:
    top1 = rank.get("top1", rank.get("rank_top1"))
    if isinstance(top1, dict):
        top1 = top1.get("value")
    interval = rank.get("interval") or (rank.get("intervals") or {}).get("top1")
    return {**run, "rank_top1": top1, "intervals": {**run.get("intervals", {}), "rank_top1": interval}}


def _complete(run: dict[str, Any], where: str) -> dict[str, Any]:
    r2 = run.get("r2")
    if not isinstance(r2, dict) or not r2 or not all(v is None or isinstance(v, int | float) for v in r2.values()):
        raise UsageError(f"{where}: has no table r2 of joints")
    moving = [v for v in r2.values() if v is not None]
    computed = {"mean_r2": float(np.mean(moving)), "anisotropy": max(moving) - min(moving)} if moving else {}
    return {**computed, **run, "name": run.get("name", where)}


def sums_of(run: dict[str, Any]) -> EpisodeSums | None:
    """The sums by held-out episode that a run keeps for its intervals, None where it has none."""
    sums = run.get("sums")
    if not isinstance(sums, dict):
        return None
    arrays = {key: np.asarray(sums[key], dtype=float) for key in ("n", "y", "yy", "error")}
    return EpisodeSums(np.asarray(sums["episode"], dtype=np.int64), **arrays)


def interval_of(run: dict[str, Any], metric: str) -> Interval | None:
    """A figure of a run with its interval, None where the run hasn't it; ``r2.JOINT`` for one joint."""
    table, _, joint = metric.partition(".")
    value, both = run.get(table), (run.get("intervals") or {}).get(table)
    if joint:
        value, both = (value or {}).get(joint), (both or {}).get(joint)
    if value is None:
        return None
    return Interval(float(value), *(both or (None, None)))
