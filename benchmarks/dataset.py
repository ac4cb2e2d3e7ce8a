"""What the dataset costs: seconds to save an episode early and late in a session, and to assemble 1,000 short ones.

    python benchmarks/dataset.py [--json] [--episodes 1000] [--frames 30] [--saves 100]

Saving is timed on full episodes (360 frames, two cameras of 224 px) of synthetic images, apart from the time that the
frames take to come. The short episodes to assemble are copies of one on disk, under walk indices of their own.
"""

import argparse
import json
import resource
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from so101walk.arms.arm import Tick
from so101walk.dataset.assemble import assemble
from so101walk.dataset.durable import json_bytes
from so101walk.dataset.raw import RawLog, read_raw, write_raw
from so101walk.dataset.schema import Frame
from so101walk.dataset.staging import RECORD, Staging
from so101walk.dataset.writer import EpisodeWriter, SavedEpisode

FPS, SIZE, CONTROL_HZ = 30, (224, 224), 100
CAMERAS = {"front": SIZE, "wrist": SIZE}


def images(count: int, rng: np.random.Generator) -> list[np.ndarray]:
    """A textured still background with three discs that move, as in the simulated scene. Each (224, 224, 3) uint8."""
    rows, columns = np.mgrid[: SIZE[0], : SIZE[1]]
    shade = 120 + 60 * np.sin(rows / 23.0) * np.cos(columns / 31.0)
    still = (shade[..., None] + rng.integers(-4, 5, (*SIZE, 1))).astype(np.uint8).repeat(3, axis=2)
    made = []
    for k in range(count):
        image = still.copy()
        for j, colour in enumerate([(240, 200, 40), (40, 40, 220), (20, 20, 20)]):
            y, x = 112 + 70 * np.sin(k / 20 + 2 * j), 112 + 70 * np.cos(k / 17 + j)
            image[(rows - y) ** 2 + (columns - x) ** 2 < 150] = colour
        made.append(image)
    return made


def save(
    staging: Staging, walk_index: int, frames: int, pictures: list[np.ndarray]
) -> tuple[SavedEpisode, float, float, float]:
    """Save one episode. Returns it and three times [s]: to hand over its frames, to finish, and the CPU's of both."""
    rng = np.random.default_rng(walk_index)
    begin, begin_cpu = time.perf_counter(), time.process_time()
    with EpisodeWriter(staging, walk_index, fps=FPS, cameras=CAMERAS) as writer:
        for k in range(frames):
            state, action, z, request = rng.normal(0.0, 20.0, (4, 6))
            writer.add(
                Frame(
                    state=state,
                    action=action,
                    z=z,
                    request=request,
                    waypoint=k // 15 if k % 15 == 0 else -1,
                    images={"front": pictures[k], "wrist": pictures[-1 - k]},
                    capture_ns={"front": 0, "wrist": 0},
                    state_gap_ns=10_000_000,
                    wall_ns=k * 1_000_000_000 // FPS,
                )
            )
        handed_over = time.perf_counter()
        q, request, sent = rng.normal(0.0, 20.0, (3, 6))
        times = range(0, round(frames / FPS * 1e9), round(1e9 / CONTROL_HZ))
        ticks = [Tick(t, t, q, np.arange(6), request, sent, {}) for t in times]
        saved = writer.finish({"acceptance": 0.99}, RawLog.of(ticks, {c: range(frames) for c in CAMERAS}))
    return saved, handed_over - begin, time.perf_counter() - handed_over, time.process_time() - begin_cpu


def copies(staging: Staging, saved: SavedEpisode, count: int) -> None:
    """Fill the staging folder with copies of an episode, each with its own walk index."""
    log = read_raw(saved.path / "raw.h5")
    for walk_index in range(saved.walk_index + 1, count):
        folder = staging.episodes / f"episode-{walk_index:06d}"
        shutil.copytree(saved.path, folder)
        record = {**saved.record, "walk_index": walk_index}
        (folder / RECORD).write_bytes(json_bytes(record))
        log.attrs["episode"] = record
        write_raw(folder / "raw.h5", log)


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout, words on stderr")
    parser.add_argument("--episodes", type=int, default=1000, help="short episodes to assemble")
    parser.add_argument("--frames", type=int, default=30, help="frames of a short episode")
    parser.add_argument("--saves", type=int, default=100, help="full episodes to save")
    parser.add_argument("--dir", type=Path, help="where to write (default: the system's temporary folder)")
    arguments = parser.parse_args()
    say = sys.stderr if arguments.json else sys.stdout
    result: dict[str, float] = {}
    with tempfile.TemporaryDirectory(dir=arguments.dir) as folder:
        pictures = images(360, np.random.default_rng(0))
        long = Staging(Path(folder, "long"))
        with long.lock():
            long.begin({"fps": FPS})
            times = [save(long, k, 360, pictures)[1:] for k in range(arguments.saves)]
        finishes, cpu = [t[1] for t in times], [t[2] for t in times]
        result["save_s_episode_2"] = finishes[1]
        result["save_s_episode_last"] = finishes[-1]
        result["save_s_median_first_10"] = statistics.median(finishes[1:11])
        result["save_s_median_last_10"] = statistics.median(finishes[-10:])
        result["cpu_s_median_first_10"] = statistics.median(cpu[1:11])
        result["cpu_s_median_last_10"] = statistics.median(cpu[-10:])
        result["frames_per_s_handed_over"] = 360 / statistics.median(t[0] for t in times)
        print(
            f"save after the last frame: episode 2 {finishes[1]:.3f} s, episode {len(finishes)} {finishes[-1]:.3f} s",
            file=say,
        )
        shutil.rmtree(long.root)

        short = Staging(Path(folder, "short"))
        with short.lock():
            short.begin({"fps": FPS})
            copies(short, save(short, 0, arguments.frames, pictures)[0], arguments.episodes)
            before_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            begin = time.perf_counter()
            report = assemble(short.out)
            result["assemble_s"] = time.perf_counter() - begin
        result["assemble_episodes"] = report.episodes
        result["peak_rss_before_mb"] = before_mb
        result["peak_rss_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"assemble {report.episodes} episodes of {arguments.frames} frames: {result['assemble_s']:.1f} s, "
        f"peak memory {result['peak_rss_mb']:.0f} MB ({before_mb:.0f} MB before)",
        file=say,
    )
    if arguments.json:
        print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
