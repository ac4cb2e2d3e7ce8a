"""Frames a second of the simulated rig, two views a frame, against a plain loop over the same scene.

    python benchmarks/render.py [--sizes 224 128] [--rounds 3] [--frames 300] [--plain-frames 6] [--json]

(a) plain: ``mujoco.Renderer`` as it comes (shadows, reflections, multisampling, every rasterizer thread) over the
    original meshes, one renderer for both views.
(b) bare: our decimated scene, physics stepped at the rig's rate and both views drawn, nothing kept; with 1 worker
    process and with 2. ``bare_rate`` is what ``collect`` is compared with.

Every measurement runs in processes of its own. The kinds take turns, round by round, so that a busy machine slows all
of them alike; a ratio is the median of the rounds' ratios.
"""

import argparse
import dataclasses
import json
import multiprocessing
import os
import statistics
import sys
import time
from multiprocessing.synchronize import Barrier
from queue import Queue
from typing import Any

__all__ = ["bare_rate", "plain_rate"]

CENTER_RAD = (0.0, -0.6, -0.3, 0.3, 0.0, 0.6)
"""Issue 2's hand-made center; both loops sway about it by SWAY_RAD, so that every frame differs."""

SWAY_RAD = 0.2
WARM_UP_FRAMES = 5
START_TIMEOUT_S = 300.0


def bare_rate(workers: int, size: int, frames: int, rig_name: str = "sim") -> float:
    """Two-view frames a second of a bare loop over our scene, all workers together.

    Args:
        workers: Processes, each with a world of its own.
        size: Width and height of both views [px].
        frames: Frames that each worker makes.
        rig_name: The rig whose rates are used.
    """
    return _rate(_bare_worker, workers, size, frames, rig_name)


def plain_rate(size: int, frames: int, rig_name: str = "sim") -> float:
    """Two-view frames a second of ``mujoco.Renderer`` with its defaults over the original meshes, one process."""
    return _rate(_plain_worker, 1, size, frames, rig_name)


def _rate(worker: Any, workers: int, size: int, frames: int, rig_name: str) -> float:
    context = multiprocessing.get_context("spawn")
    ready, times = context.Barrier(workers), context.Queue()
    processes = [context.Process(target=worker, args=(ready, times, size, frames, rig_name)) for _ in range(workers)]
    for process in processes:
        process.start()
    spans = [times.get(timeout=START_TIMEOUT_S) for _ in processes]
    for process in processes:
        process.join()
    return workers * frames / (max(end for _, end in spans) - min(begin for begin, _ in spans))


def _bare_worker(ready: Barrier, times: "Queue[tuple[float, float]]", size: int, frames: int, rig_name: str) -> None:
    import numpy as np

    from so101walk.joints import rad_to_q
    from so101walk.rig import load_rig
    from so101walk.scene.world import World

    rig = load_rig(rig_name)
    cameras = {n: dataclasses.replace(c, width=size, height=size, fps=rig.fps) for n, c in rig.cameras.items()}
    world = World(dataclasses.replace(rig, cameras=cameras))
    world.reset(rad_to_q(CENTER_RAD))
    for name in cameras:
        world.start_capture(name)

    def frame(k: int) -> None:
        world.command(rad_to_q(np.add(CENTER_RAD, SWAY_RAD * np.sin(k / 10 + np.arange(6)))))
        world.clock.sleep_until(round((k + 1) * 1e9 / rig.fps))
        drawn = [world.drain(name) for name in cameras]
        assert all(drawn), "a frame came without an image"

    times.put(_timed(frame, frames, ready))
    world.close()


def _plain_worker(ready: Barrier, times: "Queue[tuple[float, float]]", size: int, frames: int, rig_name: str) -> None:
    import numpy as np

    from so101walk.rig import load_rig
    from so101walk.scene.model import VIEWS, build_spec

    rig = load_rig(rig_name)
    spec = build_spec(full_meshes=True, physics_hz=rig.arm.physics_hz)
    spec.visual.quality.offsamples, spec.visual.quality.shadowsize = 4, 4096  # MuJoCo's defaults
    for light in spec.lights:
        light.castshadow = True
    os.environ.pop("LP_NUM_THREADS", None)  # the driver's default: a rasterizer thread a core
    import mujoco

    model = spec.compile()
    data = mujoco.MjData(model)
    renderer = mujoco.Renderer(model, size, size)

    def frame(k: int) -> None:
        data.ctrl[:] = np.add(CENTER_RAD, SWAY_RAD * np.sin(k / 10 + np.arange(6)))
        mujoco.mj_step(model, data, nstep=round(rig.arm.physics_hz / rig.fps))
        mujoco.mj_forward(model, data)
        for view in VIEWS.values():
            renderer.update_scene(data, view)
            renderer.render()

    times.put(_timed(frame, frames, ready))
    renderer.close()


def _timed(frame: Any, frames: int, ready: Barrier) -> tuple[float, float]:
    """Begin and end of ``frames`` frames after a warm-up, on the monotonic clock that all processes share [s]."""
    warm_up = min(WARM_UP_FRAMES, frames)
    for k in range(warm_up):
        frame(k)
    ready.wait()
    begin = time.monotonic()
    for k in range(warm_up, warm_up + frames):
        frame(k)
    return begin, time.monotonic()


def measure(size: int, rounds: int, frames: int, plain_frames: int) -> dict[str, Any]:
    """Rates of every kind, medians over rounds, and the ratios that issue 2 asks for."""
    runs: dict[str, list[float]] = {"plain": [], "bare_1": [], "bare_2": []}
    for _ in range(rounds):
        runs["plain"].append(plain_rate(size, plain_frames))
        runs["bare_1"].append(bare_rate(1, size, frames))
        runs["bare_2"].append(bare_rate(2, size, frames))
    report: dict[str, Any] = {"size_px": size, "rounds": rounds}
    report |= {f"{kind}_frames_per_s": round(statistics.median(rates), 2) for kind, rates in runs.items()}
    for kind in ("bare_1", "bare_2"):
        ratios = [ours / plain for ours, plain in zip(runs[kind], runs["plain"], strict=True)]
        report[f"{kind}_over_plain"] = round(statistics.median(ratios), 1)
        report[f"{kind}_over_plain_range"] = [round(min(ratios), 1), round(max(ratios), 1)]
    return report


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[224, 128], help="width and height of a view [px]")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--frames", type=int, default=300, help="frames a bare worker makes in a round")
    parser.add_argument("--plain-frames", type=int, default=6, help="frames of the plain loop in a round")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout, the lines on stderr")
    options = parser.parse_args()
    results = []
    for size in options.sizes:
        r = measure(size, options.rounds, options.frames, options.plain_frames)
        results.append(r)
        line = f"{size} px: plain {r['plain_frames_per_s']:.1f} frames/s"
        for workers in (1, 2):
            line += f"; bare, {workers} worker{'s' * (workers > 1)} {r[f'bare_{workers}_frames_per_s']:.0f}"
            line += f" ({r[f'bare_{workers}_over_plain']:.0f}x)"
        print(line, file=sys.stderr if options.json else sys.stdout)
    if options.json:
        print(json.dumps({"cores": os.cpu_count(), "render": results}))


if __name__ == "__main__":
    main()
