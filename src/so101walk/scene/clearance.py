"""How far the arm keeps from the table, from itself and from keep-out boxes, at a pose and along a whole segment.

Distances are MuJoCo's (``mj_geomDistance``, convex GJK) between the collision geometries of the scene, for exactly the
pairs that MuJoCo would let collide: links that share a joint are left out. MuJoCo is imported when a :class:`Clearance`
is made, not before.

A segment is checked by a conservative bound. Moving every joint in a straight line by ``dq`` moves any point of a link
at most ``sum_j |dq_j| r_j``, where ``r_j`` bounds its distance from joint j's axis in every pose. So if a pair is ``d``
apart at the middle of an interval in which it can come at most ``x`` nearer, it keeps at least ``d - x`` throughout.
Intervals that this doesn't settle are halved until ``x`` is at most :data:`GAP_M`. Therefore, along the whole segment:

* it is refused if at any checked pose a pair is nearer than its margin, and
* if it isn't refused, every pair keeps at least its margin less :data:`GAP_M` at *every* pose between.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..config import require
from ..joints import N, q_to_rad
from .pairs import find_pairs

if TYPE_CHECKING:
    import mujoco

__all__ = ["GAP_M", "Clearance", "ClearanceConfig", "Contact", "KeepOut"]

GAP_M = 0.002
"""How much nearer than its margin a pair may come between two checked poses of a segment [m]."""

COARSE_M = 0.03
"""A segment is first cut so that no pair comes more than this nearer in half an interval; a matter of speed only."""

MARGIN_MAX_M = 0.1


@dataclass(frozen=True)
class KeepOut:
    """An upright box that the arm must not enter, in the frame of the arm's base (x ahead, y left, z up).

    Args:
        name: What messages call it.
        center_m: Its middle [m].
        size_m: Its edge lengths [m].
    """

    name: str
    center_m: tuple[float, float, float]
    size_m: tuple[float, float, float]

    def __post_init__(self) -> None:
        require(self.name.isidentifier(), f"name is {self.name!r}; it must be letters, digits and underscores")
        require(
            all(math.isfinite(c) and abs(c) <= 5.0 for c in self.center_m),
            f"center_m is {list(self.center_m)}; it must be within 5 m of the arm's base",
        )
        require(
            all(math.isfinite(s) and 0.0 < s <= 5.0 for s in self.size_m),
            f"size_m is {list(self.size_m)}; edge lengths must be above 0 and at most 5 m",
        )


@dataclass(frozen=True)
class ClearanceConfig:
    """Distances to keep at every checked pose [m].

    The defaults cover what a real arm adds to its commanded pose: it sags by 1.8 to 2.6 degrees under load and has
    about a degree of backlash (field reports), so 2.6 degrees at 0.43 m, the arm's full reach, is 20 mm over the table,
    and half of that between two links.

    Args:
        table_m: Between the arm and the table, and between the arm and a keep-out box.
        self_m: Between two links of the arm that don't share a joint.
        keep_out: Boxes to stay out of.
    """

    table_m: float = 0.020
    self_m: float = 0.010
    keep_out: tuple[KeepOut, ...] = ()

    def __post_init__(self) -> None:
        for name in ("table_m", "self_m"):
            value = getattr(self, name)
            require(
                math.isfinite(value) and GAP_M <= value <= MARGIN_MAX_M,
                f"{name} is {value}; it must be {GAP_M:g} m (what a segment may come nearer between checked poses) "
                f"to {MARGIN_MAX_M:g} m",
            )
        names = [box.name for box in self.keep_out]
        require(len(set(names)) == len(names), f"keep_out has two boxes of one name: {', '.join(names)}")


@dataclass(frozen=True)
class Contact:
    """Two geometries nearer than they may be. Distances in m; negative where they overlap.

    ``at`` is where on the checked segment, 0 its first end and 1 its second; 0 for a pose.
    """

    geom: str
    other: str
    distance_m: float
    margin_m: float
    at: float = 0.0


class Clearance:
    """Distance queries on the scene's collision geometry. Not for use by two threads at once.

    Args:
        config: Margins and keep-out boxes.

    Raises:
        ConfigError: A keep-out box has the name of one of the scene's geometries.
        HardwareError: The SO-101's model is not installed.
    """

    def __init__(self, config: ClearanceConfig) -> None:
        import mujoco

        self.config = config
        self._model = _compile(config.keep_out)
        self._data = mujoco.MjData(self._model)
        self._pairs = find_pairs(self._model)
        self.pairs: tuple[tuple[str, str], ...] = self._pairs.names
        """Every pair that is checked: the geometry that more joints move first."""
        in_the_world = self._model.geom_bodyid[self._pairs.second] == 0  # table and boxes; the base has its own body
        self._margin = np.where(in_the_world, config.table_m, config.self_m)

    def contact(self, q: ArrayLike) -> Contact | None:
        """The pair that falls shortest of its margin at a pose ``q`` (6,) in LeRobot units, or None if none does."""
        self._pose(np.asarray(q, dtype=np.float64))
        near, distance = self._near(self._margin, None)
        short = self._margin[near] - distance
        if not (short > 0.0).any():
            return None
        worst = int(np.argmax(short))
        return self._contact(int(near[worst]), float(distance[worst]), 0.0)

    def clear(self, q: ArrayLike) -> NDArray[np.bool_]:
        """Whether every pair keeps its margin, for poses ``q`` (..., 6) in LeRobot units. Shape (...)."""
        q = np.asarray(q, dtype=np.float64)
        flat = q.reshape(-1, N)
        out = np.array([self._is_clear(pose) for pose in flat], dtype=bool)
        return out.reshape(q.shape[:-1])

    def segment_contact(self, q0: ArrayLike, q1: ArrayLike) -> Contact | None:
        """A pair that is nearer than its margin somewhere on the straight joint-space segment, or None.

        The answer is the same whichever end is given first (``at`` is turned round). Ends are checked as poses.

        Args:
            q0: One end in LeRobot units. Shape (6,).
            q1: The other end. Shape (6,).
        """
        ends = (tuple(np.asarray(q0, float)), tuple(np.asarray(q1, float)))
        turned = ends[1] < ends[0]
        a, b = (np.array(e) for e in sorted(ends))
        found = self._end(a, 0.0) or self._end(b, 1.0) or self._between(a, b)
        if found is None or not turned:
            return found
        return Contact(found.geom, found.other, found.distance_m, found.margin_m, 1.0 - found.at)

    def approach_m(self, q0: ArrayLike, q1: ArrayLike) -> NDArray[np.float64]:
        """A bound on how far any point of each pair moves against the other from ``q0`` to ``q1``. Shape (pairs,)."""
        return self._pairs.reach_m @ np.abs(q_to_rad(q1) - q_to_rad(q0))

    def distances_m(self, q: ArrayLike, within_m: float) -> NDArray[np.float64]:
        """Distance of each of :attr:`pairs` at a pose, at most ``within_m``. Shape (pairs,)."""
        self._pose(np.asarray(q, dtype=np.float64))
        out = np.full(len(self.pairs), within_m)
        near, distance = self._near(out, None)
        out[near] = distance
        return out

    def _end(self, q: NDArray[np.float64], at: float) -> Contact | None:
        found = self.contact(q)
        return None if found is None else Contact(found.geom, found.other, found.distance_m, found.margin_m, at)

    def _between(self, a: NDArray[np.float64], b: NDArray[np.float64]) -> Contact | None:
        approach = self.approach_m(a, b)
        pieces = max(1, math.ceil(float(approach.max(initial=0.0)) / (2.0 * COARSE_M)))
        moving = np.flatnonzero(approach > 0.0)
        todo = [((i + 0.5) / pieces, 0.5 / pieces, moving) for i in reversed(range(pieces))]
        while todo:
            middle, half, pairs = todo.pop()
            self._pose(a + (b - a) * middle)
            closer = approach[pairs] * half
            near, distance = self._near(self._margin[pairs] + closer, pairs)
            margin = self._margin[near]
            if (distance < margin).any():
                worst = int(np.argmax(margin - distance))
                return self._contact(int(near[worst]), float(distance[worst]), middle)
            unsettled = near[(distance < margin + approach[near] * half) & (approach[near] * half > GAP_M)]
            if len(unsettled):
                todo += [(middle + half / 2, half / 2, unsettled), (middle - half / 2, half / 2, unsettled)]
        return None

    def _is_clear(self, q: NDArray[np.float64]) -> bool:
        self._pose(q)
        near, distance = self._near(self._margin, None)
        return not bool((distance < self._margin[near]).any())

    def _pose(self, q: NDArray[np.float64]) -> None:
        import mujoco

        self._data.qpos[:] = q_to_rad(q)
        mujoco.mj_kinematics(self._model, self._data)

    def _near(
        self, within: NDArray[np.float64], pairs: NDArray[np.intp] | None
    ) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """Pairs (of ``pairs``, or all) that may be nearer than ``within`` by their bounds, and their distances."""
        import mujoco

        index = np.arange(len(self._pairs.first)) if pairs is None else pairs
        kept = self._pairs.maybe_within(self._data.geom_xpos, within, index)
        first, second = self._pairs.first[index], self._pairs.second[index]
        distances = np.empty(len(kept))
        measure, model, data = mujoco.mj_geomDistance, self._model, self._data
        for i, k in enumerate(kept):
            distances[i] = measure(model, data, first[k], second[k], within[k], None)
        return index[kept], distances

    def _contact(self, pair: int, distance: float, at: float) -> Contact:
        return Contact(*self.pairs[pair], distance, float(self._margin[pair]), at)


def _compile(boxes: Sequence[KeepOut]) -> "mujoco.MjModel":
    import mujoco

    from .model import build_spec

    spec = build_spec(visuals=False)
    taken = {g.name for g in spec.geoms}
    for box in boxes:
        require(box.name not in taken, f"keep_out: the name {box.name!r} is one of the scene's own geometries")
        spec.worldbody.add_geom(
            name=box.name,
            type=mujoco.mjtGeom.mjGEOM_BOX,
            pos=box.center_m,
            size=[edge / 2.0 for edge in box.size_m],
        )
    return spec.compile()
