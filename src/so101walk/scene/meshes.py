"""The arm's meshes merged and decimated for software rendering, made once and cached on disk.

Software rendering of the 360,000 triangles of the originals takes hundreds of milliseconds a frame; 3,000 look
the same at 224 px and take two. Per body, all meshes of one colour become one mesh (a draw call each),
which quadric edge collapse (Garland and Heckbert 1997, by fast-simplification) brings down to its share of the budget.
"""

import hashlib
import os
import sys
import tempfile
import threading
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import mujoco

__all__ = ["FACES", "Part", "cache_dir", "decimate", "decimated_parts", "merged_parts"]

FACES = 3000
"""Triangles of the whole arm. With 900 the brackets show holes; with 3000 the images differ from the originals' by half
a grey level a pixel in the front view and by 1.5 in the wrist view, for 0.6 ms more a two-view frame (224 px)."""

AREA_SHARE = 0.5
"""A part's share of the budget goes with its surface area to this power: small parts keep their shape."""

JAWS = ("gripper", "moving_jaw_so101_v1")
JAWS_SHARE = 2.0
"""What the wrist camera sees from 6 cm gets twice its share."""

DARK_SHARE = 0.5
"""The servos (the dark parts) are boxes half hidden in brackets: half their share."""

WELD_M = 0.0005
WELD_GROWTH = 1.4
"""Vertices within a cell of this size become one before edges collapse; the cell grows until the budget is met. Without
it the collapse stops at the many separate shells of the CAD export, at 10 times the budget."""

AGGRESSIVENESS = 2.0
"""fast-simplification's ``agg``. Of 0 to 7, the value whose images differ least from the originals' at equal budget."""

LAYOUT = 1
"""Counted up when what the cache holds, or how it is made, changes."""


_Vertices = NDArray[np.float64]
_Faces = NDArray[np.integer]


@dataclass(frozen=True)
class Part:
    """All that one body shows in one colour. ``vertices`` (n, 3) in m, body frame; ``faces`` (m, 3); ``rgba`` (4,)."""

    name: str
    body: str
    rgba: NDArray[np.float32]
    vertices: NDArray[np.float32]
    faces: NDArray[np.int32]


def cache_dir() -> Path:
    """The folder for what can be made again: ``$XDG_CACHE_HOME/so101walk``, or the platform's usual place."""
    if root := os.environ.get("XDG_CACHE_HOME"):
        return Path(root) / "so101walk"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local")) / "so101walk"
    return Path.home() / ("Library/Caches" if sys.platform == "darwin" else ".cache") / "so101walk"


def decimated_parts(xml: Path, faces: int = FACES, folder: Path | None = None) -> list[Part]:
    """The merged and decimated parts of a model, from the cache if it holds them.

    The cache's key is a hash of the XML, its mesh files and the parameters, so a changed model is decimated anew. Two
    processes may race: each writes a file of its own and renames it in place. A torn file is made again. A folder that
    can't be written only costs the time to decimate at every start.

    Args:
        xml: The model's file; its meshes are in ``assets`` beside it.
        faces: Triangles of the whole arm, about.
        folder: Where to keep it, or None for :func:`cache_dir`.
    """
    path = (folder or cache_dir()) / f"meshes-{_digest(xml, faces)}.npz"
    try:
        return _read(path)
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        parts = decimate(merged_parts(xml), faces)
    try:
        _write(path, parts)
    except OSError:
        pass
    return parts


def merged_parts(xml: Path) -> list[Part]:
    """The original meshes of a model, merged per body and colour, vertices in the body's frame."""
    import mujoco

    model = mujoco.MjModel.from_xml_path(str(xml))
    groups: dict[tuple[int, tuple[float, ...]], list[int]] = {}
    for geom in np.flatnonzero((model.geom_contype == 0) & (model.geom_conaffinity == 0)):
        material = model.geom_matid[geom]
        rgba = model.mat_rgba[material] if material >= 0 else model.geom_rgba[geom]
        groups.setdefault((int(model.geom_bodyid[geom]), tuple(float(c) for c in rgba)), []).append(int(geom))
    parts: list[Part] = []
    for (body_id, rgba), geoms in groups.items():
        body = model.body(body_id).name
        meshes = [_in_body_frame(model, geom) for geom in geoms]
        offsets = np.cumsum([0] + [len(v) for v, _ in meshes[:-1]])
        vertices = np.concatenate([v for v, _ in meshes]).astype(np.float32)
        faces = np.concatenate([f + o for (_, f), o in zip(meshes, offsets, strict=True)]).astype(np.int32)
        count = sum(p.body == body for p in parts)
        parts.append(Part(f"{body}_shown_{count}", body, np.array(rgba, np.float32), vertices, faces))
    return parts


