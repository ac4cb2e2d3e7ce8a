"""``so101walk calibrate latency``: how late are a real rig's cameras? The arm moves."""

import json
from pathlib import Path

import click

__all__ = ["command"]


@click.command("latency")
@click.option("--rig", "rig_name", required=True, help="The rig's name or file.")
@click.option("--moves", default=40, show_default=True, type=click.IntRange(6, 400), help="Sharp moves to make.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File to write  [default: calibration/<rig>-latency.toml]",
)
@click.option("--seed", default=0, show_default=True, help="For the pauses between the moves.")
@click.option("--yes", is_flag=True, help="Move without the countdown.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout, all else on stderr.")
def command(rig_name: str, moves: int, out: Path | None, seed: int, yes: bool, as_json: bool) -> int:
    """Measure how late each camera's images are against the joints, and write it down for the rig.

    The arm makes small sharp moves about the envelope's center; no target is needed. Nothing is written for a camera
    whose latency can't be resolved: exit code 1.
    """
    import dataclasses
    import sys
    from datetime import date

    import numpy as np

    from ..calibrate.latency import Estimate, estimate_latency
    from ..calibrate.latency_moves import measure_moves
    from ..envelope import load_envelope
    from ..errors import HardwareError, UsageError
    from ..latencies import Latencies, write_latencies
    from ..real import open_real
    from ..rig import load_rig
    from .live import StopSignals, countdown

    rig = dataclasses.replace(load_rig(rig_name), latency="")
    if rig.simulated:
        raise UsageError(f"rig {rig.name!r} is simulated: its images are exact. Name a real one: --rig FILE")
    envelope = load_envelope(rig.envelope)
    path = out or Path("calibration") / f"{rig.name}-latency.toml"
    words = "stopping: the arm is brought to rest"
    with StopSignals(words) as stop, open_real(rig, envelope) as bench:
        if not yes:
            countdown(stop.asked)

        def on_progress(done: int) -> None:
            if stop.asked():
                raise KeyboardInterrupt
            if sys.stderr.isatty():
                print(f"\rmove {done}/{moves}", end="", file=sys.stderr)

        seen = measure_moves(bench, rig, envelope, moves, np.random.default_rng(seed), on_progress)
    found: dict[str, Estimate] = {}
    failed: list[str] = []
    for name, moves_seen in seen.items():
        try:
            found[name] = estimate_latency(name, moves_seen)
        except HardwareError as e:
            failed.append(str(e))
            print(e, file=sys.stderr)
    if found:
        write_latencies(
            path,
            Latencies(
                name=path.stem,
                camera_ms={n: estimate.latency_ms for n, estimate in found.items()},
                camera_interval_ms={n: estimate.half_width_ms for n, estimate in found.items()},
                measured=str(date.today()),
            ),
        )
    if as_json:
        cameras = {n: dataclasses.asdict(estimate) for n, estimate in found.items()}
        click.echo(json.dumps({"cameras": cameras, "failed": failed, "file": str(path) if found else None}))
        return 1 if failed else 0
    for name, estimate in found.items():
        click.echo(
            f"{name}: {estimate.latency_ms:.1f} ms, give or take {estimate.half_width_ms:.1f} ({estimate.moves} moves)"
        )
    if found:
        click.echo(f'written to {path}. In the rig: latency = "{path.stem}"')
    return 1 if failed else 0
