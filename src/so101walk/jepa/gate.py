"""Gate 1 in stages: collect both kinds of data, freeze the bars, train, probe, rank, judge.

Each stage goes on where it was.

Everything lies in one folder: ``gate.json`` (the plan), ``bars-*.toml`` and their ledgers, ``datasets/``, ``runs/``
(one for each arm and seed, with its probe and ranking), ``report.md`` and ``report.json``.
"""

import multiprocessing
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ProcessPoolExecutor, wait
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..dataset.durable import json_bytes, make_dirs, plain, read_json, write_bytes
from ..dataset.reader import Dataset
from ..errors import UsageError
from .effective import effective_size
from .gate_plan import Arm, GatePlan, gate_rig
from .train import Report, TrainSpec, train

if TYPE_CHECKING:
    from ..probe.run import ProbeOptions

__all__ = ["Gate", "run_gate"]

Say = Callable[[str], None]
BARS = ("walk", "study")
LOOKS_TOLD = 5


@dataclass(frozen=True)
class Gate:
    """A gate's folder and plan."""

    out: Path
    plan: GatePlan

    def dataset(self, arm: Arm) -> Path:
        """Where an arm's dataset lies."""
        if arm.of:
            return self.dataset(self.plan.arm(arm.of))
        return arm.dataset or self.out / "datasets" / arm.name

    def run(self, arm: Arm, seed: int) -> Path:
        """Where a training of an arm lies."""
        return self.out / "runs" / f"{arm.name}-{seed}"

    def bound(self, arm: Arm) -> Path:
        """Where an arm's supervised bound lies."""
        return self.out / "runs" / f"{arm.name}-bound"

    def bars(self, name: str) -> Path:
        """Where a frozen copy of shipped bars lies."""
        return self.out / f"bars-{name}.toml"

    def jobs(self) -> list[tuple[Arm, int]]:
        """Every training, interleaved so that the first seeds come first."""
        most = max(a.seeds for a in self.plan.arms)
        return [(a, s) for s in range(most) for a in self.plan.arms if s < a.seeds]


def run_gate(
    gate: Gate, workers: int, say: Say, should_stop: Callable[[], bool] = lambda: False
) -> dict[str, Any] | None:
    """Do what is not done yet, and return the report; None if it was told to stop.

    Raises:
        UsageError: The folder holds a gate of another plan.
        So101WalkError: As collecting, training, probing and ranking do.
    """
    from .gate_report import write_report

    _begin(gate)
    stages: Sequence[tuple[str, Callable[[Gate, int, Say, Callable[[], bool]], None]]] = (
        ("collect", _collect),
        ("bars", _freeze),
        ("train", _train),
        ("probe", _measure),
    )
    for name, stage in stages:
        if should_stop():
            return None
        say(f"stage {name}")
        stage(gate, workers, say, should_stop)
    if should_stop():
        return None
    return write_report(gate)


def _begin(gate: Gate) -> None:
    for name in ("datasets", "runs"):
        make_dirs(gate.out / name)
    path = gate.out / "gate.json"
    asked = plain(gate.plan.to_dict())
    if not path.is_file():
        write_bytes(path, json_bytes(asked))
        return
    there = read_json(path)
    if there != asked:
        key = next(k for k in asked if asked[k] != there.get(k))
        raise UsageError(
            f"{gate.out} holds a gate of another plan ({key} differs); give the same options, or another --out"
        )


def _collect(gate: Gate, workers: int, say: Say, should_stop: Callable[[], bool]) -> None:
    from ..envelope import load_envelope
    from ..session import SessionSpec, collect, found_at

    rig = gate_rig()
    for number, arm in enumerate(gate.plan.arms):
        if arm.of or arm.dataset is not None:
            Dataset.open(gate.dataset(arm))
            continue
        out = gate.dataset(arm)
        if (out / "meta/info.json").is_file() and len(Dataset.open(out).episodes) == arm.episodes:
            continue
        envelope = load_envelope(rig.envelope)
        spec = SessionSpec(
            out=out,
            rig=rig,
            policy_source=arm.policy,
            policy_overrides=arm.overrides,
            envelope=replace(envelope, scale=envelope.scale * arm.scale),
            episodes=arm.episodes,
            episode_s=arm.frames / arm.episodes / rig.fps,
            seed=gate.plan.seed * 1000 + number,
        )
        found_at(out, resume=out.exists() or out.with_name(out.name + ".staging").exists())
        report = collect(spec, _Told(arm, say), should_stop, workers=workers)
        if report.interrupted:
            return
        say(
            f"{arm.name}: {report.frames} frames at {report.rate_hz:.0f} a second, "
            f"{report.acceptance or 0:.1%} accepted"
        )


