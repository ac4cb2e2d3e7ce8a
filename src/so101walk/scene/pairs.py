"""Which pairs of the scene's geometries can collide, and bounds on how near they are and how fast they can approach."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..joints import N

if TYPE_CHECKING:
    import mujoco

__all__ = ["Pairs", "find_pairs"]

SHOULDER = "shoulder"
TABLE = "table"


@dataclass(frozen=True, eq=False)
class Pairs:
    """Pairs of geometries that can collide; in each the one of the body further from the base comes first.

    Attributes:
        first: Index of each pair's first geometry in the model. Shape (pairs,).
        second: Index of its second geometry. Shape (pairs,).
        names: Their names.
        radius_m: Radius of a sphere around the first geometry's position that holds it; added to it that of the second,
            unless ``half_m`` stands for the second. Shape (pairs,).
        half_m: Half edges of the second geometry where it is an upright box that never moves (table, base, keep-out);
            else 0. Shape (pairs, 3).
        reach_m: How far the farthest point of the first geometry can be from each joint's axis, in any pose; 0 for
            joints that don't move one geometry against the other. Shape (pairs, 6).
    """

    first: NDArray[np.intp]
    second: NDArray[np.intp]
    names: tuple[tuple[str, str], ...]
    radius_m: NDArray[np.float64]
    half_m: NDArray[np.float64]
    reach_m: NDArray[np.float64]

    def maybe_within(
        self, geom_xpos: NDArray[np.float64], within_m: NDArray[np.float64], index: NDArray[np.intp]
    ) -> NDArray[np.intp]:
        """Which of the pairs ``index`` (k,) may be nearer than ``within_m`` (k,) by their bounds: places in ``index``.

        A pair that is left out is certainly not nearer.
        """
        apart = np.abs(geom_xpos[self.first[index]] - geom_xpos[self.second[index]])
        apart = np.maximum(apart - self.half_m[index], 0.0)
        reach = within_m + self.radius_m[index]
        return np.flatnonzero(np.einsum("ij,ij->i", apart, apart) < reach * reach)


def find_pairs(model: "mujoco.MjModel") -> Pairs:
    """The pairs that MuJoCo lets collide: masks meet, and not of one body, nor parent and child, nor excluded.

    The shoulder over the table is left out: it turns about a vertical axis, so its height never changes.
    """
    weld, parent = model.body_weldid, model.body_weldid[model.body_parentid]
    excluded = {frozenset((int(s) >> 16, int(s) & 0xFFFF)) for s in model.exclude_signature}
    names = [model.geom(i).name for i in range(model.ngeom)]
    pairs = []
    for a in range(model.ngeom):
        for b in range(a + 1, model.ngeom):
            body_a, body_b = int(model.geom_bodyid[a]), int(model.geom_bodyid[b])
            weld_a, weld_b = int(weld[body_a]), int(weld[body_b])
            far, near = (a, b) if weld_a > weld_b else (b, a)
            kin = (weld_b != 0 and parent[weld_a] == weld_b) or (weld_a != 0 and parent[weld_b] == weld_a)
            level = names[near] == TABLE and model.body(int(model.geom_bodyid[far])).name == SHOULDER
            apart = frozenset((body_a, body_b)) in excluded
            if _masks_meet(model, a, b) and weld_a != weld_b and not (kin or level or apart):
                pairs.append((far, near))
    first, second = np.array(pairs, dtype=np.intp).T
    radius, half = _bounds(model, first, second)
    named = tuple((names[a], names[b]) for a, b in pairs)
    return Pairs(first, second, named, radius, half, _reach(model, first, second))


def _masks_meet(model: "mujoco.MjModel", a: int, b: int) -> bool:
    one = model.geom_contype[a] & model.geom_conaffinity[b]
    other = model.geom_contype[b] & model.geom_conaffinity[a]
    return bool(one | other)


def _bounds(
    model: "mujoco.MjModel", first: NDArray[np.intp], second: NDArray[np.intp]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    import mujoco

    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    upright = (
        (model.body_weldid[model.geom_bodyid] == 0)
        & (model.geom_type == mujoco.mjtGeom.mjGEOM_BOX)
        & (data.geom_xmat == np.eye(3).ravel()).all(axis=1)
    )
    boxed = upright[second]
    radius = np.where(model.geom_rbound > 0.0, model.geom_rbound, np.inf)  # 0 is MuJoCo's for a plane
    radii = radius[first] + np.where(boxed, 0.0, radius[second])
    return radii, np.where(boxed[:, None], model.geom_size[second], 0.0)


def _reach(model: "mujoco.MjModel", first: NDArray[np.intp], second: NDArray[np.intp]) -> NDArray[np.float64]:
    """Sums of link lengths from each joint's anchor to the geometry and through it, so they hold in every pose."""
    reach = np.zeros((len(first), N))
    for row, (a, b) in enumerate(zip(first, second, strict=True)):
        still = set(_joints_above(model, int(model.geom_bodyid[b])))
        body = int(model.geom_bodyid[a])
        span = float(np.linalg.norm(model.geom_pos[a]) + model.geom_rbound[a])
        while body != 0:
            for joint in _joints_of(model, body):
                if joint not in still:
                    reach[row, joint] = span + float(np.linalg.norm(model.jnt_pos[joint]))
            span += float(np.linalg.norm(model.body_pos[body]))
            body = int(model.body_parentid[body])
    return reach


def _joints_of(model: "mujoco.MjModel", body: int) -> range:
    start = int(model.body_jntadr[body])
    return range(start, start + int(model.body_jntnum[body]))


def _joints_above(model: "mujoco.MjModel", body: int) -> list[int]:
    joints: list[int] = []
    while body != 0:
        joints += _joints_of(model, body)
        body = int(model.body_parentid[body])
    return joints
