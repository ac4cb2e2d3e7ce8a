"""Planning in the latent against planning in the true state (theorem 5.4): reach random goal images in simulation.

    python benchmarks/plan_latent.py RUN DATASET [--trials 20] [--strides 10] [--horizon 3] [--samples 64] [--json]

RUN is a ``lewm`` run of ``so101walk train`` on DATASET, a random walk of the simulated arm; its rig and envelope are
used again. A trial draws a start and a goal from the walk's law and shows the goal's images only. At every stride the
cross-entropy method (Rubinstein 1999) draws sequences of joint moves, the model rolls them out from the images seen so
far, and the first move of the best is made. Planning in the true state does the same with the measured joints and the
belief that the arm gets where it is sent. Success is a root mean square of the joint errors, in units of the
envelope's scale, below 0.5; two independent poses of the walk are sqrt(2) apart.
"""

import argparse
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from so101walk.cameras.simulated import make_simulated
from so101walk.config import build
from so101walk.dataset.reader import Dataset
from so101walk.envelope import load_envelope
from so101walk.jepa.frames import shrink
from so101walk.jepa.lewm import LeWM, rollout
from so101walk.jepa.lewm_task import action_chunks
from so101walk.jepa.recipe import LewmRecipe
from so101walk.jepa.run import Run, load_module, load_run
from so101walk.rig import Rig

Array = NDArray[np.float64]
SUCCESS = 0.5
MOVE_SCALE = 0.5
"""Standard deviation of a drawn move a stride, in units of the envelope's scale."""

ROUNDS, ELITE = 4, 8


@dataclass
class Bench:
    """A simulated rig and what plans on it."""

    run: Run
    dataset: Dataset

    def __post_init__(self) -> None:
        assert isinstance(self.run.recipe, LewmRecipe), "the benchmark needs a lewm run"
        meta = self.dataset.meta or {}
        told = {k: v for k, v in meta["rig"].items() if k not in ("latency", "safety")}
        self.rig = build(Rig, told, "the dataset's rig")
        self.envelope = load_envelope(self.rig.envelope)
        self.windows = self.run.recipe.windows
        self.model = load_module(self.run)
        self.arm, self.cameras = make_simulated(self.rig)
        self.arm.connect()
        self.stride_s = self.windows.stride / self.rig.fps

    def look(self) -> torch.Tensor:
        """The latent of what the cameras see now. Shape (1, d)."""
        views = []
        for name in (c.rsplit(".", 1)[-1] for c in self.run.cameras):
            camera = self.cameras[name]
            camera.start()
            views.append(shrink(camera.drain()[-1].rgb, self.run.recipe.frames.size_px))
            camera.stop()
        with torch.inference_mode():
            return self.model(torch.from_numpy(np.stack(views))[None])

    def setpoints(self, z: Array, moves: Array) -> Array:
        """Actions of every frame while moves (..., h, 6) are made one after the other from ``z`` (6,).

        (..., h * stride, 6).
        """
        ends = z + np.cumsum(moves, axis=-2)
        starts = ends - moves
        share = np.arange(self.windows.stride) / self.windows.stride
        z_at = starts[..., None, :] + share[:, None] * moves[..., None, :]
        q = self.envelope.z_to_q(z_at).clip(self.envelope.lower, self.envelope.upper)
        return q.reshape(*q.shape[:-3], -1, 6)

    def make(self, z: Array, move: Array) -> None:
        """Send the arm from ``z`` to ``z + move`` over a stride."""

        def at(t_s: float) -> Array:
            q = self.envelope.z_to_q(z + move * min(t_s / self.stride_s, 1.0))
            return q.clip(self.envelope.lower, self.envelope.upper)

        self.arm.follow(at, self.arm.clock.now_ns(), self.stride_s)

    def settle(self, z: Array) -> None:
        """Put the arm at ``z``, at rest."""
        self.arm.reset(self.envelope.z_to_q(z))
        self.make(z, np.zeros(6))


