"""``so101walk bars``: pass marks, frozen before anything is computed."""

from pathlib import Path

import click

__all__ = ["command"]


@click.group("bars")
def command() -> None:
    """Pass marks for a probe, stated in a TOML file and frozen before anything is computed."""


@command.command("freeze")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
def freeze(file: Path, as_json: bool) -> None:
    """Write the hash of a bars FILE and the time into the ledger beside it.

    A file that is changed afterwards must be frozen again, and its verdicts count for latents made from then on.
    """
    import datetime
    import json

    from ..errors import UsageError
    from ..probe import bars

    if not file.is_file():
        raise UsageError(f"bars file {file} does not exist")
    frozen_s, now = bars.freeze(file)
    when = datetime.datetime.fromtimestamp(frozen_s, datetime.UTC).isoformat(timespec="seconds")
    if as_json:
        click.echo(json.dumps({"file": str(file), "frozen": when, "frozen_s": frozen_s, "new": now}))
    else:
        click.echo(f"{file}: {'frozen' if now else 'was frozen already,'} at {when}")
