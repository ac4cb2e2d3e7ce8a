"""What stands around the simulated arm: a table, a room, lights and the two cameras.

None of it is measured on a real set-up; each number is a choice of ours and says what it was chosen for. Lengths are in
metres in the frame of the arm's base: x ahead of it, y to its left, z up, origin at the model's ``baseframe`` site.
"""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import mujoco

__all__ = ["FRONT_CAMERA", "TABLE", "TABLE_TOP_M", "WRIST_CAMERA", "add_room", "aim_cameras"]

FRONT_CAMERA = "front"
TABLE = "table"

TABLE_TOP_M = -0.0024
"""Height of the table top: the underside of the mesh ``base_so101_v2``, so that the arm's base stands on it."""

TABLE_HALF_M = (0.60, 0.60, 0.02)
"""Half-sizes of the table: it passes the arm's reach (0.43 m from the pan axis) on every side, and 4 cm of thickness
is more than any link moves in a physics step, so nothing tunnels through."""

TABLE_CENTRE_XY_M = (0.15, 0.0)
"""The table reaches 0.45 m behind the base, so a swing to the rear meets it as well, and 0.75 m ahead."""

ROOM_LOW_M = (-0.90, -1.30, -0.75)
ROOM_HIGH_M = (1.40, 1.30, 1.50)
"""Corners of the room: no wall within the arm's reach, the table at a desk's height over the floor, the front camera
inside. The walls are near, so that what the wrist camera sees changes with its place too, not only its direction."""

FRONT_EYE_M = (0.95, -0.40, 0.50)
"""Where a webcam on a small tripod would stand: ahead, to the right, above the arm, out of its reach. Off the arm's
plane of symmetry, so that a pan to the left and one to the right differ in more than the sign."""

FRONT_TARGET_M = (0.13, 0.0, 0.22)
"""What it looks at: about the middle of the room that the arm takes up over a walk."""

FRONT_FOVY_DEG = 44.0
"""So wide that the whole arm is in view in more than 99 % of the poses of issue 2's hand-made walk (center (0, -0.6,
-0.3, 0.3, 0, 0.6) rad, scale a third of the way to the nearer limit); tests/scene/test_room.py counts them."""

WRIST_CAMERA = "wrist_cam"
WRIST_QUAT = (0.9596616, -0.2811575, 0.0, 0.0)
"""How the Menagerie model's wrist camera is turned on its body: its ``euler="-0.57 0 0"`` [rad]."""

WRIST_YAW_DEG = 25.0
WRIST_PITCH_DEG = -15.0
WRIST_FOVY_DEG = 90.0
"""How we turn it further (towards the moving jaw, and down), and its lens. As it comes (48.5 deg high) a square image
loses the moving jaw's tip when the gripper is 27 % open, and one as wide as the sensor (77 deg) at 42 %. Like this both
tips are in view from closed to 80 % open; tests/scene/test_room.py checks it."""

TEXTURE_PX = 64
"""Side of a texture: a texel is 2 cm on a wall (a dot), 3 mm on the table (32 a check). Small ones sample fastest."""

TEXTURES: dict[str, tuple[tuple[tuple[float, ...], tuple[float, ...]], float, float]] = {
    "table": (((0.62, 0.56, 0.47), (0.50, 0.44, 0.36)), 6.0, 0.0),
    "floor": (((0.35, 0.33, 0.32), (0.30, 0.28, 0.27)), 4.0, 0.01),
    "wall": (((0.80, 0.80, 0.80), (0.72, 0.72, 0.72)), 2.0, 0.01),
}
"""Two colours of a checker, how often it repeats on a surface, share of dotted texels. Enough that no image is flat."""

WALLS: dict[str, tuple[int, int]] = {
    "wall_rear": (0, -1),
    "wall_ahead": (0, 1),
    "wall_right": (1, -1),
    "wall_left": (1, 1),
    "floor": (2, -1),
    "ceiling": (2, 1),
}
"""The room's sides: the axis they stand across, and at which end of it."""

WALL_TINTS: dict[str, tuple[float, float, float]] = {
    "wall_rear": (0.72, 0.82, 0.92),
    "wall_ahead": (0.92, 0.80, 0.72),
    "wall_right": (0.78, 0.90, 0.76),
    "wall_left": (0.88, 0.78, 0.90),
    "floor": (1.0, 1.0, 1.0),
    "ceiling": (1.0, 1.0, 1.0),
}
"""A tint for each side, so that the wrist camera's images tell directions apart."""


