"""The ``so101walk`` command: a group that imports a command only when it is called, and one place that tells errors."""

import importlib
import sys
from collections.abc import Sequence
from importlib.metadata import version

import click

from ..errors import So101WalkError, nearest

__all__ = ["cli", "main"]

COMMANDS: dict[str, str] = {
    "collect": "Walk the arm (simulated or real) and save episodes.",
    "check": "Say whether a dataset is sound, and whether it is the walk it claims to be.",
    "repair": "Set torn episodes aside and rebuild a dataset from the sound ones.",
    "picture": "Draw a contact sheet of a dataset: camera views over joint traces.",
    "calibrate": "Find the safe envelope of an arm.",
    "probe": "Measure how well an encoder's latent holds the joints, on held-out episodes.",
    "compare": "Set probe runs side by side, with paired intervals and the verdicts of the bars.",
    "bars": "State pass marks before anything is computed.",
    "train": "Train a SIGReg JEPA on a dataset's images, blind to the joints.",
    "rank": "Rank action chunks by the latent they lead to.",
    "gate": "Gate 1: both kinds of data, the same recipe, one verdict.",
    "export": "Write a dataset in another program's layout.",
    "emulate": "Serve a virtual SO-101: a servo bus on a terminal, cameras over ZMQ.",
}
"""Command name to its short help; each lives in ``cli/<name>.py`` as ``command``."""


class LazyGroup(click.Group):
    """A click group whose commands are imported when they are asked for, so that ``--help`` stays fast."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the order of a session, not of the alphabet."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command and give it the options that every command has."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"so101walk.cli.{cmd_name}").command
        if not any(p.name == "debug" for p in command.params):
            command.params.append(
                click.Option(["--debug"], is_flag=True, expose_value=False, help="Show the traceback of an error.")
            )
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click's, with the nearest command named when there is none of that name."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            raise click.UsageError(f"no command {args[0]!r}; {nearest(args[0], COMMANDS)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The command list from the table above, without importing anything."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(version("so101walk"), prog_name="so101walk")
def cli() -> None:
    """Random-walk episodes on the SO-101 arm: collect, check, and measure what a latent holds of the joints."""


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line. Exit codes: 0 done, 1 the job failed or found something, 2 wrong usage, 130 interrupted."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in arguments
    try:
        code = cli.main(args=arguments, prog_name="so101walk", standalone_mode=False)
    except click.ClickException as e:
        e.show()
        code = e.exit_code
    except click.Abort:
        code = _tell("interrupted", 130)
    except KeyboardInterrupt:
        code = _tell("interrupted", 130)
    except So101WalkError as e:
        if debug:
            raise
        code = _tell(f"error: {e}", e.exit_code)
    except Exception as e:
        if debug:
            raise
        code = _tell(f"error: {type(e).__name__}: {e} (run again with --debug for the traceback)", 1)
    sys.exit(code if isinstance(code, int) else 0)


def _tell(message: str, code: int) -> int:
    print(message, file=sys.stderr)
    return code
