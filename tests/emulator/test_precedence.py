"""Asking for precedence never fails, allowed or not, and says what came of it."""

import os

import pytest

from so101walk.emulator.precedence import go_first


def no(*_):
    raise PermissionError(1, "not allowed")


@pytest.mark.parametrize(
    ("scheduler", "nice", "said"),
    [(True, True, "real time"), (False, True, "nice"), (False, False, "nothing")],
)
def test_the_most_that_is_allowed(monkeypatch, scheduler, nice, said):
    asked = []
    monkeypatch.setattr(os, "sched_setscheduler", (lambda *a: asked.append(a)) if scheduler else no)
    monkeypatch.setattr(os, "nice", (lambda n: asked.append(n)) if nice else no)
    assert go_first(2) == said
    if scheduler:
        ((pid, policy, parameters),) = asked
        assert (pid, policy, parameters.sched_priority) == (0, os.SCHED_RR, 2)
    elif nice:
        assert asked == [-10]


def test_a_system_without_real_time(monkeypatch):
    monkeypatch.delattr(os, "sched_setscheduler")
    monkeypatch.setattr(os, "nice", no)
    assert go_first(1) == "nothing"
