"""What ``collect`` costs beside bare rendering, and how long a newcomer waits.

    python benchmarks/collect.py [--episodes 12] [--rounds 3] [--json]

Frames a second of ``so101walk collect`` (two views of 224 px; planning, physics, rendering, encoding, verifying,
saving) with 1 and 2 workers, as a ratio to (a) a plain undecimated ``mujoco.Renderer`` loop and (b) a bare loop over
our own scene with as many workers, see render.py. Each worker walks ``--episodes`` of 12 s; starting the workers
counts. Ratios are medians over rounds in which all kinds take turns. Seconds from starting the program to its first
frame, and of ``so101walk --help``, are medians of as many runs.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from render import bare_rate, plain_rate

SIZE_PX = 224


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    rounds = [measure(arguments.episodes) for _ in range(arguments.rounds)]
    figures = {name: statistics.median(r[name] for r in rounds) for name in rounds[0]}
    if arguments.json:
        print(json.dumps({"median": figures, "rounds": rounds}))
        return
    for name, value in figures.items():
        low, high = min(r[name] for r in rounds), max(r[name] for r in rounds)
        print(f"{name:34s} {value:8.2f}   ({low:.2f} to {high:.2f})")


def measure(episodes: int) -> dict[str, float]:
    """One round: every kind once, and the ratios."""
    plain = plain_rate(SIZE_PX, 6)
    figures = {"plain frames/s": plain}
    for workers in (1, 2):
        bare, collected = bare_rate(workers, SIZE_PX, 720), collect_rate(workers, episodes * workers)
        figures[f"bare frames/s, {workers} workers"] = bare
        figures[f"collect frames/s, {workers} workers"] = collected
        figures[f"collect / plain, {workers} workers"] = collected / plain
        figures[f"collect / bare, {workers} workers"] = collected / bare
    figures["seconds to the first frame"] = first_frame_s()
    figures["seconds of --help"] = seconds_of("--help")
    return figures


def collect_rate(workers: int, episodes: int) -> float:
    """Frames a second over the walking part of a session, as its own report tells."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [
                *(sys.executable, "-m", "so101walk", "collect", "--out", f"{folder}/walk", "--json", "--seed", "0"),
                *("--episodes", str(episodes), "--workers", str(workers)),
            ],
            check=True,
            capture_output=True,
            text=True,
        )
    return float(json.loads(done.stdout)["rate_hz"])


def first_frame_s() -> float:
    """Seconds from starting the program until the first video file of an episode has been begun."""
    with tempfile.TemporaryDirectory() as folder:
        begun = time.monotonic()
        process = subprocess.Popen(
            [sys.executable, "-m", "so101walk", "collect", "--out", f"{folder}/walk", "--episodes", "1"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        while not any(Path(folder).glob("walk.staging/tmp/*/videos/*/*/*.mp4")):
            if process.poll() is not None:
                sys.exit("collect ended without a frame")
            time.sleep(0.005)
        seconds = time.monotonic() - begun
        process.kill()
        process.wait()
    return seconds


def seconds_of(*arguments: str) -> float:
    """Wall seconds of one ``so101walk`` call."""
    begun = time.monotonic()
    subprocess.run([sys.executable, "-m", "so101walk", *arguments], check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - begun


if __name__ == "__main__":
    main()
