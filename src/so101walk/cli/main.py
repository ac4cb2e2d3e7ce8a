"""The ``so101walk`` command: a group that imports a command only when it is called, and one place that tells errors."""

import sys
from collections.abc import Sequence
from importlib.metadata import version

import click

from ..errors import So101WalkError
from .lazy import LazyGroup

__all__ = ["cli", "main"]

COMMANDS: dict[str, str] = {
    "collect": "Walk the arm (simulated or real) and save episodes.",
    "check": "Say whether a dataset is sound, and whether it is the walk it claims to be.",
    "repair": "Set torn episodes aside and rebuild a dataset from the sound ones.",
    "picture": "Draw a contact sheet of a dataset: camera views over joint traces.",
    "calibrate": "Calibrate an arm: its servos, its safe envelope, the latency of its cameras.",
    "rig": "Write a rig file: which port, which cameras.",
    "doctor": "Say whether a real rig is fit to walk, without moving it.",
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


@click.group(
    cls=LazyGroup,
    table=COMMANDS,
    module="so101walk.cli.{}",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
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
