import json
import pickle

import numpy as np
import pytest

from so101walk.errors import ConfigError, UsageError
from so101walk.policies.load import load_policy


@pytest.mark.parametrize(("name", "frames"), [("ou", 15), ("gennorm", 15), ("goal", 15)])
def test_shipped_policies_load_make_and_describe_themselves(name, frames, tabletop):
    spec = load_policy(name)
    assert spec.name == name
    assert spec.to_dict()["kind"] == name
    assert json.loads(json.dumps(spec.to_dict())) == spec.to_dict()
    policy = spec.make()
    assert policy is not spec.make()
    assert (policy.name, policy.frames_per_step) == (name, frames)
    z = policy.start(np.random.default_rng(0), tabletop)
    assert policy.propose(z, np.random.default_rng(0)).shape == (6,)
    again = pickle.loads(pickle.dumps(spec))
    assert (again.make().start(np.random.default_rng(0), tabletop) == z).all()


def test_overrides_win_and_are_part_of_the_identity():
    spec = load_policy("ou", {"rho": 0.5, "alpha": None})
    assert spec.make().rho == 0.5
    assert spec.to_dict()["rho"] == 0.5
    assert load_policy("ou").to_dict()["rho"] == 0.9


@pytest.mark.parametrize("rho", [0, 1, -0.5, "a", float("nan")])
@pytest.mark.parametrize("name", ["ou", "gennorm"])
def test_a_rho_that_cannot_be_is_refused_in_one_line(name, rho):
    with pytest.raises(ConfigError, match=rf"with rho {rho}: rho is ") as e:
        load_policy(name, {"rho": rho})
    assert "\n" not in str(e.value)


def test_an_override_that_does_not_apply_is_refused():
    with pytest.raises(UsageError, match=r"kind goal has no rho, so rho 0.9 can't apply; it does to: ou, gennorm"):
        load_policy("goal", {"rho": 0.9})
    with pytest.raises(UsageError, match="it does to: gennorm"):
        load_policy("ou", {"alpha": 1.0})


def test_an_unknown_policy_is_refused_with_the_nearest():
    with pytest.raises(UsageError, match="unknown policy 'gaol'; did you mean 'goal'"):
        load_policy("gaol")


def test_a_missing_python_file_is_refused(tmp_path):
    with pytest.raises(UsageError, match="can't be read: No such file"):
        load_policy(tmp_path / "none.py")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('kind = "oo"', "kind is 'oo'; known: gennorm, goal, ou"),
        ("rho = 0.9", "key 'kind' is missing; known: gennorm, goal, ou"),
        ("kind = 3", "kind is 3"),
        ('kind = "ou"\nrhoo = 0.5', "unknown key 'rhoo'; did you mean 'rho'"),
        ('kind = "ou"\nrho = "a"', "rho is 'a'; it must be a number"),
        ('kind = "ou"\nframes_per_step = 2.5', "frames_per_step is 2.5; it must be a whole number"),
        ('kind = "ou"\nsettle_frames = 15', r"settle_frames is 15; it must be 0 to frames_per_step - 1 \(14\)"),
        ('kind = "ou"\n[joints]\ngriper = true', "unknown joint 'griper'; did you mean 'gripper'"),
        ('kind = "ou"\n[joints]\ngripper = 1', "joints.gripper is 1; it must be true or false"),
        ('kind = "gennorm"\nalpha = 0', "alpha is 0.0; the shape must be"),
        ("kind = ", "not valid TOML"),
    ],
)
def test_a_file_that_cannot_be_is_refused_in_one_line(tmp_path, text, words):
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=words) as e:
        load_policy(path)
    assert str(e.value).startswith(f"{path}")
    assert len(str(e.value).splitlines()) == 1


def test_whole_numbers_serve_as_numbers(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('kind = "gennorm"\nalpha = 5\n')
    assert load_policy(path).make().alpha == 5.0
