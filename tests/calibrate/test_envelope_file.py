import os

import pytest

from so101walk.calibrate.envelope_file import envelope_toml, may_write, write_envelope
from so101walk.envelope import Envelope, load_envelope
from so101walk.errors import UsageError
from so101walk.scene.clearance import ClearanceConfig, KeepOut

BOXED = Envelope(
    "boxed", [0.0, -32.78, 1, 2, 3, 50], [32.92, 19.92, 1.5, 2.25, 1e-3, 14], [-104.99, -95, -90, -90, -150, 5],
    [105, 95.5, 91.83, 90, 152.21, 95], ClearanceConfig(0.02, 0.0125, (
        KeepOut("shelf", (0.1, -0.2, 0.3), (1.0, 0.5, 0.02)), KeepOut("wall", (0.0, 0.5, 0.0), (1.0, 0.1, 1.0)))),
)  # fmt: skip


def test_what_is_written_reads_back_the_same(tmp_path):
    path = tmp_path / "new" / "boxed.toml"
    write_envelope(path, envelope_toml(BOXED, ["a note", "", "another"]))
    assert load_envelope(path).digest == BOXED.digest
    assert path.read_text().startswith("# a note\n#\n# another\n")
    assert os.listdir(path.parent) == ["boxed.toml"]


def test_the_shipped_file_is_in_the_form_that_is_written():
    shipped = load_envelope("so101-tabletop")
    from so101walk.config import data_dir

    text = (data_dir("calibration") / "so101-tabletop.toml").read_text()
    assert text.endswith(envelope_toml(shipped))
    assert "so101walk calibrate envelope" in text.splitlines()[1]


def test_a_file_that_exists_is_not_replaced_unless_forced(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text("precious")
    with pytest.raises(UsageError, match="exists; give --force to replace it, or another --out"):
        may_write(path, force=False)
    may_write(path, force=True)
    may_write(tmp_path / "new" / "folder" / "mine.toml", force=False)


def test_a_folder_that_is_a_file_is_refused_before_the_work(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="can't be written"):
        may_write(tmp_path / "file" / "mine.toml", force=False)


def test_a_write_that_fails_leaves_the_old_file(tmp_path):
    path = tmp_path / "mine.toml"
    path.mkdir()
    with pytest.raises(UsageError, match="can't be written: Is a directory"):
        write_envelope(path, "text")
    assert os.listdir(tmp_path) == ["mine.toml"]
