import struct
import threading

import numpy as np
import pytest
from scipy.spatial import cKDTree

from so101walk.scene import meshes
from so101walk.scene.meshes import Part, cache_dir, decimate, decimated_parts, merged_parts
from so101walk.scene.model import model_file


@pytest.fixture(scope="module")
def originals():
    return merged_parts(model_file())


@pytest.fixture(scope="module")
def decimated(originals):
    return decimate(originals, meshes.FACES)


def sphere(n=24):
    """A closed ball of 2 n (n - 1) triangles, radius 5 cm."""
    polar, turn = np.linspace(0, np.pi, n + 1), np.linspace(0, 2 * np.pi, n, endpoint=False)
    ring = np.stack([np.cos(turn), np.sin(turn), np.zeros(n)], 1)
    vertices = np.concatenate([np.sin(p) * ring + [0, 0, np.cos(p)] for p in polar]) * 0.05
    faces = []
    for i in range(n):
        for j in range(n):
            a, b, c, d = i * n + j, i * n + (j + 1) % n, (i + 1) * n + j, (i + 1) * n + (j + 1) % n
            faces += [[a, c, b]] * (i < n) + [[b, c, d]] * (i < n)
    return vertices.astype(np.float32), np.array(faces, np.int32)


def write_stl(path, vertices, faces):
    with path.open("wb") as f:
        f.write(b"\0" * 80 + struct.pack("<I", len(faces)))
        for face in faces:
            f.write(struct.pack("<12fH", 0, 0, 0, *vertices[face].ravel(), 0))


@pytest.fixture
def toy(tmp_path):
    """A model of one body: two balls of one colour side by side, one of another."""
    (tmp_path / "assets").mkdir()
    write_stl(tmp_path / "assets" / "ball.stl", *sphere())
    xml = tmp_path / "toy.xml"
    shown = 'type="mesh" mesh="ball" contype="0" conaffinity="0"'
    xml.write_text(
        f"""<mujoco><compiler meshdir="assets"/><asset><mesh name="ball" file="ball.stl"/></asset>
        <worldbody><body name="arm"><geom {shown} pos="0.2 0 0" quat="1 1 0 0" rgba="1 1 0 1"/>
        <geom {shown} rgba="1 1 0 1"/><geom {shown} pos="0 0 0.3" rgba="0 0 0 1"/>
        <geom type="sphere" size="0.05"/></body></worldbody></mujoco>"""
    )
    return xml


def test_meshes_are_merged_by_body_and_colour(toy):
    parts = merged_parts(toy)
    assert [(p.name, p.body, tuple(p.rgba)) for p in parts] == [
        ("arm_shown_0", "arm", (1, 1, 0, 1)),
        ("arm_shown_1", "arm", (0, 0, 0, 1)),
    ]
    assert len(parts[0].faces) == 2 * len(parts[1].faces)
    np.testing.assert_allclose(parts[0].vertices.min(0), [-0.05, -0.05, -0.05], atol=1e-3)
    np.testing.assert_allclose(parts[0].vertices.max(0), [0.25, 0.05, 0.05], atol=1e-3)
    middle = (parts[1].vertices.min(0) + parts[1].vertices.max(0)) / 2
    np.testing.assert_allclose(middle, [0, 0, 0.3], atol=1e-3)


def test_the_budget_is_kept(originals, decimated):
    assert sum(len(p.faces) for p in originals) > 300_000
    assert 0.8 * meshes.FACES < sum(len(p.faces) for p in decimated) < 1.1 * meshes.FACES
    assert [(p.name, p.body) for p in decimated] == [(p.name, p.body) for p in originals]


def surface(part, n=20_000):
    """Points spread evenly over a part's triangles. Shape (n, 3)."""
    rng = np.random.default_rng(0)
    a, b, c = (part.vertices[part.faces[:, i]].astype(float) for i in range(3))
    area = np.linalg.norm(np.cross(b - a, c - a), axis=1)
    k = rng.choice(len(area), n, p=area / area.sum())
    u = rng.random((n, 2))
    u = np.where(u.sum(1, keepdims=True) > 1, 1 - u, u)
    return a[k] + u[:, :1] * (b - a)[k] + u[:, 1:] * (c - a)[k]


