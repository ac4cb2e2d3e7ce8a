import numpy as np
import pytest

from so101walk.dataset.check_timing import EpisodeTiming, check_timing, timing_report

from .planted import FPS, episodes


class Dataset30:
    fps = FPS


def measured(change=None, frames=300):
    (c,) = episodes(1, frames)
    if change is not None:
        change(c)
    timing = EpisodeTiming.measure(c, FPS)
    return timing, check_timing(Dataset30, 0, timing)


def wall(intervals_s):
    return np.concatenate([[0], np.cumsum(np.asarray(intervals_s) * 1e9)]).astype(np.int64)


def test_a_sound_walk_is_in_time():
    timing, findings = measured()
    assert findings == []
    assert timing.cadence_error == pytest.approx(0.0, abs=1e-5)
    assert timing.gaps == ()
    assert timing.seconds == pytest.approx(299 / FPS, abs=1e-3)


def test_reads_of_45_ms_compress_time_by_26_percent():
    def slow(c):
        c["sync.wall_ns"] = wall(np.full(299, 0.045))

    timing, (finding,) = measured(slow)
    assert (finding.code, finding.severity, finding.episode) == ("timing.cadence", "error", 0)
    assert "frames are 45.0 ms apart where 30 fps means 33.3 ms: time is compressed by 25.9%" in finding.message
    assert timing.gaps == ()


def test_one_pause_of_400_ms_is_one_gap_with_its_row():
    def pause(c):
        intervals = np.full(299, 1 / FPS)
        intervals[122] = 0.4
        c["sync.wall_ns"] = wall(intervals)

    timing, (finding,) = measured(pause)
    assert (finding.code, finding.severity) == ("timing.gap", "error")
    assert finding.message == "400 ms pass between rows 122 and 123, where 30 fps means 33.3"
    assert timing.cadence_error == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize(("slow", "tells"), [(1.003, False), (1.012, True), (0.98, True)])
def test_the_drift_of_a_relative_sleep(slow, tells):
    def drift(c):
        c["sync.wall_ns"] = wall(np.full(299, slow / FPS) + np.random.default_rng(0).normal(0, 0.003, 299))

    _, findings = measured(drift)
    assert [f.code for f in findings] == (["timing.cadence"] if tells else [])
    assert not tells or ("stretched" if slow < 1 else "compressed") in findings[0].message


def test_old_images_and_wide_brackets():
    def late(c):
        c["sync.capture_ns.front"][40:44] = -120_000_000
        c["sync.state_gap_ns"][90] = 90_000_000

    _, findings = measured(late)
    assert [f.code for f in findings] == ["timing.image_age", "timing.state_gap"]
    assert findings[0].message.startswith(
        "front: 4 images are over 50 ms away from their frame, the worst -120 ms at row 40"
    )
    assert findings[1].message.endswith("the widest 90 ms at row 90")


def same_image(c):
    """Rows 60 and 61 show the image captured at row 59."""
    for k in (60, 61):
        c["sync.capture_ns.front"][k] = c["sync.capture_ns.front"][k - 1] - round(1e9 / FPS)


def test_an_image_used_twice_must_be_marked():
    _, findings = measured(same_image)
    assert [f.code for f in findings] == ["timing.image_age", "timing.unmarked_repeat"]
    assert "2 rows show the image of the row before without being marked, first row 60" in findings[1].message

    def marked(c):
        same_image(c)
        c["sync.repeated.front"][60:62] = 1

    timing, findings = measured(marked)
    assert "timing.unmarked_repeat" not in [f.code for f in findings]
    assert timing.repeated == {"front": 2}


def test_without_measured_times_all_is_unknown():
    assert EpisodeTiming.measure({"action": np.zeros((5, 6))}, FPS) is None
    report = timing_report([], FPS)
    assert report == {
        "fps": FPS,
        "measured": False,
        "cadence_error": "unknown",
        "gaps": "unknown",
        "image_age_ms": "unknown",
    }


def test_the_report_sums_up():
    def pause(c):
        intervals = np.full(299, 1.01 / FPS)
        intervals[10] = 0.2
        c["sync.wall_ns"] = wall(intervals)

    report = timing_report([measured()[0], measured(pause)[0]], FPS)
    assert report["gaps"] == 1
    assert report["cadence_error_worst"] == pytest.approx(0.01, abs=1e-5)
    assert report["cadence_error"] == pytest.approx(0.005, abs=1e-3)
    assert report["image_age_ms"]["front"]["max"] <= 2.0
    assert report["state_gap_ms"]["median"] == pytest.approx(10.0)
