import os
import subprocess
import sys

import pytest

from so101walk.errors import HardwareError, UsageError
from so101walk.scene import gl


class Holder:
    def close(self):
        pass


@pytest.fixture
def machine(monkeypatch):
    """A Linux machine without GL settings; call it with the backends that are installed."""

    def has(*backends, mujoco_gl=None):
        monkeypatch.setattr(gl, "available", lambda name: name in backends)
        monkeypatch.setattr(sys, "platform", "linux")
        monkeypatch.setattr(gl, "_context", None)
        for name in ("LP_NUM_THREADS", "MUJOCO_GL"):
            monkeypatch.setenv(name, "")  # so that it is put back as it was, even if it wasn't there
            monkeypatch.delenv(name)
        if mujoco_gl is not None:
            monkeypatch.setenv("MUJOCO_GL", mujoco_gl)

    return has


@pytest.mark.parametrize(
    ("backends", "chosen"), [(("egl", "osmesa"), "egl"), (("egl",), "egl"), (("osmesa",), "osmesa"), ((), None)]
)
def test_takes_egl_then_osmesa(machine, backends, chosen):
    machine(*backends)
    gl.prepare()
    assert os.environ.get("MUJOCO_GL") == chosen


@pytest.mark.parametrize("asked", ["glfw", "osmesa", "OSMesa", "disabled"])
def test_respects_what_is_set(machine, asked):
    machine("egl", "osmesa", mujoco_gl=asked)
    gl.prepare()
    assert os.environ["MUJOCO_GL"] == asked


def test_draws_in_the_calling_thread_unless_told_otherwise(machine, monkeypatch):
    machine("egl")
    gl.prepare()
    assert os.environ["LP_NUM_THREADS"] == "0"
    monkeypatch.setenv("LP_NUM_THREADS", "2")
    gl.prepare()
    assert os.environ["LP_NUM_THREADS"] == "2"


def test_without_a_library_a_model_can_be_prepared_but_no_context_opened(machine):
    machine()
    gl.prepare()
    with pytest.raises(HardwareError, match="libegl1 and libgl1-mesa-dri") as e:
        gl.open_context(Holder())
    assert "libosmesa6" in str(e.value)
    assert "\n" not in str(e.value)


@pytest.mark.parametrize(("asked", "package"), [("egl", "libegl1"), ("osmesa", "libosmesa6")])
def test_a_missing_library_that_was_asked_for_is_named_with_its_package(machine, asked, package):
    machine(mujoco_gl=asked)
    with pytest.raises(HardwareError, match=package):
        gl.prepare()


def test_an_unknown_backend_is_refused(machine):
    machine("egl", mujoco_gl="vulkan")
    with pytest.raises(UsageError, match="MUJOCO_GL is 'vulkan'"):
        gl.prepare()


def test_switched_off_opengl_is_told(machine):
    machine("egl", mujoco_gl="off")
    with pytest.raises(HardwareError, match="switches OpenGL off"):
        gl.open_context(Holder())


def test_a_backend_that_fails_to_start_is_told_with_its_package(machine, monkeypatch):
    machine("egl", mujoco_gl="egl")

    def broken(backend):
        raise ImportError("Cannot initialize a EGL device display")

    monkeypatch.setattr(gl, "_context_class", broken)
    with pytest.raises(HardwareError, match=r"EGL device display.*libgl1-mesa-dri"):
        gl.open_context(Holder())


def test_a_library_that_cannot_be_loaded_is_not_available(monkeypatch):
    def refuse(name, *args, **kwargs):
        raise OSError(name)

    monkeypatch.setattr(gl.ctypes, "CDLL", refuse)
    assert not gl.available("egl")
    assert not gl.available("osmesa")


def test_egl_without_a_device_is_not_available(monkeypatch):
    monkeypatch.setattr(gl.ctypes, "CDLL", lambda name: object())
    monkeypatch.setattr(gl, "_egl_devices", lambda egl: 0)
    assert not gl.available("egl")


@pytest.mark.parametrize("close", ["", "world.close()"])
def test_the_interpreter_ends_without_a_word(close):
    script = f"""
import dataclasses, mujoco
from so101walk.rig import CameraConfig, Rig
from so101walk.scene.world import World
world = World(Rig("t", cameras={{"front": CameraConfig(width=32, height=32)}}))
world.start_capture("front")
print(world.drain("front")[0].rgb.shape)
{close}
"""
    environment = {k: v for k, v in os.environ.items() if k not in ("MUJOCO_GL", "PYOPENGL_PLATFORM")}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "(32, 32, 3)\n", "")
