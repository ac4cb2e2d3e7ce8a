"""How a crossed threshold ends an episode: a named response, the motor, the likely cause and the mend."""

from typing import Literal

from ..errors import SafetyStop

__all__ = ["EpisodeStop", "Response", "error_bits"]

Response = Literal["back_off", "hold", "cool_down", "stop"]
"""What the arm does about it.

* ``back_off``: goes slowly back to the last waypoint it reached; the episode is done again.
* ``hold``: stays where it is until it is told what next; the episode is done again.
* ``cool_down``: goes to rest, lets go, and waits for a second threshold; the episode is done again.
* ``stop``: nothing more is sent but torque off; the session ends.
"""

ERROR_BITS: dict[int, tuple[str, str]] = {
    0x01: ("input voltage", "wrong supply for these servos (7.4 V or 12 V variant), or a supply too weak"),
    0x02: ("angle sensor", "the encoder's magnet or board; replace the servo"),
    0x04: ("overheated", "let it cool down; lower the speed or rest more often"),
    0x08: ("over-current", "something blocks the joint, or a cable is pinched"),
    0x20: ("overload", "something blocks the joint or the load is too heavy; the latch goes with a power cycle"),
}
"""Bit of the Status register to its name and likely cause (Feetech's protocol manual; LeRobot's SDK names the same)."""


def error_bits(status: int) -> list[tuple[str, str]]:
    """Name and likely cause of each error bit that is set in a servo's status."""
    known = [text for bit, text in ERROR_BITS.items() if status & bit]
    unknown = status & ~sum(ERROR_BITS)
    return [*known, (f"error bits 0x{unknown:02x}", "see the servo's manual")] if unknown else known


class EpisodeStop(SafetyStop):
    """A threshold was crossed on a real arm.

    Args:
        response: What the arm does about it.
        cause: One word for counting, such as ``tracking`` or ``overload``.
        message: What, where, the limit and the mend.
        motor: The joint concerned, or "" where it is the bus, a camera or the loop.
    """

    def __init__(self, response: Response, cause: str, message: str, motor: str = "") -> None:
        super().__init__(message)
        self.response: Response = response
        self.cause = cause
        self.motor = motor
