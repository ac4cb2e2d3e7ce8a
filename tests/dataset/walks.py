"""Small walks on disk for the tests of the dataset, in-process and as a child that can be killed.

Every image carries its own serial number in a strip of black and white cells, so that a decoded image tells which one
it is. As a script: ``python walks.py walk OUT EPISODES FRAMES`` saves episodes one after another, a line on stdout for
each; ``hang`` does the same but stops in the middle of the last one; ``python walks.py die OUT WORK`` runs
``save`` or ``assemble`` again and again, each time on a fresh copy of OUT and killed by SIGKILL at another of its file
operations; it prints the copies' names.
"""

import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from so101walk.arms.arm import Tick
from so101walk.dataset.raw import RawLog
from so101walk.dataset.schema import Frame
from so101walk.dataset.staging import Staging, sibling
from so101walk.dataset.writer import EpisodeWriter, SavedEpisode

FPS = 30
CAMERAS = {"front": (48, 96), "wrist": (64, 128)}
STEP = 5
BITS, CELL = 10, 8
SESSION = {
    "fps": FPS,
    "simulated": True,
    "rig": {"name": "sim", "arm": {"control_hz": 100.0}},
    "envelope": {"name": "so101-tabletop", "digest": "abc"},
    "policy": {"name": "ou", "rho": 0.9},
    "seed": 7,
}


