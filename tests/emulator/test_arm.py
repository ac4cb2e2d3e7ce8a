"""The arm's loop, in this process: bytes on the terminal in, bytes out, faults at their time."""

import multiprocessing as mp
import os
import time

import numpy as np
import pytest
import serial

from so101walk.emulator.arm import ArmConfig, ArmLoop
from so101walk.emulator.bus import BROADCAST, Instruction, Splitter, packet_bytes
from so101walk.emulator.faults import Fault
from so101walk.emulator.pose import SharedPose

ALL_SIX = bytes([56, 2, 1, 2, 3, 4, 5, 6])


class Rig:
    """A loop, a client on its terminal, and what it sent to the stage."""

    def __init__(self, folder, **config):
        self.sent, self.to_cameras = [], []
        self.pose = SharedPose()
        self.loop = ArmLoop(ArmConfig(folder / "arm", **config), self.sent.append, self.to_cameras.append, self.pose)
        self.control, self.end = mp.Pipe()
        self.client = serial.Serial(str(folder / "arm"), 1_000_000, timeout=0)

    def run(self, seconds):
        stop = time.perf_counter() + seconds
        while time.perf_counter() < stop:
            assert self.loop.turn(self.end)

    def ask(self, ident, instruction, params=b"", patience_s=2.0):
        """What comes back until the loop has had time to say all of it, or has said nothing for ``patience_s``."""
        self.client.write(packet_bytes(ident, instruction, params))
        self.client.flush()
        stop = time.perf_counter() + patience_s
        self.run(0.01)
        while not self.client.in_waiting and time.perf_counter() < stop:
            self.run(0.005)
        return self.client.read(4096)

    def positions(self):
        return Splitter().feed(self.ask(BROADCAST, Instruction.SYNC_READ, ALL_SIX))

    def close(self):
        self.client.close()
        self.loop.close()


@pytest.fixture
def rig(tmp_path, request):
    rig = Rig(tmp_path, **getattr(request, "param", {}))
    yield rig
    rig.close()


def faulty(*faults):
    return pytest.mark.parametrize("rig", [{"faults": faults}], indirect=True)


def test_six_positions_are_the_bodys(rig):
    packets = rig.positions()
    assert [p.ident for p in packets] == [1, 2, 3, 4, 5, 6]
    shown = [int.from_bytes(p.params, "little") for p in packets]
    assert shown == [s.get("Present_Position") for s in rig.loop.servos]


def test_the_pose_is_published_with_its_time(rig):
    rig.run(0.05)
    now = rig.pose.read()
    assert abs(time.perf_counter_ns() - now.t_ns) < 50_000_000
    np.testing.assert_allclose(now.rad, rig.loop.body.rad, atol=0.01)


def test_arms_time_keeps_up_with_the_clock(rig):
    first = rig.pose.read().t_ns
    start = time.perf_counter_ns()
    rig.run(0.5)
    moved = rig.pose.read().t_ns - max(first, rig.loop.start_ns)
    held_up = sum(1 for m in rig.sent if m[0] == "event")
    assert held_up or moved == pytest.approx(time.perf_counter_ns() - start, abs=60e6)


@faulty(Fault("drop", at_tick=3, motor="elbow_flex", count=1))
def test_a_fault_at_a_tick_hits_that_reply(rig):
    counts = [len(rig.positions()) for _ in range(5)]
    assert counts == [6, 6, 5, 6, 6]
    assert next(m[2] for m in rig.sent if m[0] == "event").startswith("drop")


@faulty(Fault("corrupt", at_tick=1, motor="gripper", count=2))
def test_corrupt_replies_fail_their_checksum(rig):
    assert [len(rig.positions()) for _ in range(3)] == [5, 5, 6]


@faulty(Fault("delay", at_tick=1, delay_ms=80.0))
def test_a_late_reply_comes_late_and_whole(rig):
    start = time.perf_counter()
    assert len(Splitter().feed(rig.ask(BROADCAST, Instruction.SYNC_READ, ALL_SIX))) == 6
    assert time.perf_counter() - start >= 0.08


