"""The MuJoCo model of the simulated rig: the Menagerie SO-101 on a table, every collision geometry named.

The arm's files (XML and meshes of MuJoCo Menagerie's ``robotstudio_so101``) come with the package ``so101-nexus``; they
are found without importing it. What is changed against the original: the base gets collision boxes (it has none), the
camera mount gets the inertia that its mesh implied, meshes for show are merged and decimated, a room is added.
"""

import importlib.util
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import ConfigError, HardwareError, nearest
from ..rig import CameraConfig
from .gl import prepare
from .room import FRONT_CAMERA, WRIST_CAMERA, add_room, aim_cameras

if TYPE_CHECKING:
    import mujoco

    from .meshes import Part

__all__ = ["BASE_BOXES_M", "GRIPPER_SITE", "VIEWS", "build_spec", "load_model", "model_file", "view_of"]

VIEWS: dict[str, str] = {"front": FRONT_CAMERA, "wrist": WRIST_CAMERA}
"""What ``view`` in a rig file may say, and the model's camera that it means (the wrist's is the Menagerie model's)."""

GRIPPER_SITE = "gripperframe"
"""The Menagerie model's site between the finger tips."""

BASE_BOXES_M: dict[str, tuple[tuple[float, float, float], tuple[float, float, float]]] = {
    "base_foot": ((-0.0224, -0.0555, -0.0024), (0.0646, 0.0555, 0.0166)),
    "base_column": ((-0.0310, -0.0257, 0.0166), (0.0530, 0.0253, 0.0696)),
}
"""Collision boxes of the base (lower corner, upper corner) [m], base frame. They are the bounding box of the four base
meshes, cut where the wide foot ends (16.6 mm) and boxed anew on each side; tests/scene/test_model.py derives them."""

VISUAL_GROUP = 2
COLLISION_GROUPS = (3, 4)
"""Geometry groups of the Menagerie model: what is only seen, and what collides."""

CAMERA_MOUNT = "camera_mount"
CAMERA_MOUNT_MASS_KG = 0.012
CAMERA_MOUNT_COM_M = (-0.0009316, 0.05015953, -0.03543815)
CAMERA_MOUNT_INERTIA_KG_M2 = (4.87199635e-06, 3.83376424e-06, 1.17272829e-06)
CAMERA_MOUNT_QUAT = (-0.37099122, 0.60391814, -0.59801537, -0.37420049)
"""Inertia of the camera mount, as MuJoCo derives it from its mesh in the original: the only body whose inertia the XML
leaves to its mesh. Stated here, the dynamics don't depend on which meshes are shown. Tested against the original."""


def model_file() -> Path:
    """The Menagerie SO-101's XML among the files of the ``so101-nexus`` package, found without importing the package.

    Raises:
        HardwareError: The package or the file in it is missing; the message says how to get it.
    """
    found = importlib.util.find_spec("so101_nexus")
    if found is None or found.origin is None:
        raise HardwareError(
            "the SO-101's model is missing: package so101-nexus isn't installed. pip install so101-nexus"
        )
    path = Path(found.origin).parent / "assets" / "SO101_menagerie" / "so101.xml"
    if not path.is_file():
        raise HardwareError(f"{path} is missing from package so101-nexus. Install so101-nexus 0.10 again")
    return path


def view_of(name: str, camera: CameraConfig) -> str:
    """The model's camera that a rig's camera stands for: by its ``view``, else by its name.

    Raises:
        ConfigError: It has no view, and its name isn't one.
    """
    view = camera.view or name
    if view not in VIEWS:
        raise ConfigError(f'camera {name!r} has no view; state view = "front" or "wrist" ({nearest(name, VIEWS)})')
    return VIEWS[view]


def load_model(
    cameras: Mapping[str, CameraConfig] | None = None,
    *,
    visuals: bool = True,
    full_meshes: bool = False,
    physics_hz: float = 300.0,
) -> "mujoco.MjModel":
    """The simulated rig as a compiled model: :func:`build_spec`, compiled. Arguments and errors are the same."""
    return build_spec(cameras, visuals=visuals, full_meshes=full_meshes, physics_hz=physics_hz).compile()