def image(serial: int, size: tuple[int, int]) -> np.ndarray:
    """A shaded image whose top row of cells shows ``serial`` in binary."""
    rows, columns = np.mgrid[: size[0], : size[1]]
    shade = np.stack([80 + rows, 60 + columns, 100 + (rows + columns) // 2], axis=-1)
    rgb = (shade + 20 * np.sin(serial / 3.0)).clip(0, 255).astype(np.uint8)
    for bit in range(BITS):
        rgb[:CELL, bit * CELL : (bit + 1) * CELL] = 255 if serial >> bit & 1 else 0
    return rgb


def serial(rgb: np.ndarray) -> int:
    """The number that a decoded image shows."""
    cells = [rgb[2 : CELL - 2, b * CELL + 2 : (b + 1) * CELL - 2].mean() > 127 for b in range(BITS)]
    return sum(int(on) << bit for bit, on in enumerate(cells))


def frames(walk_index: int, count: int) -> Iterator[Frame]:
    """The frames of an episode, a pure function of its walk index."""
    rng = np.random.default_rng([7, walk_index])
    for k in range(count):
        state, action, z, request = rng.normal(0.0, 20.0, (4, 6))
        yield Frame(
            state=state,
            action=action,
            z=z / 20.0,
            request=request,
            waypoint=k // STEP if k % STEP == 0 else -1,
            images={camera: image(k + 100 * walk_index, size) for camera, size in CAMERAS.items()},
            capture_ns={"front": -3, "wrist": 2_000_000_123},
            state_gap_ns=10_000_001,
            wall_ns=k * 33_333_333 + 9_007_199_254_740_993,
            repeated=frozenset({"wrist"} if k == 1 else ()),
        )


def raw_log(count: int = 12) -> RawLog:
    """A short full-rate log, with an extra that only every other tick has read."""
    rng = np.random.default_rng(3)
    ticks = [
        Tick(
            t_before_ns=k * 10_000_000,
            t_after_ns=k * 10_000_000 + 600_000,
            q=rng.normal(size=6),
            ticks=rng.integers(0, 4096, 6),
            request=rng.normal(size=6),
            sent=rng.normal(size=6),
            extra={"load": rng.normal(size=6)} if k % 2 else {},
        )
        for k in range(count)
    ]
    return RawLog.of(ticks, {"front": [1, 2, 3], "wrist": [4, 5]}, {"seed": 7, "policy_state": {"z": [0.5, -1.0]}})


def writer(staging: Staging, walk_index: int, **options: int) -> EpisodeWriter:
    """A writer for an episode of these walks."""
    return EpisodeWriter(staging, walk_index, fps=FPS, cameras=CAMERAS, task="Walk.", **options)


def save(staging: Staging, walk_index: int, count: int = 20) -> SavedEpisode:
    """Save one whole episode."""
    with writer(staging, walk_index) as episode:
        for frame in frames(walk_index, count):
            episode.add(frame)
        return episode.finish({"acceptance": 0.98}, raw_log(), waypoints=-(-count // STEP))


def staged(out: Path, walk_indices: list[int], count: int = 20) -> Staging:
    """A staging folder in which these episodes are saved, in this order."""
    staging = Staging(out)
    with staging.lock():
        staging.begin(SESSION)
        for walk_index in walk_indices:
            save(staging, walk_index, count)
    return staging


def snapshot(folder: Path) -> dict[str, bytes]:
    """Every file under ``folder`` and its siblings of the same stem, with its bytes."""
    roots = sorted(p for p in folder.parent.iterdir() if p.name == folder.name or p.name.startswith(folder.name + "."))
    return {
        str(p.relative_to(folder.parent)): p.read_bytes() for r in roots for p in sorted(r.rglob("*")) if p.is_file()
    }


def copy_all(out: Path, target: Path) -> None:
    """Copy a dataset and what lies beside it to another name."""
    for suffix in ("", ".staging", ".building", ".old", ".quarantine"):
        if sibling(out, suffix).is_dir():
            shutil.copytree(sibling(out, suffix), sibling(target, suffix))


OPERATIONS = ("rename", "link", "unlink", "rmdir", "mkdir", "fsync")
"""Calls of ``os`` by which the code under test changes the disk."""


def _die_before(operation: int) -> list[str]:
    """Kill this process before its ``operation``-th change of the disk; returns the list of those done so far."""
    done: list[str] = []

    def counted(name: str, call: Callable[..., object]) -> Callable[..., object]:
        def wrapped(*arguments: object, **options: object) -> object:
            if len(done) == operation:
                os.kill(os.getpid(), signal.SIGKILL)
            done.append(name)
            return call(*arguments, **options)

        return wrapped

    for name in OPERATIONS:
        setattr(os, name, counted(name, getattr(os, name)))
    return done


def _work(out: Path, work: str) -> None:
    from so101walk.dataset.assemble import assemble

    staging = Staging(out)
    with staging.lock():
        if work == "save":
            staging.begin(SESSION)
            save(staging, 2, 8)
        else:
            assemble(out)


def _child(out: Path, work: str, operation: int) -> tuple[list[str], int]:
    """Do ``work`` in a child that dies before ``operation``; its changes of the disk, and its wait status."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        done = _die_before(operation)
        _work(out, work)
        os.write(writing, " ".join(done).encode())
        os._exit(0)
    os.close(writing)
    with open(reading) as pipe:
        done = pipe.read().split()
    return done, os.waitpid(child, 0)[1]


def _die(out: Path, work: str) -> None:
    """Kill ``work`` just before and just after every rename, and at every thirteenth of its changes of the disk."""
    copy_all(out, out.with_name(f"{out.name}-whole"))
    done, status = _child(out.with_name(f"{out.name}-whole"), work, 10**9)
    assert status == 0
    renames = {k for k, name in enumerate(done) if name == "rename"}
    for operation in sorted(renames | {k + 1 for k in renames} | set(range(0, len(done), 13))):
        if operation < len(done):
            target = out.with_name(f"{out.name}-{operation}")
            copy_all(out, target)
            _, status = _child(target, work, operation)
            assert os.WIFSIGNALED(status)
            print(target.name)


def _walk(out: Path, episodes: int, count: int) -> None:
    staging = Staging(out)
    with staging.lock():
        staging.begin(SESSION)
        for walk_index in range(episodes):
            save(staging, walk_index, count)
            print(f"saved {walk_index}", flush=True)


def _hang(out: Path, episodes: int, count: int) -> None:
    _walk(out, episodes - 1, count)
    staging = Staging(out)
    with staging.lock(), writer(staging, episodes - 1) as episode:
        for frame in frames(episodes - 1, count // 2):
            episode.add(frame)
        print("halfway", flush=True)
        time.sleep(600)


if __name__ == "__main__":
    mode, folder, *rest = sys.argv[1:]
    if mode == "die":
        _die(Path(folder), rest[0])
    else:
        {"walk": _walk, "hang": _hang}[mode](Path(folder), int(rest[0]), int(rest[1]))
