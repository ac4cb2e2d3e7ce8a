import json

import pytest

from tests.dataset import planted
from tests.dataset.test_reader import truncate


@pytest.fixture(scope="module")
def walk(tmp_path_factory):
    """A sound walk."""
    return planted.dataset(tmp_path_factory.mktemp("check") / "walk")


def test_a_sound_walk_ends_with_0_and_the_next_command(so101walk, walk):
    done = so101walk("check", walk)
    assert done.code == 0
    assert "isotropic walk" in done.out
    assert "shoulder_pan" in done.out
    assert done.out.rstrip().endswith(f"sound. Next: so101walk probe {walk} --encoder pixels")


def test_json_is_one_object_on_stdout(so101walk, walk):
    done = so101walk("check", walk, "--json")
    found = json.loads(done.out)
    assert done.code == 0
    assert found["ok"] is True
    assert (found["episodes"], found["frames"], found["findings"]) == (3, 360, [])
    assert found["walk"]["verdict"] == "isotropic walk"
    assert found["timing"]["measured"] is True


def test_findings_end_with_1_and_the_command_that_mends(so101walk, tmp_path):
    out = planted.dataset(tmp_path / "torn", count=2)
    truncate(out / "data/chunk-000/file-001.parquet")
    done = so101walk("check", out)
    assert done.code == 1
    assert "error   structure.torn  episode 1: data/chunk-000/file-001.parquet" in done.out
    assert done.out.rstrip().endswith(f"1 error. Next: so101walk repair {out}")
    found = json.loads(so101walk("check", out, "--json").out)
    assert found["ok"] is False
    assert found["findings"][0]["code"] == "structure.torn"
    assert found["findings"][0]["episode"] == 1


def test_without_walk_and_images(so101walk, walk):
    done = so101walk("check", walk, "--no-walk", "--no-images")
    assert done.code == 0
    assert done.out.rstrip().endswith("sound; whether it is a random walk is unknown.")


@pytest.mark.parametrize("arguments", [[], ["--json"]])
def test_what_is_no_dataset_gets_one_line(so101walk, tmp_path, arguments):
    done = so101walk("check", tmp_path / "none", *arguments)
    assert done.code == 1
    assert done.out == ""
    assert done.err.strip() == f"error: {tmp_path}/none: there is no such dataset folder"
