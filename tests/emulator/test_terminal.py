"""The terminal: link, raw bytes, hang-up."""

import os

import pytest
import serial

from so101walk.emulator.terminal import Terminal
from so101walk.errors import UsageError

ALL_BYTES = bytes(range(256))


def wait_for(read, count):
    got = b""
    for _ in range(2000):
        got += read()
        if len(got) >= count:
            return got
        os.sched_yield()
    return got


def test_bytes_pass_unchanged_both_ways_at_a_megabaud(tmp_path):
    terminal = Terminal(tmp_path / "arm")
    client = serial.Serial(str(tmp_path / "arm"), 1_000_000, timeout=2)
    client.write(ALL_BYTES)
    client.flush()
    assert wait_for(terminal.read, 256) == ALL_BYTES
    assert terminal.read() == b""
    terminal.write(ALL_BYTES)
    assert client.read(256) == ALL_BYTES
    client.close()
    terminal.close()
    assert not os.path.lexists(tmp_path / "arm")


def test_a_client_may_come_again(tmp_path):
    terminal = Terminal(tmp_path / "arm")
    for _ in range(2):
        with serial.Serial(str(tmp_path / "arm"), 1_000_000, timeout=2) as client:
            client.write(b"abc")
            client.flush()
            assert wait_for(terminal.read, 3) == b"abc"
    terminal.close()


def test_hang_up_is_seen_by_the_client_and_can_be_undone(tmp_path):
    terminal = Terminal(tmp_path / "arm")
    client = serial.Serial(str(tmp_path / "arm"), 1_000_000, timeout=0.5)
    terminal.hang_up()
    assert terminal.fd == -1
    assert not os.path.lexists(tmp_path / "arm")
    with pytest.raises(OSError):  # SerialException is one; its text is the kernel's
        client.read(1)
    terminal.open()
    with serial.Serial(str(tmp_path / "arm"), 1_000_000, timeout=2) as again:
        terminal.write(b"x")
        assert again.read(1) == b"x"
    terminal.close()


def test_what_nobody_reads_is_lost_not_blocking(tmp_path):
    terminal = Terminal(tmp_path / "arm")
    for _ in range(200):
        terminal.write(ALL_BYTES)
    with serial.Serial(str(tmp_path / "arm"), 1_000_000, timeout=2) as client:
        client.reset_input_buffer()
        terminal.write(b"new")
        assert client.read(3) == b"new"
    terminal.close()


def test_a_stale_link_is_replaced_and_a_file_is_not(tmp_path):
    link = tmp_path / "arm"
    link.symlink_to("/nowhere")
    Terminal(link).close()
    link.write_text("precious")
    with pytest.raises(UsageError, match="isn't a link"):
        Terminal(link)
    assert link.read_text() == "precious"


def test_a_folder_that_isnt_there(tmp_path):
    with pytest.raises(UsageError, match="can't be made"):
        Terminal(tmp_path / "no" / "arm")


def test_closing_leaves_another_emulators_link(tmp_path):
    first, second = Terminal(tmp_path / "arm"), Terminal(tmp_path / "arm")
    first.close()
    assert os.readlink(tmp_path / "arm") == second.tty
    second.close()
