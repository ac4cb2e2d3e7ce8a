"""The whole stage: processes, terminal, cameras, log."""

import base64
import json
import os
import signal
import socket
import subprocess
import sys
import time

import cv2
import numpy as np
import pytest
import serial
import zmq

from so101walk.emulator import strip
from so101walk.emulator.bus import BROADCAST, Instruction, Splitter, packet_bytes
from so101walk.emulator.faults import Fault
from so101walk.emulator.log import read_log
from so101walk.emulator.picture import Pictures
from so101walk.emulator.stage import Stage
from so101walk.errors import UsageError

ALL_SIX = bytes([56, 2, 1, 2, 3, 4, 5, 6])


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def ask(client, ident, instruction, params=b"", replies=1):
    splitter, packets = Splitter(), []
    client.write(packet_bytes(ident, instruction, params))
    stop = time.monotonic() + 5
    while len(packets) < replies and time.monotonic() < stop:
        packets += splitter.feed(client.read(client.in_waiting or 1))
    return packets


def images(port, seconds):
    """(JPEG bytes, image) as they come, through the sockets that ZMQCamera would use."""
    context = zmq.Context()
    reader = context.socket(zmq.SUB)
    reader.setsockopt_string(zmq.SUBSCRIBE, "")
    reader.connect(f"tcp://127.0.0.1:{port}")
    got, stop = [], time.monotonic() + seconds
    while time.monotonic() < stop:
        if reader.poll(100):
            (coded,) = json.loads(reader.recv_string())["images"].values()
            jpeg = base64.b64decode(coded)
            got.append((jpeg, cv2.imdecode(np.frombuffer(jpeg, np.uint8), cv2.IMREAD_COLOR)))
    reader.close(0)
    context.term()
    return got


def test_bus_cameras_and_log_tell_one_story(tmp_path):
    ports = {"front": free_port(), "wrist": free_port()}
    with Stage(tmp_path / "arm", cameras=ports, log=tmp_path / "log.h5", gesture="sway", fps=15.0) as stage:
        with serial.Serial(str(stage.link), 1_000_000, timeout=1) as client:
            shown = [int.from_bytes(p.params, "little") for p in ask(client, BROADCAST, 0x82, ALL_SIX, 6)]
            read_ns = time.perf_counter_ns()
            ask(client, 2, Instruction.WRITE, b"\x28\x01")
            assert stage.state().torque == (False, True, False, False, False, False)
        seen = images(ports["front"], 2.5)
        stage.strike(Fault("freeze_camera", at_s=0.0, camera="front", count=8))
        frozen = images(ports["front"], 2.0)
    assert not os.path.lexists(tmp_path / "arm")
    truth = read_log(tmp_path / "log.h5")

    # the registers showed where the arm truly was: within a tick and what it moved in 100 ms at 25 deg/s
    np.testing.assert_allclose(
        (np.array(shown) - 2047) * 360 / 4095, np.degrees(rad_about_middle(truth, read_ns)), atol=3.0
    )
    # each image is the arm at the time that the log gives for its number, and at no other
    serials = [strip.read(image) for _, image in seen]
    assert None not in serials
    assert len(serials) > 10
    assert serials == sorted(set(serials))
    pictures = Pictures(["front", "wrist"], 320, 240)
    logged = truth.cameras["front"]
    offsets_ms = [-90, -60, -30, 0, 30, 60, 90]
    total = np.zeros(len(offsets_ms))
    for serial_number, (_, image) in list(zip(serials, seen, strict=True))[3:-3:4]:
        at = logged.rendered_ns(serial_number)
        total += [difference(pictures, truth, at + ms * 1_000_000, image) for ms in offsets_ms]
    assert offsets_ms[int(total.argmin())] == 0
    # the frozen camera repeated one image's bytes, and the log says so
    assert int(logged.repeated.sum()) == 8
    runs = [jpeg for jpeg, _ in frozen]
    assert max(runs.count(jpeg) for jpeg in set(runs)) >= 8
    assert [text for _, text in truth.events if "held" not in text] == ["freeze_camera camera=front count=8"]
    assert truth.torque[-1, 1] == 1


