"""Every key of a TOML file is checked, and the message says where, what and how to mend it."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pytest

from so101walk import config
from so101walk.errors import ConfigError, UsageError


@dataclass(frozen=True)
class Inner:
    size: int = 1


@dataclass(frozen=True)
class Outer:
    name: str
    rate: float = 1.0
    kind: Literal["a", "b"] = "a"
    pair: tuple[float, float] = (0.0, 1.0)
    inner: Inner = field(default_factory=Inner)
    table: dict[str, Inner] = field(default_factory=dict)
    maybe: int | None = None

    def __post_init__(self) -> None:
        config.require(self.rate > 0, f"rate is {self.rate}; it must be above 0")


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "file.toml"
    path.write_text(text)
    return path


def test_reads_every_kind_of_value(tmp_path: Path) -> None:
    text = 'name = "x"\nrate = 5\nkind = "b"\npair = [1, 2.5]\nmaybe = 3\n[inner]\nsize = 4\n[table.one]\nsize = 2\n'
    assert config.load(Outer, write(tmp_path, text)) == Outer("x", 5.0, "b", (1.0, 2.5), Inner(4), {"one": Inner(2)}, 3)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('name = "x"\nrte = 1', ["file.toml", "'rte'", "did you mean 'rate'?"]),
        ("rate = 1", ["'name' is missing"]),
        ('name = "x"\nrate = "fast"', ["rate is 'fast'", "a number"]),
        ('name = "x"\nrate = true', ["rate is True", "a number"]),
        ('name = "x"\nrate = 0', ["rate is 0.0", "above 0"]),
        ('name = "x"\nkind = "c"', ["kind is 'c'", "known: a, b"]),
        ('name = "x"\npair = [1]', ["pair is [1]", "a list of 2"]),
        ('name = "x"\n[inner]\nsze = 1', ["inner: unknown key 'sze'", "'size'"]),
        ('name = "x"\n[table.one]\nsize = 1.5', ["table.one", "size is 1.5", "a whole number"]),
        ('name = "x"\nmaybe = "y"', ["maybe is 'y'", "a whole number"]),
        ("name = = 1\nx = 2", ["not valid TOML", "line 1"]),
    ],
)
def test_a_bad_file_is_told_in_one_line(tmp_path: Path, text: str, words: list[str]) -> None:
    with pytest.raises(ConfigError) as e:
        config.load(Outer, write(tmp_path, text))
    for word in [*words, "file.toml"]:
        assert word in str(e.value)
    assert len(str(e.value).splitlines()) <= 2
    assert e.value.exit_code == 2


def test_a_path_wins_over_a_name_and_the_working_folder_over_what_ships(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert config.find_file("collect", "sim").name == "sim.toml"
    monkeypatch.chdir(tmp_path)
    assert config.find_file("collect", "sim").parent == config.data_dir("collect")
    (tmp_path / "collect").mkdir()
    (tmp_path / "collect" / "sim.toml").write_text("")
    assert config.find_file("collect", "sim").resolve() == tmp_path / "collect" / "sim.toml"
    (tmp_path / "other.toml").write_text("")
    assert config.find_file("collect", "other.toml") == Path("other.toml")


@pytest.mark.parametrize(("name", "words"), [("smi", "did you mean 'sim'"), ("a/b.toml", "does not exist")])
def test_an_unknown_rig_offers_the_nearest(name: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        config.find_file("collect", name)
