"""The last seconds of bus traffic, kept in memory and written to a file when something goes wrong."""

import os
import threading
from collections import deque
from datetime import UTC, datetime
from pathlib import Path

__all__ = ["KEPT_S", "BlackBox"]

KEPT_S = 10.0
"""How far back the recording goes (issue 3)."""


class BlackBox:
    """A ring of what went over the wire, byte for byte. Any thread may note and dump.

    Args:
        folder: Where dumps go; made at the first one. None keeps nothing on disk.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder
        self._ring: deque[tuple[int, str, bytes]] = deque()
        self._lock = threading.Lock()

    def note(self, t_ns: int, kind: str, data: bytes) -> None:
        """Keep bytes that went out (``kind`` ">"), came in ("<"), or a remark ("#", UTF-8)."""
        with self._lock:
            ring = self._ring
            ring.append((t_ns, kind, data))
            while ring[0][0] < t_ns - KEPT_S * 1e9:
                ring.popleft()

    def rows(self) -> list[tuple[int, str, bytes]]:
        """What is kept: (time [ns], kind, bytes), oldest first."""
        with self._lock:
            return list(self._ring)

    def dump(self, reason: str) -> Path | None:
        """Write what is kept, a line each: seconds before now, direction, bytes in hex; ``reason`` leads.

        Returns:
            The file, or None where there is no folder or it can't be written: a fault must not cause another.
        """
        if self.folder is None:
            return None
        rows = self.rows()
        last_ns = rows[-1][0] if rows else 0
        lines = [f"# {line}" for line in reason.splitlines()]
        lines += [f"# {KEPT_S:g} s of bus traffic; time in s before the last byte, > sent, < received, # remark"]
        for t_ns, kind, data in rows:
            text = data.decode(errors="replace") if kind == "#" else data.hex(" ")
            lines.append(f"{(t_ns - last_ns) / 1e9:+.6f} {kind} {text}")
        path = self.folder / f"fault-{datetime.now(UTC):%Y%m%d-%H%M%S-%f}.log"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            fresh = path.with_suffix(f".{os.getpid()}")
            fresh.write_text("\n".join(lines) + "\n")
            fresh.replace(path)
        except OSError:
            return None
        return path