def rad_about_middle(truth, t_ns):
    from so101walk.joints import MODEL_RANGE_RAD

    i = int(np.searchsorted(truth.t_ns, t_ns))
    return truth.rad[i] - MODEL_RANGE_RAD.mean(axis=1)


def difference(pictures, truth, t_ns, image):
    i = int(np.clip(np.searchsorted(truth.t_ns, t_ns), 0, len(truth.t_ns) - 1))
    drawn = pictures.of("front", truth.rad[i])[8:].astype(int)
    return np.abs(drawn - image[8:]).mean()


def test_two_stages_in_one_program_show_each_its_own_arm(tmp_path):
    port = free_port()
    with (
        Stage(tmp_path / "leader", gesture="sweep") as leader,
        Stage(tmp_path / "arm", cameras={"front": port}, gesture="still", width=128, height=96) as arm,
    ):
        before, seen, after = arm.state().q, images(port, 2.0), arm.state().q
        swept = leader.state().q_s
    assert np.abs(swept).max() > 1.0
    np.testing.assert_allclose(before, after, atol=0.1)
    shown = [image[8:].astype(int) for _, image in seen]
    assert max(np.abs(image - shown[0]).mean() for image in shown) < 1.0


def test_latency_is_added_on_the_way(tmp_path):
    port = free_port()
    with Stage(
        tmp_path / "arm", cameras={"front": port}, log=tmp_path / "log.h5", latency_ms=150.0, width=128, height=96
    ):
        assert images(port, 1.0)
    logged = read_log(tmp_path / "log.h5").cameras["front"]
    late_ms = (logged.published_ns - logged.t_ns) / 1e6
    assert late_ms.min() >= 150
    assert np.median(late_ms) < 250


def test_eeprom_outlives_the_stage(tmp_path):
    for expected in (32, 16):
        with (
            Stage(tmp_path / "arm", eeprom=tmp_path / "eeprom.json") as stage,
            serial.Serial(str(stage.link), 1_000_000, timeout=1) as client,
        ):
            assert ask(client, 3, Instruction.READ, b"\x15\x01")[0].params == bytes([expected])
            ask(client, 3, Instruction.WRITE, b"\x37\x00")
            ask(client, 3, Instruction.WRITE, b"\x15\x10")
            assert stage.state().register("elbow_flex", "P_Coefficient") == 16


def test_a_taken_port_and_a_bad_link_are_refused(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(UsageError, match=r"camera front: port \d+ can't be used"):
            Stage(tmp_path / "arm", cameras={"front": taken.getsockname()[1]}).start()
    assert not os.path.lexists(tmp_path / "arm")
    with pytest.raises(UsageError, match="can't be made"):
        Stage(tmp_path / "no" / "arm").start()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_the_command_leaves_nothing_behind(tmp_path, number):
    port = free_port()
    process = subprocess.Popen(
        [
            *(sys.executable, "-c", "from so101walk.cli.emulate import command; command()", "--json"),
            *("--link", str(tmp_path / "arm"), "--log", str(tmp_path / "log.h5"), "--calibration", str(tmp_path / "c")),
            *("--camera", f"front={port}", "--size", "128x96"),
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    told = json.loads(process.stdout.readline())
    assert told["link"] == str(tmp_path / "arm")
    assert told["cameras"] == {"front": f"tcp://127.0.0.1:{port}"}
    assert os.readlink(tmp_path / "arm") == told["tty"]
    assert (tmp_path / "c" / "emulated.json").exists()
    process.send_signal(number)
    code = process.wait(20)
    stop = time.monotonic() + 10
    while os.path.lexists(tmp_path / "arm") and time.monotonic() < stop:
        time.sleep(0.05)
    assert not os.path.lexists(tmp_path / "arm")
    if number != signal.SIGKILL:
        assert code == 0
        assert len(read_log(tmp_path / "log.h5").t_ns) > 0