def _in_body_frame(model: "mujoco.MjModel", geom: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    import mujoco

    mesh = model.geom_dataid[geom]
    v0, f0 = model.mesh_vertadr[mesh], model.mesh_faceadr[mesh]
    rotation = np.empty(9)
    mujoco.mju_quat2Mat(rotation, model.geom_quat[geom])
    vertices = model.mesh_vert[v0 : v0 + model.mesh_vertnum[mesh]] @ rotation.reshape(3, 3).T + model.geom_pos[geom]
    return vertices, model.mesh_face[f0 : f0 + model.mesh_facenum[mesh]]


def decimate(parts: list[Part], faces: int) -> list[Part]:
    """Bring parts down to ``faces`` triangles together, each to its share, every triangle with corners of its own.

    Corners that aren't shared make MuJoCo shade each triangle flat, as these printed parts look.
    """
    weights = np.array([_weight(p) for p in parts])
    budgets = np.maximum(12, faces * weights / weights.sum()).astype(int)
    out = []
    for part, budget in zip(parts, budgets, strict=True):
        vertices, triangles = _collapse(part.vertices.astype(np.float64), part.faces, int(budget))
        corners = np.ascontiguousarray(vertices[triangles].reshape(-1, 3), np.float32)
        out.append(
            Part(part.name, part.body, part.rgba, corners, np.arange(len(corners), dtype=np.int32).reshape(-1, 3))
        )
    return out


def _weight(part: Part) -> float:
    dark = float(part.rgba[:3].max()) < 0.5
    a, b, c = (part.vertices[part.faces[:, i]].astype(np.float64) for i in range(3))
    area_m2 = np.linalg.norm(np.cross(b - a, c - a), axis=1).sum() / 2
    return float(area_m2**AREA_SHARE) * (DARK_SHARE if dark else JAWS_SHARE if part.body in JAWS else 1.0)


_simplifying = threading.Lock()
"""fast-simplification works in variables of the process, one mesh at a time."""


def _collapse(vertices: _Vertices, faces: _Faces, budget: int) -> tuple[_Vertices, _Faces]:
    import fast_simplification

    cell_m = WELD_M
    while len(faces) > 1.1 * budget:
        vertices, faces = _weld(vertices, faces, cell_m)
        if len(faces) > budget:
            with _simplifying:
                vertices, faces = fast_simplification.simplify(vertices, faces, target_count=budget, agg=AGGRESSIVENESS)
        cell_m *= WELD_GROWTH
    return vertices, faces


def _weld(vertices: _Vertices, faces: _Faces, cell_m: float) -> tuple[_Vertices, _Faces]:
    """Vertices of one cell become their mean; triangles that lose a corner, or come twice, go."""
    _, cell = np.unique(np.round(vertices / cell_m).astype(np.int64), axis=0, return_inverse=True)
    cell = cell.ravel()
    means = np.zeros((cell.max() + 1, 3))
    np.add.at(means, cell, vertices)
    means /= np.bincount(cell)[:, None]
    faces = cell[faces]
    a, b, c = faces.T
    faces = faces[(a != b) & (b != c) & (c != a)]
    _, first = np.unique(np.sort(faces, axis=1), axis=0, return_index=True)
    return means, faces[np.sort(first)]


def _digest(xml: Path, faces: int) -> str:
    knobs = (LAYOUT, faces, AREA_SHARE, JAWS, JAWS_SHARE, DARK_SHARE, WELD_M, WELD_GROWTH, AGGRESSIVENESS)
    h = hashlib.sha256(repr(knobs).encode())
    for path in [xml, *sorted((xml.parent / "assets").glob("*.stl"))]:
        h.update(path.name.encode())
        h.update(path.read_bytes())
    return h.hexdigest()[:16]


def _write(path: Path, parts: list[Part]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    arrays: dict[str, Any] = {"names": np.array([[p.name, p.body] for p in parts])}
    for i, part in enumerate(parts):
        arrays |= {f"{i}.vertices": part.vertices, f"{i}.faces": part.faces, f"{i}.rgba": part.rgba}
    handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".part")
    try:
        with os.fdopen(handle, "wb") as f:
            np.savez(f, **arrays)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _read(path: Path) -> list[Part]:
    with np.load(path, allow_pickle=False) as z:
        return [
            Part(str(name), str(body), z[f"{i}.rgba"], z[f"{i}.vertices"], z[f"{i}.faces"])
            for i, (name, body) in enumerate(z["names"])
        ]
