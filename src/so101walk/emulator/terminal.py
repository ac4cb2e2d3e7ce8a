"""A raw pseudo-terminal behind a symbolic link: what a LeRobot program opens as the arm's serial port."""

import errno
import os
import pty
import termios
import tty
from pathlib import Path

from ..errors import UsageError

__all__ = ["Terminal"]


class Terminal:
    """One end of a pseudo-terminal; the other is at ``link``.

    Both ends stay open here, so that a client may come and go. Reads and writes never block.

    Args:
        link: Where the symbolic link to the terminal goes. A stale link is replaced.

    Raises:
        UsageError: Something that isn't a link is there already, or the folder can't be written to.
    """

    def __init__(self, link: Path) -> None:
        self.link = link
        self.tty = ""
        self._master = self._slave = -1
        self.open()

    @property
    def fd(self) -> int:
        """File descriptor of our end, for ``select``; -1 while hung up."""
        return self._master

    def open(self) -> None:
        """Make a terminal and point the link at it, in one step. Does nothing if it is open."""
        if self._master >= 0:
            return
        if self.link.exists() and not self.link.is_symlink():
            raise UsageError(f"{self.link} exists and isn't a link; give --link a path that is free")
        self._master, self._slave = pty.openpty()
        tty.setraw(self._slave, termios.TCSANOW)
        os.set_blocking(self._master, False)
        self.tty = os.ttyname(self._slave)
        fresh = self.link.with_name(f".{self.link.name}.{os.getpid()}")
        try:
            fresh.unlink(missing_ok=True)
            fresh.symlink_to(self.tty)
            fresh.replace(self.link)
        except OSError as e:
            self.hang_up()
            raise UsageError(f"{self.link} can't be made ({e.strerror}); give --link a path that can be written") from e

    def read(self) -> bytes:
        """What clients have written since the last read; empty if nothing."""
        try:
            return os.read(self._master, 4096)
        except OSError as e:
            if e.errno in (errno.EAGAIN, errno.EIO):
                return b""
            raise

    def write(self, data: bytes) -> None:
        """Send to the client. What nobody reads is lost once the terminal's buffer is full, as on a wire."""
        try:
            os.write(self._master, data)
        except BlockingIOError:
            termios.tcflush(self._slave, termios.TCIFLUSH)

    def hang_up(self) -> None:
        """Take the terminal away from whoever has it open, as when the plug is pulled; the link goes too."""
        if self._master < 0:
            return
        if self.link.is_symlink() and os.readlink(self.link) == self.tty:
            self.link.unlink()
        os.close(self._master)
        os.close(self._slave)
        self._master = self._slave = -1

    close = hang_up
