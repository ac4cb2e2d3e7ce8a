import numpy as np
import pytest

from so101walk.dataset.walk_judge import judge, judge_sigreg
from so101walk.dataset.walk_null import chain
from so101walk.dataset.walk_stats import Layout

LAW = ("isotropy", "scale", "start", "mean", "dependence", "skew", "kurtosis")
SMALL, LARGE = Layout((25,) * 3), Layout((25,) * 25)


def null(rho=0.9):
    return lambda rng, layout, copies: chain(rng, rho, layout, 6, copies)


def walk(rng, layout, rho=0.9):
    return chain(rng, rho, layout, 6, 1)[0]


def failures(z, layout, rng, with_sigreg=True):
    tested = judge(z, layout, null(), rng, LAW, 0.9)
    if with_sigreg:
        tested["sigreg"], _ = judge_sigreg(z, layout, null(), rng)
    return {name: p.joints for name, p in tested.items() if p.failed}


def test_a_sound_walk_is_hardly_ever_refused():
    alarms = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        alarms += bool(failures(walk(rng, SMALL), SMALL, rng))
    # 1 % are to be expected, 0.4 of 40; three or more would happen once in 130 times.
    assert alarms <= 2


def test_p_values_are_uniform_for_a_sound_walk():
    values = []
    for seed in range(40):
        rng = np.random.default_rng(100 + seed)
        values.append([p.p for p in judge(walk(rng, SMALL), SMALL, null(), rng, LAW, 0.9).values()])
    values = np.array(values)
    assert values.mean() == pytest.approx(0.5, abs=0.08)
    assert (values < 0.1).mean() == pytest.approx(0.1, abs=0.06)


def planted(name, z, rng):
    if name == "isotropy":
        z[:, 2] = chain(rng, 0.7, LARGE, 1, 1)[0][:, 0]
    elif name == "scale":
        z[:, 2] *= 1.6
    elif name == "mean":
        z[:, 2] += 1.2
    elif name == "start":
        z[LARGE.first, 2] *= 0.1
    elif name == "dependence":
        z[:, 2] = 0.6 * z[:, 4] + 0.8 * z[:, 2]
    elif name == "kurtosis":
        z[:, 2] = 1.2 * np.sign(z[:, 2]) * np.abs(z[:, 2]) ** 0.2
    return z


@pytest.mark.parametrize("name", ["isotropy", "scale", "mean", "start", "dependence", "kurtosis"])
def test_what_is_planted_in_one_joint_is_found_and_that_joint_named(name):
    for seed in range(2):
        rng = np.random.default_rng(seed)
        found = failures(planted(name, walk(rng, LARGE), rng), LARGE, rng, with_sigreg=False)
        assert name in found
        assert found[name] == ((2, 4) if name == "dependence" else (2,))


def test_a_joint_whose_rho_is_off_by_a_tenth_is_found_with_forty_episodes():
    layout, found = Layout((25,) * 40), 0
    for seed in range(6):
        rng = np.random.default_rng(seed)
        z = walk(rng, layout)
        z[:, 5] = chain(rng, 0.8, layout, 1, 1)[0][:, 0]
        found += 5 in judge(z, layout, null(), rng, LAW)["isotropy"].joints
    assert found >= 5


def test_another_rho_than_declared_is_found_and_does_not_count_as_anisotropy():
    rng = np.random.default_rng(0)
    tested = judge(walk(rng, LARGE, rho=0.85), LARGE, null(), rng, LAW, 0.9)
    assert tested["rho"].failed
    assert not tested["isotropy"].failed


def test_sigreg_tells_other_laws_of_the_same_variance():
    rng = np.random.default_rng(0)
    layout = Layout((25,) * 25)
    uniform = rng.uniform(-np.sqrt(3), np.sqrt(3), (layout.n, 6))

    def independent(generator, shape, copies):
        return generator.standard_normal((copies, shape.n, 6))

    found, statistic = judge_sigreg(uniform, layout, independent, rng)
    assert found.failed
    assert len(found.joints) >= 2
    assert found.p < 1e-3
    wide, statistic = judge_sigreg(1.3 * rng.standard_normal((layout.n, 6)), layout, independent, rng)
    assert wide.failed
    assert statistic.p < 1e-6
    assert statistic.statistic > statistic.null_q99 > statistic.null_mean
    sound, statistic = judge_sigreg(rng.standard_normal((layout.n, 6)), layout, independent, rng)
    assert not sound.failed
    assert statistic.statistic < 2 * statistic.null_mean


def test_a_very_long_walk_does_not_fail_for_what_no_one_would_notice():
    layout = Layout((250,) * 12)
    rng = np.random.default_rng(0)
    z = walk(rng, layout)
    z = np.where(np.abs(z) > 3.0, np.sign(z) * 3.0, z) * 1.01
    assert failures(z, layout, rng) == {}


def test_the_resolution_says_what_could_be_told():
    rng = np.random.default_rng(0)
    few = judge(walk(rng, SMALL), SMALL, null(), rng, ("isotropy",))["isotropy"]
    many = judge(walk(rng, LARGE), LARGE, null(), rng, ("isotropy",))["isotropy"]
    assert few.resolution > 2 * many.resolution > 0
