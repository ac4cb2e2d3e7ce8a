"""``so101walk compare``."""

import json


def test_the_studys_table(so101walk, tmp_path):
    done = so101walk("compare", "study:w1", "study:w2", "--bars", "study", "--out", tmp_path / "table.md")
    assert done.code == 0
    for words in ("0.565", "0.867", "0.639", "0.301", "wrist flex", "exploratory (met)"):
        assert words in done.out
    assert "| mean R^2 | 0.565 | 0.867 |" in (tmp_path / "table.md").read_text()


def test_json_and_markdown(so101walk):
    told = json.loads(so101walk("compare", "study:w1", "study:w2", "--json").out)
    assert [run["mean_r2"] for run in told["runs"]] == [0.565, 0.867]
    assert told["verdicts"] == []
    assert so101walk("compare", "study:w1", "study:w2", "--markdown").out.startswith("| | W1")


def test_one_run_or_no_run_is_told(so101walk):
    done = so101walk("compare", "study:w1")
    assert (done.code, "at least two" in done.err) == (2, True)
    done = so101walk("compare", "study:w1", "runs/none")
    assert (done.code, "is not a run" in done.err) == (2, True)
