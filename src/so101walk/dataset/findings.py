"""What a check finds: one line with a stable code, how bad it is, and where."""

from dataclasses import asdict, dataclass
from typing import Any, Literal

__all__ = ["Finding", "Severity", "rows_text"]

Severity = Literal["error", "warning", "note"]
"""``error``: the dataset is not what it says. ``warning``: sound, but not what a random walk needs. Either makes
``check`` end with exit code 1. ``note``: told, for example what is unknown; it doesn't count."""


@dataclass(frozen=True)
class Finding:
    """One thing found.

    Attributes:
        code: Stable name, ``room.what``.
        severity: See :data:`Severity`.
        message: What, where, the limit and the mend, in one or two lines.
        episode: Index of the episode, None if it is about the dataset.
    """

    code: str
    severity: Severity
    message: str
    episode: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """As plain values for JSON."""
        return asdict(self)


def rows_text(first: int, last: int) -> str:
    """Rows of an episode in words: ``row 7`` or ``rows 7 to 26``."""
    return f"row {first}" if first == last else f"rows {first} to {last}"
