"""Which OpenGL draws the simulated cameras, and the one context a process draws in.

MuJoCo picks its backend from ``MUJOCO_GL`` when it is imported, and without it asks for a display. So whoever imports
mujoco calls :func:`prepare` first. A context belongs to the thread that made it; worker processes are spawned, not
forked, and each makes its own.
"""

import atexit
import contextlib
import ctypes
import os
import sys
import weakref
from typing import Any, Protocol

from ..errors import HardwareError, UsageError

__all__ = ["Closeable", "available", "open_context", "prepare"]

PACKAGES = {"egl": "libegl1 and libgl1-mesa-dri", "osmesa": "libosmesa6"}
"""Debian and Ubuntu packages that bring each backend."""

DISABLED = ("disable", "disabled", "off", "false", "0")
KNOWN = ("", "enable", "enabled", "on", "true", "1", "egl", "osmesa", "glfw", "glx", "wgl", "cgl", *DISABLED)
"""What MuJoCo lets ``MUJOCO_GL`` say (mujoco 3.17, ``rendering/classic/gl_context.py``)."""

RASTERIZER_THREADS = "0"
"""``LP_NUM_THREADS`` of Mesa's llvmpipe: 0 draws in the calling thread. On 2 cores a two-view frame of 224 px takes
1.5 ms so, 1.8 ms with one thread beside it and 1.6 ms with two, which then aren't there for a second worker."""


class Closeable(Protocol):
    """What holds OpenGL objects: closed before the context goes."""

    def close(self) -> None:
        """Free the OpenGL objects; safe to call more than once."""
        ...


def prepare() -> None:
    """Choose the OpenGL backend, before mujoco is imported. Cheap, and safe to call any number of times.

    ``MUJOCO_GL`` is respected if it is set. Otherwise, on Linux, EGL is taken if its library finds a device, else
    OSMesa if it is there; with neither nothing is chosen, since a model can be loaded without drawing it. Elsewhere
    MuJoCo's own choice stands.

    Raises:
        UsageError: ``MUJOCO_GL`` says what MuJoCo doesn't know.
        HardwareError: ``MUJOCO_GL`` names a backend whose library isn't there.
    """
    os.environ.setdefault("LP_NUM_THREADS", RASTERIZER_THREADS)
    asked = os.environ.get("MUJOCO_GL", "").lower().strip()
    if asked not in KNOWN:
        raise UsageError(
            f"MUJOCO_GL is {asked!r}; it must be egl, osmesa or glfw. Unset it and the choice is made for you"
        )
    if not sys.platform.startswith("linux"):
        return
    if asked in PACKAGES and not available(asked):
        raise HardwareError(
            f"MUJOCO_GL={asked}, but its library finds nothing to draw with. Install {PACKAGES[asked]} "
            f"(Debian, Ubuntu), or unset MUJOCO_GL"
        )
    if not asked:
        found = next((name for name in PACKAGES if available(name)), None)
        if found is not None:
            os.environ["MUJOCO_GL"] = found


def available(backend: str) -> bool:
    """Whether a backend's library can be loaded and, for EGL, lists a device to draw with."""
    if backend == "osmesa":
        return any(_library(name) is not None for name in ("libOSMesa.so.8", "libOSMesa.so.6", "libOSMesa.so"))
    egl = _library("libEGL.so.1")
    return egl is not None and _egl_devices(egl) > 0


def _library(name: str) -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL(name)
    except OSError:
        return None


def _egl_devices(egl: ctypes.CDLL) -> int:
    egl.eglGetProcAddress.restype = ctypes.c_void_p
    address = egl.eglGetProcAddress(b"eglQueryDevicesEXT")
    if not address:
        return 0
    query = ctypes.CFUNCTYPE(ctypes.c_uint, ctypes.c_int32, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int32))(address)
    count = ctypes.c_int32(0)
    return count.value if query(0, None, ctypes.byref(count)) else 0


_context: Any = None
_context_pid = -1
_holders: "weakref.WeakSet[Closeable]" = weakref.WeakSet()


def open_context(holder: Closeable) -> Any:
    """The OpenGL context of this process, made at the first call and current when this returns.

    Args:
        holder: What will draw in it; it is closed at the interpreter's exit, before the context is.

    Raises:
        HardwareError: No OpenGL library is there, or it can't draw without a screen; names the package to install.
    """
    global _context, _context_pid
    prepare()
    if _context is None or _context_pid != os.getpid():
        _context = _new_context()
        _context_pid = os.getpid()
        atexit.register(_close_all)  # after mujoco's own handler for EGL's display, so it runs before that
    _holders.add(holder)
    _context.make_current()
    return _context


def _new_context() -> Any:
    asked = os.environ.get("MUJOCO_GL", "").lower().strip()
    if asked in DISABLED:
        raise HardwareError(f"the cameras can't be drawn: MUJOCO_GL={asked} switches OpenGL off. Unset it")
    if sys.platform.startswith("linux") and not asked:
        raise HardwareError(
            f"no OpenGL library to draw the cameras with. Install {PACKAGES['egl']} (Debian, Ubuntu), "
            f"or {PACKAGES['osmesa']}"
        )
    try:
        context = _context_class(asked)(64, 64)  # MuJoCo draws into a buffer of its own, so this size doesn't matter
        context.make_current()
    except Exception as e:  # each backend raises its own kinds, from ImportError to OpenGL.error.GLError
        package = PACKAGES.get(asked)
        mend = f"Install {package} (Debian, Ubuntu)" if package else "Set MUJOCO_GL to egl or osmesa"
        raise HardwareError(f"OpenGL can't be started ({asked or 'default backend'}: {e}). {mend}") from e
    return context


def _context_class(backend: str) -> Any:
    # Asked for by name, because mujoco may have been imported (by other code) before MUJOCO_GL was set.
    if backend == "egl":
        from mujoco.egl import GLContext
    elif backend == "osmesa":
        from mujoco.osmesa import GLContext
    else:
        from mujoco import GLContext
    return GLContext


def _close_all() -> None:
    global _context
    if _context_pid != os.getpid():
        return
    for holder in list(_holders):
        holder.close()
    if _context is not None:
        with contextlib.suppress(Exception):
            _context.free()
        _context = None
