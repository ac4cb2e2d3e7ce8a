import pickle

import numpy as np
import pytest

from so101walk.errors import ConfigError, UsageError
from so101walk.policies.load import load_policy

SWAY = """
import numpy as np

class Policy:
    name = "sway"
    frames_per_step = 15
    settle_frames = 3

    def __init__(self, reach=0.1):
        self.reach = reach
        self.calls = 0

    def start(self, rng, envelope):
        return np.zeros(6)

    def propose(self, z, rng):
        self.calls += 1
        return -z + rng.normal(0.0, self.reach, 6) + self.calls
"""


def write(tmp_path, text=SWAY, *change):
    path = tmp_path / "my_policy.py"
    path.write_text(text.replace(*change) if change else text)
    return path


def test_a_users_policy_walks(tmp_path, tabletop):
    spec = load_policy(write(tmp_path), {"reach": 0.0, "rho": None})
    policy = spec.make()
    assert (spec.name, policy.name, policy.frames_per_step, policy.settle_frames) == ("sway", "sway", 15, 3)
    z = policy.start(np.random.default_rng(0), tabletop)
    assert policy.propose(z, np.random.default_rng(0)).tolist() == [1.0] * 6
    assert policy.propose(z, np.random.default_rng(0)).tolist() == [2.0] * 6
    assert spec.make().propose(z, np.random.default_rng(0)).tolist() == [1.0] * 6  # a fresh one


def test_it_may_change_the_state_it_is_given_without_harm(tmp_path):
    text = SWAY.replace("        self.calls += 1\n", "        z += 9.0\n").replace(" + self.calls", "")
    z = np.zeros(6)
    load_policy(write(tmp_path, text)).make().propose(z, np.random.default_rng(0))
    assert (z == 0.0).all()


def test_the_identity_follows_text_and_arguments_and_holds_no_path(tmp_path):
    path = write(tmp_path)
    one = load_policy(path).to_dict()
    assert str(tmp_path) not in str(one)
    assert one["file"] == "my_policy.py"
    assert load_policy(path).to_dict() == one
    assert load_policy(path, {"reach": 0.2}).to_dict() != one
    write(tmp_path, SWAY, "0.1", "0.3")
    assert load_policy(path).to_dict()["sha256"] != one["sha256"]


def test_what_was_read_is_what_walks_even_in_another_process(tmp_path):
    path = write(tmp_path)
    spec = load_policy(path)
    packed = pickle.dumps(spec)
    path.unlink()
    assert pickle.loads(packed).make().name == "sway"


def test_dataclasses_in_the_file_work(tmp_path):
    text = "from dataclasses import dataclass\n\n@dataclass\nclass Knob:\n    value: 'float' = 1.0\n" + SWAY
    assert load_policy(write(tmp_path, text)).name == "sway"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("class Policy", "class Polizei"), "has no class Policy"),
        (('    name = "sway"\n', ""), r"Policy has no 'name' \(a text\)"),
        (("    frames_per_step = 15\n", ""), r"Policy has no 'frames_per_step' \(a whole number\)"),
        (("frames_per_step = 15", "frames_per_step = 15.0"), "frames_per_step is 15.0; it must be a whole number"),
        (("settle_frames = 3", "settle_frames = True"), "settle_frames is True; it must be a whole number"),
        (("settle_frames = 3", "settle_frames = 15"), "settle_frames is 15; it must be 0 to frames_per_step - 1"),
        (("def propose", "def suppose"), r"Policy has no 'propose' \(a method\)"),
        (
            ("import numpy as np", "import numpie as np"),
            r"running it raised ModuleNotFoundError: .*numpie.* \(line 2\)",
        ),
        (
            ("self.calls = 0", "self.calls = 1 / 0"),
            r"Policy\(\) raised ZeroDivisionError: division by zero \(line 11\)",
        ),
        (("class Policy:", "class Policy"), r"not valid Python: .* \(line 4\)"),
    ],
)
def test_a_file_that_is_no_policy_is_refused_in_one_line(tmp_path, change, words):
    path = write(tmp_path, SWAY, *change)
    with pytest.raises(ConfigError, match=words) as e:
        load_policy(path)
    assert str(e.value).startswith(f"{path}: ")
    assert len(str(e.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("np.zeros(5)", r"propose returned shape \(5,\); it must return shape \(6,\)"),
        ("np.zeros((1, 6))", r"returned shape \(1, 6\)"),
        ("None", "propose returned"),
        ("'left'", "returned 'left'; it must return 6 numbers"),
        ("[0, 0, float('nan'), 0, 0, 0]", "every value must be finite"),
        ("self.nothing", r"propose raised AttributeError: .*nothing.* \(line 18\)"),
    ],
)
def test_a_wrong_answer_is_told_in_one_line(tmp_path, answer, words):
    path = write(tmp_path, SWAY, "-z + rng.normal(0.0, self.reach, 6) + self.calls", answer)
    policy = load_policy(path).make()
    with pytest.raises(ConfigError, match=words) as e:
        policy.propose(np.zeros(6), np.random.default_rng(0))
    assert str(e.value).startswith(f"{path}: ")
    assert len(str(e.value).splitlines()) == 1


def test_an_argument_that_policy_does_not_take_is_refused(tmp_path):
    with pytest.raises(UsageError, match=r"Policy\(\) takes no rho, so rho 0.9 can't apply; give it an argument rho"):
        load_policy(write(tmp_path), {"rho": 0.9})


def test_the_example_in_the_protocols_docstring_is_one(tmp_path, tabletop):
    from so101walk.policies import policy

    text = "\n".join(line[8:] for line in policy.__doc__.split("my_policy.py``::")[1].splitlines())
    example = load_policy(write(tmp_path, text)).make()
    z = example.start(np.random.default_rng(0), tabletop)
    assert example.propose(z, np.random.default_rng(0)).shape == (6,)
