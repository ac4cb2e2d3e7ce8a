"""Packets in, replies out."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from so101walk.emulator.bus import BROADCAST, Bus, Instruction, Packet, Splitter, packet_bytes
from so101walk.emulator.servo import Servo

PACKETS = st.builds(
    Packet,
    st.integers(0, 0xFE).filter(lambda i: i != 0xFF),
    st.integers(0, 255),
    st.binary(max_size=60),
)


@pytest.fixture
def bus():
    servos = [Servo(i + 1) for i in range(6)]
    for i, servo in enumerate(servos):
        servo.raw_ticks = 1000.0 + i
    return Bus(servos)


def wire(packet):
    return packet_bytes(packet.ident, packet.instruction, packet.params)


def ask(bus, ident, instruction, params=b""):
    return [r.data for r in bus.answer(Packet(ident, instruction, params))]


@settings(max_examples=60)
@given(st.lists(PACKETS, max_size=5), st.integers(1, 9))
def test_a_stream_in_any_portions_gives_its_packets(packets, portion):
    splitter = Splitter()
    stream = b"".join(wire(p) for p in packets)
    got = [p for i in range(0, len(stream), portion) for p in splitter.feed(stream[i : i + portion])]
    assert got == packets
    assert splitter.rejected == 0


@given(st.binary(max_size=40).filter(lambda b: b"\xff" not in b), PACKETS)
def test_noise_before_a_packet_is_skipped(noise, packet):
    assert Splitter().feed(noise + wire(packet)) == [packet]


def test_a_wrong_checksum_is_dropped_and_counted():
    splitter = Splitter()
    good = Packet(1, Instruction.PING, b"")
    bad = bytearray(wire(Packet(2, Instruction.READ, b"\x38\x02")))
    bad[-1] ^= 1
    assert splitter.feed(bytes(bad) + wire(good)) == [good]
    assert splitter.rejected == 1


def test_known_bytes():
    assert packet_bytes(1, Instruction.PING) == bytes.fromhex("ffff010201fb")
    assert packet_bytes(3, Instruction.READ, b"\x38\x01") == bytes.fromhex("ffff03040238 01bd".replace(" ", ""))


def test_ping_and_broadcast_ping(bus):
    assert ask(bus, 2, Instruction.PING) == [packet_bytes(2, 0)]
    assert ask(bus, BROADCAST, Instruction.PING) == [packet_bytes(i, 0) for i in range(1, 7)]
    assert ask(bus, 9, Instruction.PING) == []


def test_read_and_write(bus):
    assert ask(bus, 1, Instruction.READ, b"\x03\x02") == [packet_bytes(1, 0, b"\x09\x03")]
    assert ask(bus, 1, Instruction.WRITE, b"\x28\x01") == [packet_bytes(1, 0)]
    assert bus.servos[0].torque_on


def test_sync_read_answers_in_the_order_asked(bus):
    got = ask(bus, BROADCAST, Instruction.SYNC_READ, bytes([56, 2, 3, 1, 8]))
    assert got == [packet_bytes(3, 0, (1002).to_bytes(2, "little")), packet_bytes(1, 0, (1000).to_bytes(2, "little"))]


def test_sync_write_reaches_each_and_answers_nothing(bus):
    params = bytes([42, 2, 1]) + (1500).to_bytes(2, "little") + bytes([6]) + (1600).to_bytes(2, "little")
    assert ask(bus, BROADCAST, Instruction.SYNC_WRITE, params) == []
    assert [s.get("Goal_Position") for s in bus.servos] == [1500, 0, 0, 0, 0, 1600]
    assert [s.torque_on for s in bus.servos] == [True, False, False, False, False, True]


def test_reg_write_waits_for_action(bus):
    assert ask(bus, 2, Instruction.REG_WRITE, b"\x2a\xdc\x05") == [packet_bytes(2, 0)]
    assert not bus.servos[1].torque_on
    assert ask(bus, BROADCAST, Instruction.ACTION) == []
    assert bus.servos[1].get("Goal_Position") == 1500
    bus.servos[1].put("Goal_Position", 7)
    ask(bus, 2, Instruction.ACTION)
    assert bus.servos[1].get("Goal_Position") == 7


def test_broadcast_write_reaches_all_and_answers_nothing(bus):
    assert ask(bus, BROADCAST, Instruction.WRITE, b"\x28\x01") == []
    assert all(s.torque_on for s in bus.servos)


def test_error_bits_are_in_every_reply(bus):
    bus.servos[2].overload()
    assert ask(bus, 3, Instruction.WRITE, b"\x28\x01") == [packet_bytes(3, 0x20)]
    assert ask(bus, BROADCAST, Instruction.SYNC_READ, bytes([65, 1, 3]))[0][4:6] == b"\x20\x20"


def test_a_deaf_servo_neither_hears_nor_speaks(bus):
    bus.servos[0].deaf = True
    assert ask(bus, 1, Instruction.PING) == []
    ask(bus, BROADCAST, Instruction.SYNC_WRITE, bytes([40, 1, 1, 1, 2, 1]))
    assert not bus.servos[0].torque_on
    assert bus.servos[1].torque_on


def test_response_level_0_answers_only_reads(bus):
    bus.servos[0].put("Response_Status_Level", 0)
    assert ask(bus, 1, Instruction.WRITE, b"\x28\x01") == []
    assert len(ask(bus, 1, Instruction.READ, b"\x28\x01")) == 1


def test_recovery_and_reboot(bus):
    bus.servos[0].put("Lock", 0)
    bus.servos[0].put("P_Coefficient", 5)
    assert ask(bus, 1, Instruction.RECOVERY) == [packet_bytes(1, 0)]
    assert bus.servos[0].get("P_Coefficient") == 32
    bus.servos[0].put("Torque_Enable", 1)
    ask(bus, 1, Instruction.REBOOT)
    assert not bus.servos[0].torque_on


@given(PACKETS)
def test_no_packet_upsets_it(packet):
    for reply in Bus([Servo(i + 1) for i in range(6)]).answer(packet):
        assert reply.data.startswith(b"\xff\xff")
