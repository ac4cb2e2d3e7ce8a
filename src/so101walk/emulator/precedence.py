"""Hardware doesn't wait for the computer; processes that stand in for it ask to go before others."""

import os

__all__ = ["go_first"]


def go_first(priority: int) -> str:
    """Give this process, and threads that it starts later, precedence over ordinary ones, as far as that is allowed.

    Real time is asked for first, since niceness doesn't reach beyond a session where the kernel groups them. Only for
    processes that sleep most of the time.

    Args:
        priority: Round-robin priority, 1 or more; higher goes first.

    Returns:
        ``"real time"``, ``"nice"`` or ``"nothing"``: with nothing, a busy machine makes the emulated hardware late.
    """
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(priority))
        return "real time"
    except (OSError, AttributeError):  # not allowed; or no such thing on this system
        pass
    try:
        os.nice(-10)
        return "nice"
    except OSError:
        return "nothing"