def cem(cost: Callable[[Array], Array], horizon: int, samples: int, rng: np.random.Generator) -> Array:
    """Moves (horizon, 6) of least cost; ``cost`` takes (n, horizon, 6) and gives (n,)."""
    mean, spread = np.zeros((horizon, 6)), np.full((horizon, 6), MOVE_SCALE)
    for _ in range(ROUNDS):
        drawn = mean + spread * rng.standard_normal((samples, horizon, 6))
        best = drawn[np.argsort(cost(drawn))[:ELITE]]
        mean, spread = best.mean(axis=0), best.std(axis=0) + 0.02
    return mean


def reach(
    bench: Bench, goal: Array, start: Array, how: str, strides: int, horizon: int, samples: int, seed: int
) -> Array:
    """Joint errors (6,), in units of the envelope's scale, after planning ``how`` from ``start`` to ``goal`` (6,)."""
    rng = np.random.default_rng(seed)
    bench.settle(goal)
    wanted = bench.look()
    true_goal = bench.envelope.q_to_z(bench.arm.present())
    bench.settle(start)
    z = start.copy()
    seen, done = [bench.look()], []
    model, w = bench.model, bench.windows
    assert isinstance(model, LeWM)

    def latent_cost(moves: Array) -> Array:
        ahead = bench.setpoints(z, moves).astype(np.float32)
        n = len(moves)
        firsts = np.arange(n)[:, None] * ahead.shape[1] + w.stride * np.arange(moves.shape[1])
        chunks = action_chunks(ahead.reshape(-1, 6), firsts, w.stride, w.relative_actions)
        known = min(len(seen), w.history)
        past = np.stack(done[len(done) - known + 1 :]) if known > 1 else np.empty((0, chunks.shape[-1]), np.float32)
        actions = np.concatenate([np.repeat(past[None], n, axis=0), chunks], axis=1)
        before = torch.cat(seen[-known:])[None].expand(n, -1, -1)
        with torch.inference_mode():
            end = rollout(model, before, torch.from_numpy(actions), w.history)
        return (end - wanted).norm(dim=-1).double().numpy()

    def state_cost(moves: Array) -> Array:
        now = bench.envelope.q_to_z(bench.arm.present())
        return np.linalg.norm(now + moves.sum(axis=1) - true_goal, axis=-1)

    for _ in range(strides):
        if how == "stay":
            move = np.zeros(6)
        else:
            move = cem(latent_cost if how == "latent" else state_cost, horizon, samples, rng)[0]
        sent = bench.setpoints(z, move[None]).astype(np.float32)
        done.append(action_chunks(sent, np.array(0), w.stride, w.relative_actions))
        bench.make(z, move)
        z = z + move
        seen.append(bench.look())
    return np.abs(bench.envelope.q_to_z(bench.arm.present()) - true_goal)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("dataset", type=Path)
    for name, value in (("trials", 20), ("strides", 10), ("horizon", 3), ("samples", 64), ("seed", 0)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--json", action="store_true")
    a = parser.parse_args()
    torch.set_num_threads(1)
    bench = Bench(load_run(a.run), Dataset.open(a.dataset))
    rng = np.random.default_rng(a.seed)
    errors: dict[str, list[Array]] = {"latent": [], "state": [], "stay": []}
    for trial in range(a.trials):
        start, goal = (_pose(bench, rng) for _ in range(2))
        for how, found in errors.items():
            found.append(reach(bench, goal, start, how, a.strides, a.horizon, a.samples, a.seed + trial))
    bench.arm.close()
    told = {}
    for how, found in errors.items():
        rms = np.sqrt((np.stack(found) ** 2).mean(axis=1))
        told[how] = {
            "success": float((rms < SUCCESS).mean()),
            "rms_error": float(rms.mean()),
            "by_joint": np.stack(found).mean(axis=0).tolist(),
        }
    if a.json:
        print(json.dumps(told))
        return
    for how, figures in told.items():
        print(f"{how:8s} success {figures['success']:.2f}   rms error {figures['rms_error']:.2f} scales")


def _pose(bench: Bench, rng: np.random.Generator) -> Array:
    while True:
        z = rng.standard_normal(6)
        if bench.envelope.contains(bench.envelope.z_to_q(z)):
            return z


if __name__ == "__main__":
    main()
