"""Cadence, sync and CPU of recording from a real rig: ``so101walk collect`` and ``lerobot-record`` on one emulator.

    python benchmarks/cadence.py [--seconds 60] [--size 320x240] [--fps 30] [--only ours] [--json]

Both record two cameras from the same virtual arm, one after the other; what is true comes from the emulator's log. The
emulator's own processes share the machine: quote ratios, and the load that is printed with them.

* ``cadence``: true seconds (renders of the first and the last image) against the timestamps, less 1.
* ``reads``: intervals of the joint reads as the bus saw them (SYNC_READ of the position while recording).
* ``apart``: true time from the render of a row's first image to its joints. Rows in motion tell it: the state's
  difference from where the arm was at the render, along its speed.
* ``repeated``, ``skipped``: images that two rows show, and serials that none does, per 150 rows.
* ``cpu``: seconds of the recording process (and its children) a second of recording; imports are left out by a run
  that records next to nothing.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from so101walk.dataset.raw import read_raw
from so101walk.dataset.reader import Dataset
from so101walk.emulator import strip
from so101walk.emulator.assembly import CALIBRATION_ID, write_calibration
from so101walk.emulator.bus import Instruction
from so101walk.emulator.log import Truth, read_log
from so101walk.emulator.stage import Stage

PRESENT = 56
FASTEST_SHARE = 0.3
"""Rows in which the arm moves slower than this share of its fastest tell nothing about time."""

PROMISED = 0.6
"""Of the cameras' rate that our rig promises, or it would rightly refuse an emulator that a busy machine holds up."""

BIN = Path(sys.executable).parent


def main() -> None:
    """Run both, print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--size", default="320x240")
    parser.add_argument("--fps", type=int, default=30)
    parser.add_argument("--ports", type=int, nargs=2, default=(5701, 5702))
    parser.add_argument("--only", choices=("ours", "lerobot"))
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        results = measure(Path(name), options)
    results["load"] = os.getloadavg()[0]
    if options.json:
        print(json.dumps(results, indent=1))
        return
    rows = sorted({k for who in ("ours", "lerobot") for k in results.get(who, {})})
    for row in rows:
        print(
            f"{row:24}",
            *(f"{who} {_shown(results[who].get(row)):>12}" for who in ("ours", "lerobot") if who in results),
        )
    print(f"load average of the machine: {results['load']:.1f} on {os.cpu_count()} cores")


def _shown(value: Any) -> str:
    return "-" if value is None else f"{value:.4g}"


def measure(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Both recordings on one emulator."""
    ports = dict(zip(("front", "wrist"), options.ports, strict=True))
    width, height = (int(v) for v in options.size.split("x"))
    write_calibration(folder)
    results: dict[str, Any] = {}
    spans: dict[str, tuple[int, int]] = {}
    log = folder / "log.h5"
    with (
        Stage(folder / "arm", cameras=ports, width=width, height=height, fps=options.fps, log=log) as arm,
        Stage(folder / "leader", gesture="sway") as leader,
    ):
        jobs = {
            "ours": lambda s: ours(folder, arm, ports, options, s),
            "lerobot": lambda s: lerobots(folder, arm, leader, ports, options, s),
        }
        for who, job in jobs.items():
            if options.only in (None, who):
                idle_s, _ = job(1.0)
                began_ns = time.perf_counter_ns()
                busy_s, dataset = job(options.seconds)
                spans[who] = (began_ns, time.perf_counter_ns())
                results[who] = {"cpu": (busy_s - idle_s) / (options.seconds - 1.0)}
                results[who]["_dataset"] = str(dataset)
    truth = read_log(log)
    for who, span in spans.items():
        results[who] |= judge(Path(results[who].pop("_dataset")), truth, span, options.fps)
    return results