def add_room(spec: "mujoco.MjSpec") -> None:
    """Add the table, the room and the lights to a model under construction."""
    import mujoco

    world = spec.worldbody
    _add_textures(spec)
    table = world.add_geom(
        name=TABLE,
        type=mujoco.mjtGeom.mjGEOM_BOX,
        size=TABLE_HALF_M,
        pos=(*TABLE_CENTRE_XY_M, TABLE_TOP_M - TABLE_HALF_M[2]),
        material="table",
    )
    table.friction = (1.0, 5e-3, 1e-4)  # MuJoCo's defaults, stated because the gripper's pads have their own
    _add_walls(world)
    # A lamp above and to the left gives the shading that tells surfaces apart; the headlight fills what it leaves dark.
    world.add_light(
        name="lamp",
        type=mujoco.mjtLightType.mjLIGHT_DIRECTIONAL,
        pos=(0.4, 0.6, 1.5),
        dir=(-0.25, -0.4, -0.9),
        diffuse=(0.55, 0.55, 0.55),
        specular=(0.1, 0.1, 0.1),
        castshadow=False,
    )
    headlight = spec.visual.headlight
    headlight.ambient = (0.35, 0.35, 0.35)
    headlight.diffuse = (0.35, 0.35, 0.35)
    headlight.specular = (0.0, 0.0, 0.0)


def aim_cameras(spec: "mujoco.MjSpec") -> None:
    """Add the front camera to a model under construction, and turn the wrist camera that it has."""
    import mujoco

    front = spec.worldbody.add_camera(name=FRONT_CAMERA, pos=FRONT_EYE_M, fovy=FRONT_FOVY_DEG)
    front.quat = _look_at(FRONT_EYE_M, FRONT_TARGET_M)
    wrist = spec.camera(WRIST_CAMERA)
    wrist.fovy = WRIST_FOVY_DEG
    wrist.quat = _turned(WRIST_QUAT, WRIST_YAW_DEG, WRIST_PITCH_DEG)
    wrist.alt.type = mujoco.mjtOrientation.mjORIENTATION_QUAT


def _add_walls(world: "mujoco.MjsBody") -> None:
    import mujoco

    low, high = np.array(ROOM_LOW_M), np.array(ROOM_HIGH_M)
    centre, half = (low + high) / 2, (high - low) / 2
    across = {0: (2, 1), 1: (0, 2), 2: (0, 1)}  # which axes a wall's own x and y run along, by the axis of its normal
    for name, (axis, end) in WALLS.items():
        position = centre.copy()
        position[axis] += end * half[axis]
        along_x, along_y = across[axis]
        world.add_geom(
            name=name,
            type=mujoco.mjtGeom.mjGEOM_PLANE,
            size=(half[along_x], half[along_y], 0.1),
            pos=position,
            quat=_facing(axis, -end),
            material="floor" if name == "floor" else "wall",
            rgba=(*WALL_TINTS[name], 1.0),
            contype=0,
            conaffinity=0,
        )


def _facing(axis: int, sign: int) -> NDArray[np.float64]:
    """Orientation of a plane whose normal is ``sign`` times an axis of the world."""
    import mujoco

    normal, quat = np.zeros(3), np.empty(4)
    normal[axis] = sign
    if axis == 2 and sign < 0:
        return np.array([0.0, 1.0, 0.0, 0.0])
    mujoco.mju_quatZ2Vec(quat, normal)
    return quat


def _add_textures(spec: "mujoco.MjSpec") -> None:
    import mujoco

    for name, (colours, repeat, dots) in TEXTURES.items():
        spec.add_texture(
            name=name,
            type=mujoco.mjtTexture.mjTEXTURE_2D,
            builtin=mujoco.mjtBuiltin.mjBUILTIN_CHECKER,
            width=TEXTURE_PX,
            height=TEXTURE_PX,
            rgb1=colours[0],
            rgb2=colours[1],
            mark=mujoco.mjtMark.mjMARK_RANDOM,
            markrgb=(0.30, 0.25, 0.25),
            random=dots,
        )
        material = spec.add_material(name=name, texrepeat=(repeat, repeat), texuniform=False)
        material.textures[mujoco.mjtTextureRole.mjTEXROLE_RGB] = name
        material.specular = 0.0
        material.reflectance = 0.0


def _look_at(eye: tuple[float, ...], target: tuple[float, ...]) -> NDArray[np.float64]:
    """Orientation (w, x, y, z) of a camera at ``eye`` that looks at ``target``, upright; cameras look along -z."""
    import mujoco

    backward = np.subtract(eye, target)
    backward /= np.linalg.norm(backward)
    right = np.cross((0.0, 0.0, 1.0), backward)
    right /= np.linalg.norm(right)
    quat = np.empty(4)
    mujoco.mju_mat2Quat(quat, np.stack([right, np.cross(backward, right), backward], axis=1).ravel())
    return quat


def _turned(start: tuple[float, ...], yaw_deg: float, pitch_deg: float) -> NDArray[np.float64]:
    """A camera's orientation after a turn to its right by ``yaw_deg`` and then up by ``pitch_deg``."""
    import mujoco

    quat = np.array(start)
    for axis, angle in (((0.0, 1.0, 0.0), -yaw_deg), ((1.0, 0.0, 0.0), pitch_deg)):
        turn, out = np.empty(4), np.empty(4)
        mujoco.mju_axisAngle2Quat(turn, np.array(axis), np.radians(angle))
        mujoco.mju_mulQuat(out, quat, turn)
        quat = out
    return quat