def build_spec(
    cameras: Mapping[str, CameraConfig] | None = None,
    *,
    visuals: bool = True,
    full_meshes: bool = False,
    physics_hz: float = 300.0,
) -> "mujoco.MjSpec":
    """The simulated rig as a specification that more can be added to before it is compiled.

    Args:
        cameras: A rig's cameras; the off-screen buffer is made as large as the largest of them.
        visuals: Keep what is there only to be seen. Without it the model loads in a fraction of the time.
        full_meshes: Show the original meshes (360,000 triangles) instead of the decimated ones.
        physics_hz: Physics steps a second.

    Returns:
        A specification with six joints and six position actuators in the order of :data:`so101walk.joints.JOINTS`.
        Every collision geometry has a name; the table is ``table``.

    Raises:
        HardwareError: The model's files are missing, or ``MUJOCO_GL`` names a library that is.
        ConfigError: A camera has no view.
    """
    prepare()
    import mujoco

    spec = mujoco.MjSpec.from_file(str(model_file()))
    spec.option.timestep = 1.0 / physics_hz
    _state_camera_mount_inertia(spec)
    _add_base_boxes(spec)
    _name_collision_geoms(spec)
    if not visuals:
        _drop_visuals(spec)
    elif not full_meshes:
        from .meshes import decimated_parts

        parts = decimated_parts(model_file())
        _drop_visuals(spec)
        _add_parts(spec, parts)
    _drop_unused_meshes(spec)
    add_room(spec)
    aim_cameras(spec)
    _size_buffer(spec, cameras or {})
    return spec


def _state_camera_mount_inertia(spec: "mujoco.MjSpec") -> None:
    body = spec.body(CAMERA_MOUNT)
    body.explicitinertial = True
    body.mass = CAMERA_MOUNT_MASS_KG
    body.ipos = CAMERA_MOUNT_COM_M
    body.inertia = CAMERA_MOUNT_INERTIA_KG_M2
    body.iquat = CAMERA_MOUNT_QUAT


def _add_base_boxes(spec: "mujoco.MjSpec") -> None:
    import mujoco

    base = spec.body("base")
    for name, (low, high) in BASE_BOXES_M.items():
        base.add_geom(
            spec.find_default("collision"),
            name=name,
            type=mujoco.mjtGeom.mjGEOM_BOX,
            pos=[(a + b) / 2 for a, b in zip(low, high, strict=True)],
            size=[(b - a) / 2 for a, b in zip(low, high, strict=True)],
        )
    # The shoulder turns on the base and the base stands on the table: touching there is how the arm is built.
    spec.add_exclude(bodyname1="base", bodyname2="shoulder")
    spec.add_exclude(bodyname1="world", bodyname2="base")


def _name_collision_geoms(spec: "mujoco.MjSpec") -> None:
    for body in spec.bodies[1:]:
        nameless = (g for g in body.geoms if g.group in COLLISION_GROUPS and not g.name)
        for i, geom in enumerate(nameless):
            geom.name = f"{body.name}_{i}"


def _drop_visuals(spec: "mujoco.MjSpec") -> None:
    for geom in [g for g in spec.geoms if g.group == VISUAL_GROUP]:
        spec.delete(geom)


def _drop_unused_meshes(spec: "mujoco.MjSpec") -> None:
    used = {g.meshname for g in spec.geoms}
    for mesh in [m for m in spec.meshes if m.name not in used]:
        spec.delete(mesh)


def _add_parts(spec: "mujoco.MjSpec", parts: "Sequence[Part]") -> None:
    import mujoco

    for part in parts:
        spec.add_mesh(
            name=part.name,
            uservert=part.vertices.ravel(),
            userface=part.faces.ravel(),
            inertia=mujoco.mjtMeshInertia.mjMESH_INERTIA_SHELL,  # decimation leaves holes; a shell needs no volume
        )
        spec.body(part.body).add_geom(
            spec.find_default("visual"), type=mujoco.mjtGeom.mjGEOM_MESH, meshname=part.name, rgba=part.rgba
        )


def _size_buffer(spec: "mujoco.MjSpec", cameras: Mapping[str, CameraConfig]) -> None:
    for name, camera in cameras.items():
        view_of(name, camera)
    spec.visual.global_.offwidth = max((c.width for c in cameras.values()), default=640)
    spec.visual.global_.offheight = max((c.height for c in cameras.values()), default=480)
    spec.visual.quality.shadowsize = 0
    spec.visual.quality.offsamples = 0  # multisampling costs software rendering a factor of its sample count