def test_nothing_is_added_and_nothing_is_lost(originals, decimated):
    for before, after in zip(originals, decimated, strict=True):
        old, new = surface(before), surface(after)
        added, _ = cKDTree(old).query(new)
        lost, _ = cKDTree(new).query(old)
        assert np.quantile(added, 0.95) < 0.0035, after.name
        assert np.quantile(lost, 0.95) < 0.007, after.name


def test_no_two_triangles_share_a_corner(decimated):
    for part in decimated:
        np.testing.assert_array_equal(part.faces.ravel(), np.arange(len(part.vertices)))


def test_a_part_within_its_budget_keeps_every_triangle():
    vertices, faces = sphere(6)
    part = Part("p", "b", np.ones(4, np.float32), vertices, faces)
    (out,) = decimate([part], 10_000)
    np.testing.assert_array_equal(out.vertices, vertices[faces].reshape(-1, 3))


def same(a, b):
    return all(
        p.name == q.name
        and p.body == q.body
        and all(np.array_equal(getattr(p, k), getattr(q, k)) for k in ("rgba", "vertices", "faces"))
        for p, q in zip(a, b, strict=True)
    )


@pytest.fixture
def counted(monkeypatch):
    calls = []
    decimate_for_real = meshes.decimate

    def counting(*args):
        calls.append(args)
        return decimate_for_real(*args)

    monkeypatch.setattr(meshes, "decimate", counting)
    return calls


def test_the_second_time_comes_from_the_cache(toy, tmp_path, counted):
    folder = tmp_path / "cache"
    first = decimated_parts(toy, 100, folder)
    second = decimated_parts(toy, 100, folder)
    assert len(counted) == 1
    assert same(first, second)
    assert [p.suffix for p in folder.iterdir()] == [".npz"]


def test_other_meshes_or_another_budget_are_decimated_anew(toy, tmp_path, counted):
    folder = tmp_path / "cache"
    decimated_parts(toy, 100, folder)
    decimated_parts(toy, 60, folder)
    vertices, faces = sphere()
    write_stl(toy.parent / "assets" / "ball.stl", vertices * 1.01, faces)
    decimated_parts(toy, 100, folder)
    toy.write_text(toy.read_text().replace("0.3", "0.4"))
    decimated_parts(toy, 100, folder)
    assert len(counted) == 4
    assert len(list(folder.iterdir())) == 4


@pytest.mark.parametrize(
    "harm", [lambda b: b"", lambda b: b[: len(b) // 2], lambda b: b"not a zip file", lambda b: b[20:]]
)
def test_a_torn_file_is_made_again(toy, tmp_path, counted, harm):
    folder = tmp_path / "cache"
    whole = decimated_parts(toy, 100, folder)
    (file,) = folder.iterdir()
    good = file.read_bytes()
    file.write_bytes(harm(good))
    assert same(decimated_parts(toy, 100, folder), whole)
    assert len(counted) == 2
    assert same(decimated_parts(toy, 100, folder), whole)
    assert len(counted) == 2


def test_two_at_once_both_get_the_parts(toy, tmp_path):
    folder = tmp_path / "cache"
    results = []
    threads = [threading.Thread(target=lambda: results.append(decimated_parts(toy, 100, folder))) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(results) == 4
    assert all(same(results[0], r) for r in results)
    assert len(list(folder.iterdir())) == 1


def test_a_folder_that_cannot_be_made_only_costs_time(toy, tmp_path):
    (tmp_path / "file").write_text("")
    assert same(decimated_parts(toy, 100, tmp_path / "file" / "cache"), decimate(merged_parts(toy), 100))


def test_the_cache_is_where_the_user_says(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_dir() == tmp_path / "so101walk"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert tmp_path in cache_dir().parents
