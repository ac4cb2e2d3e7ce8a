"""Bars: frozen in time or exploratory, whatever came out."""

import json
from pathlib import Path

import pytest

from so101walk.errors import ConfigError, So101WalkError, UsageError
from so101walk.probe import bars
from so101walk.probe.intervals import Interval

TEXT = """
[[bar]]
id = "R1"
metric = "mean_r2"
op = ">="
value = 0.8
why = "recovered whole"

[[bar]]
id = "R2"
metric = "anisotropy"
op = "<"
value = 0.2

[[bar]]
id = "L"
metric = "mean_r2.low"
op = ">"
value = 0.7
"""
FIGURES = {"mean_r2": Interval(0.85, 0.75, 0.9), "anisotropy": Interval(0.3, 0.25, 0.35)}


@pytest.fixture
def file(tmp_path) -> Path:
    path = tmp_path / "bars.toml"
    path.write_text(TEXT)
    return path


def test_verdicts_on_bars_that_were_frozen_before_the_latents(file):
    bars.freeze(file, 1000.0)
    found = bars.judge(file, FIGURES, 1001.0)
    assert [j.verdict for j in found] == ["pass", "fail", "pass"]
    assert [j.settled for j in found] == [False, True, None]
    assert found[0].note == "the interval spans the bar"
    assert found[2].found == 0.75


@pytest.mark.parametrize(
    ("made_s", "note"),
    [(999.0, "after the latents were made"), (1000.0, "after the latents"), (None, "isn't known when")],
)
def test_exploratory_when_frozen_too_late(file, made_s, note):
    bars.freeze(file, 1000.0)
    found = bars.judge(file, FIGURES, made_s)
    assert {j.verdict for j in found} == {"exploratory"}
    assert note in found[0].note
    assert [j.met for j in found] == [True, False, True]


def test_exploratory_when_never_frozen_or_changed_afterwards(file):
    assert "never frozen" in bars.judge(file, FIGURES, 5000.0)[0].note
    bars.freeze(file, 1000.0)
    file.write_text(TEXT.replace("0.8", "0.84"))
    found = bars.judge(file, FIGURES, 5000.0)
    assert {j.verdict for j in found} == {"exploratory"}
    assert "was changed after it was frozen" in found[0].note
    bars.freeze(file, 6000.0)
    assert {j.verdict for j in bars.judge(file, FIGURES, 5000.0)} == {"exploratory"}
    assert bars.judge(file, FIGURES, 6001.0)[0].verdict == "pass"


def test_freezing_again_keeps_the_first_time(file):
    assert bars.freeze(file, 1000.0) == (1000.0, True)
    assert bars.freeze(file, 2000.0) == (1000.0, False)
    assert bars.frozen_at(file) == 1000.0
    assert len(Path(f"{file}.ledger.jsonl").read_text().splitlines()) == 1


def test_a_ledger_that_was_altered_is_refused(file):
    bars.freeze(file, 1000.0)
    file.write_text(TEXT.replace("0.8", "0.9"))
    bars.freeze(file, 2000.0)
    ledger = Path(f"{file}.ledger.jsonl")
    lines = ledger.read_text().splitlines()
    first = json.loads(lines[0])
    first["frozen_s"] = 1.0
    ledger.write_text("\n".join([json.dumps(first), lines[1]]) + "\n")
    with pytest.raises(So101WalkError, match="was altered"):
        bars.judge(file, FIGURES, 5000.0)
    ledger.write_text(lines[1] + "\n")
    with pytest.raises(So101WalkError, match="was altered"):
        bars.freeze(file)
    ledger.write_text("nonsense\n")
    with pytest.raises(So101WalkError, match="line 1 is no entry"):
        bars.frozen_at(file)


def test_what_was_not_measured_is_unknown(file):
    file.write_text(
        '[[bar]]\nid="a"\nmetric="rank_top1"\nop=">"\nvalue=0.5\n'
        '[[bar]]\nid="b"\nmetric="difference.mean_r2.low"\nop=">"\nvalue=0\n'
        '[[bar]]\nid="c"\nmetric="mean_r2.low"\nop=">"\nvalue=0\n'
    )
    found = bars.judge(file, {"mean_r2": Interval(0.5, None, None)}, 1.0)
    assert {j.verdict for j in found} == {"unknown"}
    assert [j.note for j in found] == ["not measured", "needs two runs: so101walk compare", "has no interval"]


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('"mean_r2"', '"maen_r2"', "did you mean 'mean_r2'"),
        ('">="', '"=>"', "op is '=>'"),
        ("value = 0.2", 'value = "low"', "must be a number"),
        ("value = 0.2", "value = nan", "isn't a number"),
        ('id = "R2"', 'id = "R1"', "same id"),
        ("why", "wy", "unknown key 'wy'"),
        ("[[bar]]", "[[bars]]", "unknown key 'bars'"),
    ],
)
def test_a_bars_file_with_a_fault_is_told(file, old, new, told):
    file.write_text(TEXT.replace(old, new))
    with pytest.raises(ConfigError, match=told):
        bars.freeze(file)
    assert not Path(f"{file}.ledger.jsonl").exists()


def test_an_empty_or_missing_file_is_told(tmp_path):
    (tmp_path / "empty.toml").write_text("bar = []\n")
    with pytest.raises(ConfigError, match="at least one"):
        bars.load_bars(tmp_path / "empty.toml")
    with pytest.raises(UsageError, match="did you mean 'study'"):
        bars.find_bars("studdy")


@pytest.mark.parametrize("name", ["study", "walk"])
def test_shipped_bars_are_frozen_as_they_are(name):
    path = bars.find_bars(name)
    assert bars.frozen_at(path) is not None
    stated = {b.id: (b.metric, b.op, b.value) for b in bars.load_bars(path).bar}
    expected = {
        "study": {
            "B1": ("mean_r2", "<", 0.8),
            "B2": ("anisotropy", ">=", 0.2),
            "B3": ("rank_follows_r2", "==", 1.0),
        },
        "walk": {
            "R1": ("mean_r2", ">=", 0.8),
            "R2": ("anisotropy", "<", 0.2),
            "R3": ("difference.mean_r2.low", ">", 0.0),
        },
    }
    assert stated == expected[name]
