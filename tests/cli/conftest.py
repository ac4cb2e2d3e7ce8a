"""The command line as a user meets it, run in this process."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from so101walk.cli.main import main


@dataclass(frozen=True)
class Outcome:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str


@pytest.fixture
def so101walk(capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    """Run ``so101walk`` with these arguments."""

    def run(*arguments: object) -> Outcome:
        capsys.readouterr()
        with pytest.raises(SystemExit) as e:
            main([str(a) for a in arguments])
        printed = capsys.readouterr()
        return Outcome(int(e.value.code or 0), printed.out, printed.err)

    return run
