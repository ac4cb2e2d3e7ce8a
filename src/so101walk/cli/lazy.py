"""A click group whose commands are imported when they are asked for, so that ``--help`` stays fast."""

import importlib
from typing import Any

import click

from ..errors import nearest

__all__ = ["LazyGroup"]


class LazyGroup(click.Group):
    """Commands by name, each in a module of its own as ``command``.

    Args:
        table: Name to short help, in the order to list them.
        module: Where a command lives, for example ``"so101walk.cli.{}"``.
    """

    def __init__(self, *args: Any, table: dict[str, str], module: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._table, self._module = table, module

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names, in the table's order."""
        return list(self._table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command and give it the options that every command has; None if there is none of that name."""
        if cmd_name not in self._table:
            return None
        command: click.Command = importlib.import_module(self._module.format(cmd_name)).command
        if not any(p.name == "debug" for p in command.params):
            command.params.append(
                click.Option(["--debug"], is_flag=True, expose_value=False, help="Show the traceback of an error.")
            )
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click's, with the nearest command named when there is none of that name."""
        if args and args[0] not in self._table and not args[0].startswith("-"):
            raise click.UsageError(f"no command {args[0]!r}; {nearest(args[0], self._table)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The command list from the table, without importing anything."""
        with formatter.section("Commands"):
            formatter.write_dl(list(self._table.items()))
