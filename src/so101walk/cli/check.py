"""``so101walk check``: say whether a dataset is sound, and whether it is the walk it claims to be."""

import json
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from ..dataset.check import CheckReport

__all__ = ["command"]


@click.command(name="check")
@click.argument("dataset", type=click.Path())
@click.option("--walk/--no-walk", default=True, help="Judge whether it is an isotropic random walk  [default: yes]")
@click.option(
    "--images/--no-images", default=True, help="Decode every image; most of the time goes here  [default: yes]"
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout, all else on stderr.")
def command(dataset: str, walk: bool, images: bool, as_json: bool) -> int:
    """Say whether DATASET is sound, and whether it is the walk it claims to be.

    Reads any LeRobot v3 dataset; what isn't there is said to be unknown. Exit code 0 if sound, 1 with findings (errors
    and warnings; notes don't count). A goal-directed dataset comes out as "not an isotropic walk": with --no-walk only
    its files, motion and timing are judged.
    """
    from rich.console import Console
    from rich.progress import Progress

    from ..dataset.check import check

    with Progress(console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task("looking at images", total=None)
        report = check(
            dataset,
            walk=walk,
            images=images,
            progress=lambda done, total: progress.update(bar, completed=done, total=total),
        )
    if as_json:
        click.echo(json.dumps(report.to_dict(), indent=2, allow_nan=False))
    else:
        _print(report, Console(highlight=False, soft_wrap=True))
    return 0 if report.ok else 1


def _print(report: "CheckReport", console: "Console") -> None:
    console.print(f"{report.root}: {report.episodes} episodes, {report.frames} frames")
    if "joints" in report.walk:
        console.print(_joint_table(report.walk))
    for line in (*_walk_lines(report.walk), *_timing_lines(report.timing)):
        console.print(line, markup=False)
    colours = {"error": "red", "warning": "yellow", "note": "dim"}
    for f in report.findings:
        where = "" if f.episode is None else f"episode {f.episode}: "
        console.print(f"[{colours[f.severity]}]{f.severity:7}[/] {f.code}  ", end="")
        console.print(f"{where}{f.message}", markup=False)
    console.print(_last_line(report), markup=False)


def _joint_table(walk: dict[str, Any]) -> "Table":
    from rich.table import Table

    table = Table(title=f"walk: {walk['source']}")
    for name in ("joint", "rho", "95 %", "mean", "std", "skew", "kurtosis"):
        table.add_column(name, justify="left" if name == "joint" else "right")
    for name, j in walk["joints"].items():
        label = f"[red]{name}[/]" if name in walk["joints_at_fault"] else name
        if not j["moves"]:
            table.add_row(label, "holds still")
            continue
        interval = "unknown" if None in j["rho_ci"] else f"{j['rho_ci'][0]:.2f} to {j['rho_ci'][1]:.2f}"
        numbers = [_number(j[k], 2) for k in ("mean", "std", "skew", "kurtosis")]
        table.add_row(label, _number(j["rho"], 3), interval, *numbers)
    return table


def _walk_lines(walk: dict[str, Any]) -> list[str]:
    if "joints" not in walk:
        return [f"walk      {walk['verdict']}"]
    declared = "" if walk["declared_rho"] is None else f" (declared {walk['declared_rho']:g})"
    lines = [
        f"walk      {walk['verdict']}",
        f"rho       {_number(walk['rho'], 3)}{declared}, spread over joints {_number(walk['rho_spread'], 3)}",
        f"samples   {walk['steps']} steps, worth {_number(walk['effective_samples'], 1)} independent ones a joint",
    ]
    low, high = (_number(v, 2) for v in walk["rho_resolution"])
    lines.append(f"          these could tell a joint whose rho is outside {low} to {high}")
    if walk["rejected_share"] is not None:
        lines.append(f"rejected  {walk['rejected']} of {walk['steps']} steps ({walk['rejected_share']:.1%})")
    if (s := walk["sigreg"]) is not None:
        expected = f"by chance {_number(s['null_mean'], 2)}, 99 % below {_number(s['null_q99'], 2)}"
        lines.append(f"SIGReg    {_number(s['statistic'], 2)} ({expected}; p {_number(s['p'], 3)})")
    if (c := walk["largest_correlation"]) is not None:
        when = "at once" if c["lag"] == 0 else "a step apart"
        lines.append(
            f"largest correlation between joints  {_number(c['value'], 2)} ({' and '.join(c['joints'])}, {when})"
        )
    return lines


def _timing_lines(timing: dict[str, Any]) -> list[str]:
    if not timing["measured"]:
        return ["timing    unknown: the dataset keeps no measured times"]
    ages = ", ".join(f"{c} {a['p99']:.1f}" for c, a in timing["image_age_ms"].items())
    cadence = f"cadence {timing['cadence_error']:+.3%}, {timing['gaps']} gaps"
    return [f"timing    {cadence}, images within {ages} ms of their frame (p99)"]


def _last_line(report: "CheckReport") -> str:
    count = {s: sum(f.severity == s for f in report.findings) for s in ("error", "warning")}
    if not report.ok:
        told = " and ".join(f"{n} {s}{'s' * (n > 1)}" for s, n in count.items() if n)
        torn = any(f.code.startswith("structure.") and "so101walk repair" in f.message for f in report.findings)
        return f"{told}. " + (
            f"Next: so101walk repair {report.root}" if torn else "Not sound as a random walk's dataset."
        )
    if report.walk["verdict"] == "isotropic walk":
        return f"sound. Next: so101walk probe {report.root} --encoder pixels"
    return "sound; whether it is a random walk is unknown."


def _number(value: float | None, digits: int) -> str:
    return "unknown" if value is None else f"{value:.{digits}f}"
