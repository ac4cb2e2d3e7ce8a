"""The report in a real browser: no error, no missing picture, nothing from a network."""

import json
import re
import shutil
import subprocess

import numpy as np
import pytest

from so101walk.probe import bars
from so101walk.probe.record import write_run
from so101walk.probe.report import worst_frames
from so101walk.probe.run import ProbeOptions, probe
from so101walk.probe.svg import Plot, nice_ticks

WATCH = """<script>
window.faults = [];
addEventListener('error', e => faults.push(e.message || e.target.outerHTML.slice(0, 80)), true);
addEventListener('load', () => {
  const images = [...document.images];
  const found = {
    faults, images: images.length, missing: images.filter(i => !(i.complete && i.naturalWidth > 0)).length,
    charts: document.querySelectorAll('svg[role=img]').length,
    empty: [...document.querySelectorAll('svg[role=img]')].filter(s => s.getBoundingClientRect().height < 20).length,
    wide: document.documentElement.scrollWidth > innerWidth,
    sections: [...document.querySelectorAll('h2')].map(h => h.textContent),
  };
  document.title = 'FOUND' + JSON.stringify(found) + 'END';
});
</script>"""


@pytest.fixture(scope="module")
def result(dataset):
    return probe(dataset, "pixels", ProbeOptions(val="4", bars=str(bars.find_bars("walk"))))


def _browser():
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    assert found, "this test needs Chromium: apt-get install chromium"
    return found


def test_the_report_opens_in_a_browser_without_a_fault(result, tmp_path):
    page = write_run(result, tmp_path / "run").read_text()
    watched = tmp_path / "watched.html"
    watched.write_text(page.replace("<head>", "<head>" + WATCH))
    done = subprocess.run(
        [_browser(), "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
         "--disable-component-update", "--disable-sync", "--no-first-run", f"--user-data-dir={tmp_path / 'profile'}",
         "--host-resolver-rules=MAP * ~NOTFOUND", "--enable-logging=stderr", "--virtual-time-budget=4000",
         "--window-size=1120,1000", "--dump-dom", watched.as_uri()],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    told = re.search(r"FOUND(\{.*?\})END", done.stdout)
    assert told, done.stderr[-2000:]
    found = json.loads(told.group(1).replace("&amp;", "&"))
    assert found["faults"] == []
    assert found["images"] == 2 * len(worst_frames(result))
    assert found["missing"] == 0
    assert found["charts"] == 1 + 6 + 1 + 1
    assert found["empty"] == 0
    assert not found["wide"]
    assert "CONSOLE" not in done.stderr
    assert found["sections"] == [
        "R² of each joint on held-out episodes",
        "Bars",
        "Checks that guard the number",
        "Predicted against true",
        "Joints shifted against images",
        "How much each joint moves",
        "Worst frames",
        "Other measures",
    ]


def test_the_report_asks_for_nothing_outside_of_it(result, tmp_path):
    page = write_run(result, tmp_path / "run").read_text()
    assert not re.search(r"https?://|//[a-z]|@import|url\(", page)
    assert all(
        source.startswith("data:image/")
        for source in re.findall(r'(?:src|href)="([^"]*)"', page.replace('href="data:,"', ""))
    )
    assert f"{result.linear.mean.value:.3f}" in page
    assert "exploratory" in page or "fail" in page


def test_predictions_are_kept_beside_the_report(result, tmp_path):
    write_run(result, tmp_path / "run")
    with np.load(tmp_path / "run" / "predictions.npz") as kept:
        error = ((kept["true"] - kept["predicted"]) ** 2).sum(axis=0)
        spread = ((kept["true"] - kept["true"].mean(axis=0)) ** 2).sum(axis=0)
    for j, figure in enumerate(result.linear.r2):
        assert 1 - error[j] / spread[j] == pytest.approx(figure.value, abs=1e-4)


def test_worst_frames_are_the_worst_and_apart(result):
    chosen = worst_frames(result)
    true = result.samples.q[result.val]
    error = (((result.predicted - true) / true.std(axis=0)) ** 2).mean(axis=1)
    assert chosen[0] == np.argmax(error)
    assert (np.diff(error[chosen]) <= 0).all()
    episode, frame = result.samples.episode[result.val][chosen], result.samples.frame[result.val][chosen]
    for i in range(len(chosen)):
        for k in range(i):
            assert episode[i] != episode[k] or abs(frame[i] - frame[k]) >= 30


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0, 1, [0, 0.2, 0.4, 0.6, 0.8, 1]),
        (-90, 90, [-50, 0, 50]),
        (0.31, 0.34, [0.31, 0.32, 0.33, 0.34]),
        (2, 2.1, [2, 2.02, 2.04, 2.06, 2.08, 2.1]),
    ],
)
def test_ticks_are_round_numbers(low, high, expected):
    assert nice_ticks(low, high) == pytest.approx(expected)


def test_words_in_a_chart_are_escaped():
    picture = Plot((0, 1), (0, 1), title="a < b & c").axes("x<y").dots([(0.5, 9.0)], note="<i>").svg("<b>")
    assert "a &lt; b &amp; c" in picture
    assert "<i>" not in picture
    assert "<b>" not in picture
