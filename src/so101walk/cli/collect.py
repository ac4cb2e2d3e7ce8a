"""``so101walk collect``: walk the arm and save episodes."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from ..session import SessionSpec

__all__ = ["command"]


@click.command()
@click.option("--episodes", type=int, default=25, show_default=True, help="Episodes wanted in total.")
@click.option(
    "--policy", "policy_name", default="ou", show_default=True, help="A policy's name or file (TOML or Python)."
)
@click.option(
    "--rho", type=float, help="Correlation of consecutive waypoints, above 0 and below 1 [default: the policy's]."
)
@click.option(
    "--rig", "rig_name", default="sim", show_default=True, help="A rig's name or file: which arm, which cameras."
)
@click.option(
    "--out", type=click.Path(path_type=Path), help="The dataset's folder  [default: datasets/<policy>-<date>]"
)
@click.option("--episode-s", type=float, help="Seconds an episode  [default: 12]")
@click.option(
    "--seed", type=click.IntRange(min=0), help="Of the whole walk  [default: a new one, kept in the metadata]"
)
@click.option(
    "--workers", type=click.IntRange(min=1), default=1, show_default=True, help="Processes; simulated rigs only."
)
@click.option("--resume", is_flag=True, help="Go on with the dataset at --out until it has --episodes.")
@click.option("--dry-run", is_flag=True, help="Walk the simulated twin of the rig: same code, marked as simulated.")
@click.option("--full-meshes", is_flag=True, help="Render the arm's original meshes (40 times slower).")
@click.option("--yes", is_flag=True, help="Move a real arm without the countdown.")
@click.option("--note", default="", help="A word to keep in the dataset's metadata.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout, all else on stderr.")
def command(
    episodes: int,
    policy_name: str,
    rho: float | None,
    rig_name: str,
    out: Path | None,
    episode_s: float | None,
    seed: int | None,
    workers: int,
    resume: bool,
    dry_run: bool,
    full_meshes: bool,
    yes: bool,
    note: str,
    as_json: bool,
) -> int:
    """Walk the arm at random within its safe envelope and save the episodes as a LeRobot dataset.

    Without --rig the simulated arm walks. Ctrl-C once finishes tidily: the current episode is dropped, saved ones
    stay, and --resume goes on. Ctrl-C twice stops at once; nothing saved is lost.
    """
    import secrets

    from ..envelope import load_envelope
    from ..errors import UsageError
    from ..policies.load import load_policy
    from ..rig import load_rig
    from .live import Live, StopSignals, countdown, default_out, say_what_walks

    rig = load_rig(rig_name)
    overrides = {} if rho is None else {"rho": rho}
    policy = load_policy(policy_name, overrides)
    if resume and out is None:
        raise UsageError("--resume needs --out, the dataset to go on with")
    out = out or default_out(policy.name)
    say_what_walks(rig, dry_run, as_json)

    from ..session import SessionSpec, collect, found_at

    stored = found_at(out, resume) or {}
    spec = SessionSpec(
        out=out,
        rig=rig.twin() if dry_run else rig,
        policy_source=policy_name,
        policy_overrides=overrides,
        envelope=load_envelope(rig.envelope),
        episodes=episodes,
        episode_s=stored.get("episode_s", 12.0) if episode_s is None else episode_s,
        seed=stored.get("seed", secrets.randbits(32)) if seed is None else seed,
        dry_run=dry_run and not rig.simulated,
        full_meshes=full_meshes,
        note=note,
    )
    again = _again(spec, rig_name)
    with StopSignals() as stop, Live(spec, workers, resume, again, as_json) as live:
        before_motion = None if yes else lambda: countdown(stop.asked)
        report = collect(spec, live, stop.asked, workers=workers, before_motion=before_motion)
        live.finish()
        live.print_report(report)
    return 130 if report.interrupted else 0


def _again(spec: "SessionSpec", rig_name: str) -> str:
    """The command that goes on with this session."""
    words = ["so101walk", "collect", "--resume", "--episodes", str(spec.episodes), "--out", str(spec.out)]
    if rig_name != "sim":
        words += ["--rig", rig_name]
    if spec.dry_run:
        words += ["--dry-run"]
    if spec.policy_source != "ou":
        words += ["--policy", spec.policy_source]
    for name, value in spec.policy_overrides.items():
        words += [f"--{name}", f"{value:g}"]
    return shlex.join(words)
