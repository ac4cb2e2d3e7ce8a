"""An envelope as a TOML file that a person can read and edit."""

import os
from collections.abc import Sequence
from pathlib import Path

from ..envelope import Envelope
from ..errors import UsageError
from ..joints import JOINTS, UNITS

__all__ = ["envelope_toml", "may_write", "write_envelope"]


def envelope_toml(envelope: Envelope, notes: Sequence[str] = ()) -> str:
    """The envelope as :func:`so101walk.envelope.load_envelope` reads it, led by ``notes`` as comment lines."""
    lines = [f"# {note}" if note else "#" for note in notes]
    lines += [f'name = "{envelope.name}"', ""]
    for i, (joint, unit) in enumerate(zip(JOINTS, UNITS, strict=True)):
        lines.append(f"[joints.{joint}]  # {'degrees' if unit == 'deg' else '0 closed to 100 open'}")
        lines += [f"{key} = {getattr(envelope, key)[i]:.10g}" for key in ("center", "scale", "lower", "upper")]
        lines.append("")
    if envelope.clearance is not None:
        lines += [
            "[clearance]  # metres, kept at every checked pose; between poses it may be 2 mm less",
            f"table_m = {envelope.clearance.table_m:.10g}  # from the table and from keep-out boxes",
            f"self_m = {envelope.clearance.self_m:.10g}  # between links that don't share a joint",
            "",
        ]
        for box in envelope.clearance.keep_out:
            center, size = (", ".join(f"{v:.10g}" for v in values) for values in (box.center_m, box.size_m))
            lines += [
                "[[clearance.keep_out]]",
                f'name = "{box.name}"',
                f"center_m = [{center}]",
                f"size_m = [{size}]",
                "",
            ]
    return "\n".join(lines)


def may_write(path: Path, force: bool) -> None:
    """Say now, before the work, whether a file could be written there.

    Raises:
        UsageError: It exists and ``force`` is not set, or its folder can't be written to.
    """
    if path.exists() and not force:
        raise UsageError(f"{path} exists; give --force to replace it, or another --out")
    folder = path.parent
    while not folder.exists():
        folder = folder.parent
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise UsageError(f"{path} can't be written: {folder} is not a folder that you may write to")


def write_envelope(path: Path, text: str) -> None:
    """Write the file as a whole or not at all, folders included.

    Raises:
        UsageError: It can't be written.
    """
    partial = path.with_name(f".{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with partial.open("w") as f:
            f.write(text)
            f.flush()
            os.fsync(f.fileno())
        partial.replace(path)
    except OSError as e:
        partial.unlink(missing_ok=True)
        raise UsageError(f"{path} can't be written: {e.strerror}") from e
