"""``so101walk bars freeze``."""

import json

from so101walk.probe.bars import find_bars


def test_freeze_writes_a_ledger_beside_the_file(so101walk, tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text(find_bars("walk").read_text())
    done = so101walk("bars", "freeze", file, "--json")
    assert done.code == 0
    told = json.loads(done.out)
    assert told["new"]
    entry = json.loads((tmp_path / "mine.toml.ledger.jsonl").read_text())
    assert entry["frozen_s"] == told["frozen_s"]
    assert "was frozen already" in so101walk("bars", "freeze", file).out


def test_what_can_not_be_frozen_is_told(so101walk, tmp_path):
    assert so101walk("bars", "freeze", tmp_path / "no.toml").code == 2
    (tmp_path / "bad.toml").write_text('[[bar]]\nid="a"\nmetric="mean_r3"\nop="<"\nvalue=1\n')
    done = so101walk("bars", "freeze", tmp_path / "bad.toml")
    assert done.code == 2
    assert "did you mean 'mean_r2'" in done.err
