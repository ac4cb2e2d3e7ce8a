"""A virtual SO-101 for each test, and rigs that name it. Motion is fast here: what counts is what happens, not when."""

import dataclasses
import functools
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from so101walk import real
from so101walk.arms.follower import Follower
from so101walk.doctor import examine_cameras
from so101walk.emulator.assembly import write_calibration
from so101walk.emulator.stage import Stage
from so101walk.envelope import Envelope, load_envelope
from so101walk.rig import ArmConfig, CameraConfig, LimitsConfig, Rig, SafetyConfig
from so101walk.session import SessionSpec

CENTER = load_envelope("so101-tabletop").center
RESTING = CENTER + np.array([0.0, -20.0, 20.0, 0.0, 0.0, 0.0])
"""Not far from where episodes begin, so that a test needn't wait for long ways."""

WIDTH, HEIGHT = 96, 72


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


@dataclasses.dataclass
class Bench:
    """Makes stages and the rigs that go with them."""

    folder: Path
    stages: list[Stage]

    @property
    def link(self) -> Path:
        return self.folder / "arm"

    @property
    def log(self) -> Path:
        return self.folder / "log.h5"

    def stage(
        self, faults: Any = (), cameras: bool = False, fps: float = 20.0, at: Any = RESTING, **more: Any
    ) -> Stage:
        """A running arm at a pose, held there by nothing; its log is :attr:`log`."""
        self.ports = {"front": free_port()} if cameras else {}
        stage = Stage(
            self.link, cameras=self.ports, faults=faults, log=self.log, width=WIDTH, height=HEIGHT, fps=fps, **more
        )
        stage.start()
        self.stages.append(stage)
        write_calibration(self.folder / "calibration")
        if at is not None:
            stage.take("still", at)  # a hand holds it until somebody has switched torque on
        return stage

    def rig(self, fps: int = 10, safety: dict[str, Any] | None = None, camera_fps: float = 10.0, **arm: Any) -> Rig:
        """The rig of the running stage."""
        port = self.ports.get("front", 1)
        options = {"server_address": "127.0.0.1", "port": port, "camera_name": "front", "timeout_ms": 500}
        return Rig(
            name="bench",
            fps=fps,
            arm=ArmConfig(
                type="so101_follower",
                port=str(self.link),
                id="emulated",
                calibration_dir=str(self.folder / "calibration"),
                rest=tuple(float(q) for q in RESTING),
                **{"reply_ms": 50.0, **arm},
            ),
            limits=LimitsConfig(velocity_deg_s=300.0, acceleration_deg_s2=3000.0),
            safety=SafetyConfig(**{"stall_s": 3.0, **(safety or {})}),
            cameras={"front": CameraConfig("zmq", WIDTH, HEIGHT, camera_fps, options=options)},
        )

    def follower(self, rig: Rig | None = None, **more: Any) -> Follower:
        """A connected arm whose torque is on where it is."""
        follower = Follower(rig or self.rig(), faults=self.folder / "faults", **more)
        follower.connect()
        follower.prepare()
        for stage in self.stages:
            stage.let_go()
        return follower

    def spec(self, rig: Rig, **more: Any) -> SessionSpec:
        """A short session into ``walk``."""
        values: dict[str, Any] = {
            "out": self.folder / "walk",
            "rig": rig,
            "policy_source": "ou",
            "envelope": slow_envelope(),
            "episodes": 1,
            "episode_s": 2.0,
            "seed": 5,
        }
        return SessionSpec(**{**values, **more})

    def close(self) -> None:
        while self.stages:
            self.stages.pop().close()


def slow_envelope() -> Envelope:
    """The shipped envelope with a third of its scale: short ways."""
    whole = load_envelope("so101-tabletop")
    return dataclasses.replace(whole, scale=whole.scale / 3)


@pytest.fixture(autouse=True)
def _short_look_at_cameras(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(real, "examine_cameras", functools.partial(examine_cameras, watch_s=0.8))


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path, [])
    yield made
    made.close()


class Quiet:
    """A report that remembers."""

    def __init__(self) -> None:
        self.saved_records: list[dict[str, Any]] = []
        self.reasons: list[str] = []

    def started(self, walk_index: int, frames: int) -> None:
        pass

    def advanced(self, walk_index: int, frames: int) -> None:
        pass

    def saved(self, walk_index: int, record: dict[str, Any]) -> None:
        self.saved_records.append(record)

    def failed(self, walk_index: int, reason: str) -> None:
        self.reasons.append(reason)


@pytest.fixture
def quiet() -> Quiet:
    return Quiet()


def let_go_at_torque(bench: Bench) -> Callable[[], None]:
    """For a session's ``before_motion``: the hand lets go as the arm takes over."""
    return lambda: [stage.let_go() for stage in bench.stages] and None
