"""The probe's picture: one HTML file with every chart and thumbnail inside it, readable without a network."""

import base64
from html import escape
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

from .bars import Judgement
from .compare import told
from .guards import Guard
from .intervals import Interval
from .run import ProbeResult
from .svg import Plot

__all__ = ["report_html", "worst_frames"]

SCATTER_POINTS = 700
WORST = 8
THUMB_PX = 232
WIDE_PX = 990


def report_html(result: ProbeResult) -> str:
    """The whole page."""
    split, step = result.split, result.samples.stride
    stride = f", every {step}. of the video" if step > 1 else ""
    views = " and ".join(c.rsplit(".", 1)[-1] for c in result.cameras)
    lead = (
        f"{result.dataset.root.name}: {len(split.train)} episodes to fit on, {len(split.val)} held out "
        f"({len(result.val)} frames{stride}), {views}, {result.latents.width} values a frame"
    )
    parts = [
        f"<h1>Probe of {escape(result.spec)}</h1><p class=lead>{escape(lead)}</p>",
        _cards(result),
        _section("R² of each joint on held-out episodes", _r2_words(result), _r2_chart(result)),
        _section("Bars", "", _verdicts(result.verdicts)) if result.verdicts else "",
        _section("Checks that guard the number", "", _guard_table(result.guards)) if result.guards else "",
        _section(
            "Predicted against true",
            "Held-out frames; on the dashed line the readout is right. Each joint in its own unit.",
            f"<div class=row>{''.join(_scatters(result))}</div>",
        ),
        _section(
            "Joints shifted against images",
            "R² if the joints were those of a frame earlier or later. The peak should be at 0.",
            chart,
        )
        if (chart := _shift_chart(result.guards))
        else "",
        _section(
            "How much each joint moves",
            "Standard deviation in held-out episodes; blue is the share within episodes, orange between their means.",
            _variance_chart(result),
        ),
        _section(
            "Worst frames",
            "Held-out frames whose joints are furthest from the readout, in standard deviations.",
            _worst(result),
        ),
        _section("Other measures", "", _others(result)),
    ]
    title = escape(f"Probe of {result.spec} on {result.dataset.root.name}")
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{title}</title>'
    icon = '<link rel="icon" href="data:,">'
    style = (files("so101walk.probe") / "shipped" / "report.css").read_text()
    body = f"<body><main>{''.join(parts)}</main></body>"
    return f"<!doctype html><html lang=en><head>{head}{icon}<style>{style}</style></head>{body}</html>\n"


def _section(title: str, words: str, body: str) -> str:
    return f"<section><h2>{escape(title)}</h2>{f'<p>{escape(words)}</p>' if words else ''}{body}</section>"


def _cards(result: ProbeResult) -> str:
    linear = result.linear
    warned = [g.name for g in result.guards if g.status == "warn"]
    checks = f"{', '.join(warned)} warn" if warned else "none warns" if result.guards else "not run"
    cards = [
        ("mean R²", f"{linear.mean.value:.3f}", _between(linear.mean)),
        ("anisotropy (best − worst joint)", f"{linear.anisotropy.value:.3f}", _between(linear.anisotropy)),
        ("joints to latent, R²", f"{result.extra['reverse_r2']:.3f}", "how much of the latent the joints explain"),
        ("checks", f"{sum(g.status == 'pass' for g in result.guards)} of {len(result.guards)}", checks),
    ]
    told_as = "".join(f"<div class=card><span>{a}</span><b>{b}</b><span>{escape(c)}</span></div>" for a, b, c in cards)
    return f"<div class=cards>{told_as}</div>"


def _between(figure: Interval) -> str:
    return (
        "no interval: too few episodes"
        if figure.low is None
        else f"95 % of episodes: {figure.low:.3f} to {figure.high:.3f}"
    )


def _r2_words(result: ProbeResult) -> str:
    whiskers = (
        "Bars: linear readout, with the 95 % interval over episodes. "
        if result.linear.mean.low is not None
        else "Bars: linear readout. "
    )
    return whiskers + ("Dots: references on the same frames." if result.references else "")