@faulty(Fault("overload", at_s=0.0, since="torque", motor="shoulder_lift"))
def test_since_torque_waits_for_torque(rig):
    rig.run(0.05)
    assert rig.loop.servos[1].status == 0
    assert rig.ask(2, Instruction.WRITE, b"\x28\x01")
    assert rig.ask(2, Instruction.WRITE, b"\x28\x00") == packet_bytes(2, 0x20)
    assert rig.loop.servos[1].torque_on


@faulty(Fault("drop_camera", at_s=0.0, camera="front"))
def test_camera_faults_are_passed_on(rig):
    rig.run(0.02)
    assert [f.kind for f in rig.to_cameras] == ["drop_camera"]


@faulty(Fault("hangup", at_s=0.0, duration_s=0.2))
def test_hang_up_and_back(rig, tmp_path):
    rig.run(0.05)
    assert not os.path.lexists(tmp_path / "arm")
    with pytest.raises(OSError):  # SerialException is one; its text is the kernel's
        rig.client.read(1)
    rig.run(0.4)
    with serial.Serial(str(tmp_path / "arm"), 1_000_000, timeout=0) as rig.client:
        assert rig.ask(1, Instruction.PING) == packet_bytes(1, 0)


@pytest.mark.parametrize("rig", [{"supply_v": 12.0}], indirect=True)
def test_the_wrong_supply_is_a_voltage_error(rig):
    rig.run(0.02)
    assert rig.ask(1, Instruction.PING) == packet_bytes(1, 0x01)


def test_eeprom_changes_are_sent(rig):
    rig.ask(1, Instruction.WRITE, b"\x37\x00")
    rig.ask(1, Instruction.WRITE, b"\x15\x10")
    stored = [m[1] for m in rig.sent if m[0] == "eeprom"]
    assert stored
    assert stored[-1][0][21] == 16


@pytest.mark.parametrize("rig", [{"logged": True}], indirect=True)
def test_the_log_has_a_row_a_millisecond_and_every_instruction(rig):
    rig.ask(1, Instruction.PING)
    rig.ask(1, Instruction.WRITE, b"\x28\x01")
    rig.run(0.3)
    rig.positions()
    rig.loop.close()
    joints = [m for m in rig.sent if m[0] == "joints"]
    t_ns = np.concatenate([m[1] for m in joints])
    torque = np.concatenate([m[3][:, 0] for m in joints])
    assert len(t_ns) > 200
    assert (np.diff(t_ns) == 1_000_000).mean() > 0.99
    assert torque[0].sum() == 0
    assert torque[-1].tolist() == [1, 0, 0, 0, 0, 0]
    bus = np.concatenate([m[1] for m in rig.sent if m[0] == "bus"])
    assert bus[:, 3].tolist() == [Instruction.PING, Instruction.WRITE, Instruction.SYNC_READ]
    assert bus[:, 4:7].tolist() == [[-1, 0, 1], [40, 1, 1], [56, 2, 6]]
    assert np.all(bus[:, 1] >= bus[:, 0])


def test_the_stages_orders(rig):
    rig.control.send(("place", np.zeros(6)))
    rig.control.send(("hand", "still", np.full(6, 0.1)))
    rig.control.send(("fault", Fault("reboot", at_s=9.0, motor="gripper")))
    rig.control.send(("state", 5))
    rig.run(0.1)
    kind, token, state = next(m for m in rig.sent if m[0] == "state")
    assert (kind, token) == ("state", 5)
    np.testing.assert_allclose(state["rad"], 0.1, atol=1e-6)
    assert state["memory"].shape == (6, 87)
    rig.control.send(("stop",))
    time.sleep(0.01)
    assert not rig.loop.turn(rig.end)


def test_a_stage_that_is_gone_ends_it(rig):
    rig.control.close()
    assert not rig.loop.turn(rig.end)
