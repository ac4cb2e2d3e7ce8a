"""The EEPROM file."""

import pytest

from so101walk.emulator.assembly import calibrated_eeprom
from so101walk.emulator.eeprom import load_eeprom, save_eeprom
from so101walk.errors import ConfigError

STORED = tuple(calibrated_eeprom(i) for i in range(6))


def test_round_trip(tmp_path):
    path = tmp_path / "deep" / "eeprom.json"
    assert load_eeprom(path) is None
    save_eeprom(path, STORED)
    assert load_eeprom(path) == STORED
    assert [p.name for p in path.parent.iterdir()] == ["eeprom.json"]


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"shoulder_pan": 3}'])
def test_another_file_is_refused(tmp_path, text):
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match="isn't an EEPROM file"):
        load_eeprom(path)


def test_a_short_one_is_refused(tmp_path):
    path = tmp_path / "x.json"
    save_eeprom(path, (*STORED[:5], b"12"))
    with pytest.raises(ConfigError, match="gripper has 2 bytes of 40"):
        load_eeprom(path)