def _r2_chart(result: ProbeResult) -> str:
    linear = result.linear
    rows = [*zip(linear.joints, linear.r2, strict=True), ("mean", linear.mean)]
    references = {name: [*r.r2, r.mean] for name, r in result.references.items() if name != "mean"}
    shown = [i.value for figures in references.values() for i in figures] + [i.value for _, i in rows]
    low = min(0.0, *(max(v, -0.5) for v in shown if np.isfinite(v)))
    plot = Plot(
        (low - 0.02 * (low < 0), 1.0), (len(rows) - 0.4, -0.6), WIDE_PX, 40 + 34 * len(rows), margins=(110, 8, 90, 34)
    )
    plot.axes("R²", x_ticks=[t for t in (-0.5, -0.25, 0, 0.2, 0.4, 0.6, 0.8, 1.0) if t >= low - 0.02], y_ticks=[])
    for k, (name, figure) in enumerate(rows):
        plot.text(102, k, name.replace("_", " "))
        if not np.isfinite(figure.value):
            plot.text(118, k, "does not move", "label")
            continue
        plot.bar(0.0, max(figure.value, low), k, 15)
        if figure.low is not None and figure.high is not None:
            plot.span(figure.low, figure.high, k)
        plot.text(WIDE_PX - 8, k, f"{figure.value:.3f}")
        for r, (reference, figures) in enumerate(references.items()):
            if np.isfinite(figures[k].value):
                plot.dots([(figures[k].value, k)], f"ref{r % 4}", 3.6, f"{reference}: {figures[k].value:.3f}")
    legend = "".join(
        f'<span class=key><svg width=12 height=12 viewBox="0 0 12 12" aria-hidden="true">'
        f'<circle cx=6 cy=6 r=4 class="ref{r % 4}"/></svg> {escape(name)}</span>'
        for r, name in enumerate(references)
    )
    return plot.svg("R squared of each joint with its interval") + f"<div>{legend}</div>"


def _verdicts(verdicts: tuple[Judgement, ...]) -> str:
    rows = "".join(
        f"<tr><td>{escape(v.bar.id)}</td><td>{escape(v.bar.metric)} {escape(v.bar.op)} {v.bar.value:g}</td>"
        f"<td>{'-' if v.found is None else f'{v.found:.3f}'}</td><td>{_chip(v.verdict, v.words)}</td>"
        f"<td>{escape(v.note or v.bar.why)}</td></tr>"
        for v in verdicts
    )
    return f"<table><tr><th>bar</th><th>states</th><th>found</th><th>verdict</th><th></th></tr>{rows}</table>"


def _chip(word: str, words: str = "") -> str:
    return f'<span class="chip {word}">{escape(words or word)}</span>'


def _guard_table(guards: tuple[Guard, ...]) -> str:
    rows = (f"<tr><td>{_chip(g.status)}</td><td>{g.name}</td><td>{escape(g.message)}</td></tr>" for g in guards)
    return f"<table>{''.join(rows)}</table>"


def _scatters(result: ProbeResult) -> list[str]:
    samples = result.samples
    true, predicted = samples.q[result.val], result.predicted
    some = np.unique(np.linspace(0, len(true) - 1, min(SCATTER_POINTS, len(true))).astype(int))
    charts = []
    for j, name in enumerate(samples.joints):
        low, high = float(true[:, j].min()), float(true[:, j].max())
        room = 0.08 * (high - low) + 1e-9
        ends = (low - room, high + room)
        r2 = result.linear.r2[j].value
        words = (
            f"{name.replace('_', ' ')}  R² {r2:.3f}" if np.isfinite(r2) else f"{name.replace('_', ' ')}  does not move"
        )
        plot = Plot(ends, ends, 322, 250, words).axes(f"true {samples.units[j]}", "predicted")
        plot.line([(ends[0], ends[0]), (ends[1], ends[1])], "diagonal")
        plot.dots(zip(true[some, j], predicted[some, j], strict=True))
        charts.append(plot.svg(f"predicted against true {name}"))
    return charts


def _shift_chart(guards: tuple[Guard, ...]) -> str:
    found = next((g for g in guards if g.name == "alignment" and "curve" in g.figures), None)
    if found is None:
        return ""
    shifts, curve = found.figures["shifts"], found.figures["curve"]
    low = max(min(curve), max(curve) - 1.5)
    plot = Plot((shifts[0], shifts[-1]), (low, max(curve) + 0.02), WIDE_PX, 240)
    plot.axes("shift of joints against images [frames]", "mean R²", [s for s in shifts if s % 2 == 0])
    plot.line([(0, low), (0, max(curve) + 0.02)], "zero")
    points = [(s, max(c, low)) for s, c in zip(shifts, curve, strict=True)]
    return plot.line(points).dots(points, radius=3).svg("R squared by shift of joints against images")


def _variance_chart(result: ProbeResult) -> str:
    samples = result.samples
    spread = samples.q[result.val].std(axis=0)
    plot = Plot(
        (0.0, float(spread.max()) * 1.05 + 1e-9),
        (len(spread) - 0.4, -0.6),
        WIDE_PX,
        40 + 28 * len(spread),
        margins=(110, 8, 90, 34),
    )
    unit = " [degrees, % of the gripper]" if samples.units[0] else ""
    plot.axes(f"standard deviation{unit}", y_ticks=[])
    for j, name in enumerate(samples.joints):
        share = result.extra["within_share"][name]
        share = share if np.isfinite(share) else 0.0
        plot.text(102, j, name.replace("_", " "))
        plot.bar(0.0, float(spread[j] * share), j, 13)
        plot.bar(float(spread[j] * share), float(spread[j]), j, 13, "between")
        plot.text(WIDE_PX - 8, j, f"{spread[j]:.1f} {samples.units[j]}")
    return plot.svg("standard deviation of each joint")


