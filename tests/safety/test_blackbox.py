"""What is kept, for how long, and how it is written."""

from pathlib import Path

from so101walk.safety.blackbox import BlackBox


def test_the_last_ten_seconds_are_kept(tmp_path: Path) -> None:
    box = BlackBox(tmp_path / "faults")
    for k in range(300):
        box.note(k * 100_000_000, ">" if k % 2 else "<", bytes([255, 255, k % 256]))
    rows = box.rows()
    assert rows[0][0] == 199 * 100_000_000
    assert rows[-1][0] == 299 * 100_000_000
    box.note(rows[-1][0], "#", b"stop (overload): it hurts")
    path = box.dump("elbow_flex: overload\nsecond line")
    assert path is not None
    lines = path.read_text().splitlines()
    assert lines[:2] == ["# elbow_flex: overload", "# second line"]
    assert lines[3] == "-10.000000 > ff ff c7"
    assert lines[-1] == "+0.000000 # stop (overload): it hurts"
    assert len(lines) == 3 + 102
    assert [p for p in (tmp_path / "faults").iterdir()] == [path]


def test_a_place_that_can_not_be_written_is_no_second_fault(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    assert BlackBox(tmp_path / "file").dump("why") is None
    assert BlackBox(None).dump("why") is None
    assert BlackBox(tmp_path / "empty").dump("nothing was said") is not None