class _Told:
    """A session's report as a line for every tenth episode."""

    def __init__(self, arm: Arm, say: Say) -> None:
        self._arm, self._say, self._saved = arm, say, 0

    def started(self, walk_index: int, frames: int) -> None: ...

    def advanced(self, walk_index: int, frames: int) -> None: ...

    def saved(self, walk_index: int, record: dict[str, Any]) -> None:
        self._saved += 1
        if self._saved % max(1, self._arm.episodes // 10) == 0:
            self._say(f"{self._arm.name}: {self._saved} episodes saved")

    def failed(self, walk_index: int, reason: str) -> None:
        self._say(f"{self._arm.name}: episode {walk_index} is done again: {reason}")


def _freeze(gate: Gate, workers: int, say: Say, should_stop: Callable[[], bool]) -> None:
    from ..probe.bars import find_bars, freeze

    for name in BARS:
        path = gate.bars(name)
        if not path.is_file():
            shutil.copyfile(find_bars(name), path)
        freeze(path)


def _train(gate: Gate, workers: int, say: Say, should_stop: Callable[[], bool]) -> None:
    jobs: list[tuple[Callable[..., None], tuple[Any, ...]]] = []
    for arm, seed in gate.jobs():
        jobs.append((_train_one, (_spec(gate, arm, seed), f"{arm.name} seed {seed}")))
    if gate.plan.bound:
        for name in ("walk", "goal"):
            arm = gate.plan.arm(name)
            jobs.append((_bound_one, (replace(_spec(gate, arm, 0), out=gate.bound(arm)),)))
    _in_processes(_decodings(gate), workers, should_stop)
    _in_processes(jobs, workers, should_stop)


def _spec(gate: Gate, arm: Arm, seed: int) -> TrainSpec:
    recipe = gate.plan.recipe
    if arm.cameras:
        recipe = replace(recipe, frames=replace(recipe.frames, cameras=arm.cameras))
    return TrainSpec(
        dataset=gate.dataset(arm),
        out=gate.run(arm, seed),
        recipe=recipe,
        held_out=gate.plan.val,
        held_out_seed=gate.plan.seed,
        seed=gate.plan.seed * 1000 + seed,
        threads=1,
    )


def _decodings(gate: Gate) -> list[tuple[Callable[..., None], tuple[Any, ...]]]:
    """What fills the frame cache before several trainings of one dataset want it at once."""
    size_px = gate.plan.recipe.frames.size_px
    wanted = {(gate.dataset(a), a.cameras): None for a, s in gate.jobs() if not _trained(gate.run(a, s))}
    return [(_decode_one, (dataset, cameras, size_px)) for dataset, cameras in wanted]


def _decode_one(dataset: Path, cameras: tuple[str, ...], size_px: int) -> None:
    from .frames import open_frames

    open_frames(Dataset.open(dataset), cameras, size_px)


def _trained(run: Path) -> bool:
    return (run / "run.json").is_file() and bool(read_json(run / "run.json").get("done"))


def _train_one(spec: TrainSpec, label: str) -> None:
    if _trained(spec.out):
        return
    steps = spec.recipe.optimiser.steps

    def told(look: Any) -> None:
        every = max(1, steps // spec.recipe.stop.every // LOOKS_TOLD)
        if look.step // spec.recipe.stop.every % every == 0 or look.step == steps:
            v = look.validation
            figures = [f"pair correlation {v['pair_correlation']:.3f}"] if "pair_correlation" in v else []
            figures += [f"perfect {v['perfect']:.3f}"] if "perfect" in v else []
            print(
                f"{label}: step {look.step}/{steps}, {look.images_s:.0f} images/s, {', '.join(figures)}",
                file=sys.stderr,
            )

    train(replace(spec, resume=(spec.out / "run.json").is_file()), Report(look=told))


def _bound_one(spec: TrainSpec) -> None:
    from .bound import train_bound

    if not _trained(spec.out):
        train_bound(spec)


@dataclass(frozen=True)
class _Probe:
    """A probe to be made: which run, on which views of which dataset, and where it goes.

    Guards and references only where ``whole``, since these are of the dataset, not of the seed.
    """

    run: Path
    dataset: Path
    out: Path
    cameras: tuple[str, ...] = ()
    whole: bool = False

    def options(self, plan: GatePlan) -> "ProbeOptions":
        from ..probe.run import ProbeOptions

        return ProbeOptions(
            val=plan.val, seed=plan.seed, cameras=self.cameras, batch=256, guards=self.whole, references=self.whole
        )


def _measure(gate: Gate, workers: int, say: Say, should_stop: Callable[[], bool]) -> None:
    plan = gate.plan
    probes = [p for p in _probes(gate) if not (p.out / "probe.json").is_file()]
    alike: dict[tuple[Path, tuple[str, ...]], list[_Probe]] = {}
    for probe in probes:
        alike.setdefault((probe.dataset, probe.cameras), []).append(probe)
    _in_processes([(_encode_all, (plan, group)) for group in alike.values()], workers, should_stop)
    if should_stop():
        return
    ranks = [(_rank_one, (str(gate.run(a, s)), str(gate.dataset(a)), gate.run(a, s), plan)) for a, s in gate.jobs()]
    _in_processes([*((_probe_one, (plan, p)) for p in probes), *ranks], workers, should_stop)


def _probes(gate: Gate) -> list[_Probe]:
    """Every run on its own kind of data, the walk's and the goal-directed ones on each other's, and the bounds."""
    found = []
    for arm, seed in gate.jobs():
        run = gate.run(arm, seed)
        found.append(_Probe(run, gate.dataset(arm), run, arm.cameras, whole=seed == 0))
        if other := {"walk": "goal", "goal": "walk"}.get(arm.name):
            found.append(_Probe(run, gate.dataset(gate.plan.arm(other)), run / f"on-{other}"))
    if gate.plan.bound:
        for arm in (gate.plan.arm("walk"), gate.plan.arm("goal")):
            found.append(_Probe(gate.bound(arm), gate.dataset(arm), gate.bound(arm)))
    return found


def _encode_all(plan: GatePlan, probes: Sequence[_Probe]) -> None:
    """Decode the images that these probes have in common once for all of them."""
    from ..probe.run import encode

    first = max(probes, key=lambda p: p.whole)
    encode(first.dataset, [f"jepa:{p.run}" for p in probes], first.options(plan))


def _probe_one(plan: GatePlan, probe: _Probe) -> None:
    from ..probe.record import write_run
    from ..probe.run import probe as measure

    write_run(measure(probe.dataset, f"jepa:{probe.run}", probe.options(plan)), probe.out)


def _rank_one(run: str, dataset: str, out: Path, plan: GatePlan) -> None:
    from .rank import RankOptions, rank

    if (out / "rank.json").is_file():
        return
    result = rank(run, dataset, RankOptions(horizon=plan.horizon, trials=plan.rank_trials, seed=plan.seed))
    write_bytes(out / "rank.json", json_bytes(result.to_json()))


def _in_processes(
    jobs: Sequence[tuple[Callable[..., None], tuple[Any, ...]]], workers: int, should_stop: Callable[[], bool]
) -> None:
    """Run jobs on so many processes of one thread each, which beats many threads at these sizes.

    The first error ends it.
    """
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(max_workers=workers, mp_context=context, initializer=_one_thread)
    try:
        waiting = {pool.submit(work, *arguments) for work, arguments in jobs}
        while waiting and not should_stop():
            done, waiting = wait(waiting, timeout=1.0, return_when=FIRST_EXCEPTION)
            for future in done:
                future.result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _one_thread() -> None:
    import torch

    torch.set_num_threads(1)
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "LP_NUM_THREADS"):
        os.environ[name] = "1"


def effective_sizes(dataset: Path, episodes: Iterable[int]) -> dict[str, Any]:
    """Frames of some episodes and how many independent ones a joint's mean is worth, by joint."""
    data = Dataset.open(dataset)
    table = data.columns(["observation.state", "episode_index"])
    episode = table["episode_index"].astype(np.int64).reshape(-1)
    chosen = list(episodes)
    sizes = effective_size(table["observation.state"], episode, chosen)
    names = (n.removesuffix(".pos") for n in data.names("observation.state"))
    return {"frames": int(np.isin(episode, chosen).sum()), "effective": dict(zip(names, sizes.tolist(), strict=True))}