def worst_frames(result: ProbeResult, count: int = WORST) -> NDArray[np.int64]:
    """Places (into the held-out frames) of the frames with the largest error, a second or more apart in an episode.

    The error of a frame is the mean over the joints that move of (error / standard deviation)^2.
    """
    samples = result.samples
    true = samples.q[result.val]
    spread = true.std(axis=0)
    moving = np.isfinite([i.value for i in result.linear.r2])
    error = (
        (((result.predicted - true)[:, moving] / spread[moving]) ** 2).mean(axis=1)
        if moving.any()
        else np.zeros(len(true))
    )
    episode, frame = samples.episode[result.val], samples.frame[result.val]
    chosen: list[int] = []
    for i in np.argsort(-error, kind="stable"):
        if all(episode[i] != episode[k] or abs(frame[i] - frame[k]) >= samples.fps for k in chosen):
            chosen.append(int(i))
        if len(chosen) == count:
            break
    return np.array(chosen, dtype=np.int64)


def _worst(result: ProbeResult) -> str:
    samples = result.samples
    spread = samples.q[result.val].std(axis=0)
    figures = []
    for place in worst_frames(result):
        row = result.val[place]
        episode, frame = int(samples.episode[row]), int(samples.frame[row])
        true, predicted = samples.q[row], result.predicted[place]
        pictures = "".join(
            f'<img alt="{escape(c.rsplit(".", 1)[-1])}, episode {episode} frame {frame}" '
            f'src="{_picture(result.dataset.decode_at(c, episode, [frame])[0])}">'
            for c in result.cameras
        )
        off = np.abs(predicted - true) / np.where(spread > 0, spread, np.inf)
        words = []
        for j in np.argsort(-off):
            told_as = f"{samples.joints[j].replace('_', ' ')} {true[j]:.0f} read as {predicted[j]:.0f}"
            words.append(f"<b>{escape(told_as)}</b>" if off[j] > 1.0 else escape(told_as))
        caption = f"episode {episode}, frame {frame}: {'; '.join(words)}"
        figures.append(f"<figure>{pictures}<figcaption>{caption}</figcaption></figure>")
    return f"<div class=row>{''.join(figures)}</div>"


def _picture(image: NDArray[np.uint8]) -> str:
    import cv2

    height, width = image.shape[:2]
    small = cv2.resize(image, (THUMB_PX, max(1, THUMB_PX * height // width)), interpolation=cv2.INTER_AREA)
    _, encoded = cv2.imencode(".jpg", cv2.cvtColor(small, cv2.COLOR_RGB2BGR), [cv2.IMWRITE_JPEG_QUALITY, 85])
    return f"data:image/jpeg;base64,{base64.b64encode(encoded.tobytes()).decode()}"


def _others(result: ProbeResult) -> str:
    extra, theorem = result.extra, result.theorem
    rows = [
        (f"reference: {name}", f"mean R² {told(r.mean)}, anisotropy {told(r.anisotropy)}")
        for name, r in result.references.items()
    ]
    within = ", ".join(f"{n} {v:.2f}" for n, v in zip(result.linear.joints, result.linear.within, strict=True))
    rows.append(("R² within episodes", within))
    rows.append(("orthogonality error (Procrustes, whitened; 0 is a rotation)", f"{extra['orthogonality_error']:.3f}"))
    rows += [
        (f"angle of {n}", f"R² of sine {a['sin']:.3f}, of cosine {a['cos']:.3f}") for n, a in extra["angles"].items()
    ]
    if theorem is not None:
        rows.append(
            (
                f"theorem 5.3 on {theorem.pairs} pairs of waypoints (h: {theorem.h}, rho {theorem.rho:.3f})",
                f"L(h) {theorem.loss:.3f} (least {theorem.least:.3f}), delta {theorem.delta:.3f}, "
                f"eps {theorem.eps:.3f}, D {theorem.d:.3f}; E|h - Qz|² {theorem.error:.3f} "
                f"against a bound of {theorem.bound:.3f}",
            )
        )
    elif extra.get("theorem_reason"):
        rows.append(("theorem 5.3", extra["theorem_reason"]))
    rows.append(("seconds", ", ".join(f"{k} {v:.1f}" for k, v in result.seconds.items())))
    return f"<table>{''.join(f'<tr><td>{escape(a)}</td><td>{escape(b)}</td></tr>' for a, b in rows)}</table>"