def run(*words: str, folder: Path) -> float:
    """Run a program to its end; CPU seconds of it and its children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "HF_LEROBOT_HOME": str(folder)}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, cwd=folder)
    if done.returncode != 0:
        raise SystemExit(f"{words[0]} failed:\n{done.stderr[-3000:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def ours(
    folder: Path, arm: Stage, ports: dict[str, int], options: argparse.Namespace, seconds: float
) -> tuple[float, Path]:
    """``so101walk collect``, with latencies that ``calibrate latency`` has measured before."""
    width, height = options.size.split("x")
    rig = folder / "rig.toml"
    if not rig.exists():
        lines = [
            f'name = "bench"\nfps = {options.fps}\nenvelope = "so101-tabletop"',
            f'[arm]\ntype = "so101_follower"\nport = "{arm.link}"\nid = "{CALIBRATION_ID}"',
            f'calibration_dir = "{folder}"\nreply_ms = 50\n[safety]\nstall_s = 2.0',
        ]
        for name, port in ports.items():
            lines.append(
                f'[cameras.{name}]\ntype = "zmq"\nwidth = {width}\nheight = {height}\nfps = {PROMISED * options.fps}\n'
                f'options = {{ server_address = "127.0.0.1", port = {port}, camera_name = "{name}", timeout_ms = 500 }}'
            )
        rig.write_text("\n".join(lines) + "\n")
        calibrate = (
            "import sys; from so101walk.cli.calibrate_latency import command as c; sys.exit(c(standalone_mode=False))"
        )
        run(
            sys.executable,
            "-c",
            calibrate,
            "--rig",
            str(rig),
            "--out",
            str(folder / "late.toml"),
            "--yes",
            folder=folder,
        )
        rig.write_text(f'latency = "{folder / "late.toml"}"\n' + rig.read_text())
    out = folder / f"ours-{seconds:g}"
    words = [
        "--rig",
        str(rig),
        "--out",
        str(out),
        "--episodes",
        "1",
        "--episode-s",
        f"{seconds:g}",
        "--seed",
        "1",
        "--yes",
    ]
    return run(str(BIN / "so101walk"), "collect", *words, folder=folder), out


def lerobots(
    folder: Path, arm: Stage, leader: Stage, ports: dict[str, int], options: argparse.Namespace, seconds: float
) -> tuple[float, Path]:
    """``lerobot-record``, led by an arm that a hand sways."""
    width, height = options.size.split("x")
    cameras = ", ".join(
        f"{name}: {{type: zmq, server_address: 127.0.0.1, port: {port}, camera_name: {name}, width: {width}, "
        f"height: {height}, fps: {options.fps}, timeout_ms: 500}}"
        for name, port in ports.items()
    )
    out = folder / f"lerobot-{seconds:g}"
    cpu_s = run(
        str(BIN / "lerobot-record"),
        "--robot.type=so101_follower",
        f"--robot.port={arm.link}",
        f"--robot.id={CALIBRATION_ID}",
        f"--robot.calibration_dir={folder}",
        "--robot.cameras={" + cameras + "}",
        "--teleop.type=so101_leader",
        f"--teleop.port={leader.link}",
        f"--teleop.id={CALIBRATION_ID}",
        f"--teleop.calibration_dir={folder}",
        "--dataset.repo_id=local/recorded",
        f"--dataset.root={out}",
        f"--dataset.fps={options.fps}",
        "--dataset.num_episodes=1",
        f"--dataset.episode_time_s={seconds:g}",
        "--dataset.reset_time_s=0",
        "--dataset.single_task=follow",
        "--dataset.push_to_hub=false",
        "--dataset.rgb_encoder.vcodec=h264",
        "--play_sounds=false",
        folder=folder,
    )
    return cpu_s, out


def judge(path: Path, truth: Truth, span: tuple[int, int], fps: int) -> dict[str, float]:
    """The figures of one dataset against the truth."""
    dataset = Dataset.open(path)
    state = dataset.columns(["observation.state"], 0)["observation.state"].astype(np.float64)
    out: dict[str, float] = {"rows": float(len(state))}
    rendered: NDArray[np.int64] | None = None
    for camera in ("front", "wrist"):
        serials = [strip.read(image) for image in dataset.frames(camera, 0)]
        known = np.array([-1 if s is None else s for s in serials])
        per = 150 / len(known)
        out[f"repeated {camera}"] = float((np.diff(known) == 0).sum()) * per
        out[f"skipped {camera}"] = float((np.diff(known) - 1).clip(0).sum()) * per
        if f"sync.repeated.{camera}" in dataset.features:
            marked = dataset.columns([f"sync.repeated.{camera}"], 0)[f"sync.repeated.{camera}"] != 0
            out[f"unmarked {camera}"] = float(((np.diff(known) == 0) & ~marked[1:]).sum())
        if rendered is None:
            rendered = np.array([truth.cameras[camera].rendered_ns(int(s)) for s in known])
    assert rendered is not None
    true_s = (rendered[-1] - rendered[0]) / 1e9
    out["cadence %"] = 100 * (true_s / ((len(state) - 1) / fps) - 1)
    apart_ms = _apart_ms(state, rendered, truth)
    out["apart median ms"], out["apart p99 ms"] = (float(np.quantile(np.abs(apart_ms), p)) for p in (0.5, 0.99))
    out["apart mean ms"] = float(apart_ms.mean())
    reads = _reads_ms(truth, (max(span[0], int(rendered[0])), min(span[1], int(rendered[-1]))))
    out["reads median ms"], out["reads p99 ms"] = (float(np.quantile(reads, p)) for p in (0.5, 0.99))
    out["reads std ms"] = float(reads.std())
    raw = path / "raw" / "episode-000000.h5"
    if raw.exists():
        loop = read_raw(raw).attrs["episode"]["loop"]
        out["missed deadlines %"] = 100 * loop["missed_deadlines"] / max(loop["turns"] + loop["missed_deadlines"], 1)
    return out


def _apart_ms(state: NDArray[np.float64], rendered_ns: NDArray[np.int64], truth: Truth) -> NDArray[np.float64]:
    step_ns = 5_000_000
    q = truth.q_at(rendered_ns)
    speed = (truth.q_at(rendered_ns + step_ns) - truth.q_at(rendered_ns - step_ns)) / (2 * step_ns / 1e9)
    square = (speed**2).sum(axis=1)
    moving = square > FASTEST_SHARE**2 * np.quantile(square, 0.98)
    delta_s = (speed * (state - q)).sum(axis=1)[moving] / square[moving]
    return 1000 * delta_s


def _reads_ms(truth: Truth, span: Sequence[int]) -> NDArray[np.float64]:
    bus = truth.bus
    end = bus["address"] + bus["size"]
    chosen = (bus["instruction"] == Instruction.SYNC_READ) & (bus["address"] <= PRESENT) & (end > PRESENT)
    chosen &= (bus["t_ns"] >= span[0]) & (bus["t_ns"] <= span[1])
    return np.diff(bus["t_ns"][chosen]) / 1e6


if __name__ == "__main__":
    main()
