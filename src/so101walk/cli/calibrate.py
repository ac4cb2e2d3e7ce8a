"""``so101walk calibrate``: a group of measurements, each imported only when it is called."""

import importlib

import click

from ..errors import nearest

__all__ = ["command"]

SUBCOMMANDS: dict[str, str] = {
    "envelope": "Find the largest safe walk: center and scale of every joint.",
}
"""Subcommand to its short help; each lives in ``cli/calibrate_<name>.py`` as ``command``."""


class CalibrateGroup(click.Group):
    """Subcommands by name, imported late."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of all subcommands."""
        return list(SUBCOMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one subcommand; None if there is none of that name."""
        if cmd_name not in SUBCOMMANDS:
            return None
        command: click.Command = importlib.import_module(f"so101walk.cli.calibrate_{cmd_name}").command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click's, with the nearest subcommand named when there is none of that name."""
        if args and args[0] not in SUBCOMMANDS and not args[0].startswith("-"):
            raise click.UsageError(f"nothing to calibrate called {args[0]!r}; {nearest(args[0], SUBCOMMANDS)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list from the table above, without importing anything."""
        with formatter.section("Commands"):
            formatter.write_dl(list(SUBCOMMANDS.items()))


@click.group("calibrate", cls=CalibrateGroup)
def command() -> None:
    """Measure what an arm may do and how late it is."""
