"""A picture of an envelope: what each joint covers, where the gripper's tip goes, and what refuses a pose."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..envelope import Envelope
from ..joints import JOINTS, MODEL_RANGE_RAD, N, rad_to_q
from ..scene.kinematics import Kinematics
from .judge import Judgement

__all__ = ["draw_envelope"]

TIPS = 1500
"""Poses in the scatter: enough to see the cloud's edge, few enough to see through it."""


def draw_envelope(envelope: Envelope, judgement: Judgement, path: Path, rng: np.random.Generator) -> None:
    """Draw an envelope to a PNG: joint ranges, top and side view of the gripper's tip, causes of refusal.

    Args:
        envelope: What to draw.
        judgement: Its judgement.
        path: The PNG to write.
        rng: Draws the poses of the scatter.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 8.5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(2, 2)
    q = envelope.z_to_q(rng.standard_normal((TIPS, N)))
    inside = envelope.contains_each(q)
    tips = Kinematics.shared().tip_m(q)
    _ranges(axes[0, 0], envelope, judgement)
    _causes(axes[0, 1], judgement)
    _view(axes[1, 0], tips, inside, 1, "y [m], to the left", "from above")
    _view(axes[1, 1], tips, inside, 2, "z [m], up", "from the side")
    _floor(axes[1, 1])
    figure.suptitle(
        f"Envelope {envelope.name}: {judgement.accept:.2%} of {judgement.samples:,} poses are safe "
        f"(leaving at most {judgement.leave_upper:.2%} at 95 % confidence)"
    )
    figure.savefig(path, dpi=110, format="png")


def _ranges(axis, envelope: Envelope, judgement: Judgement) -> None:
    low, high = rad_to_q(MODEL_RANGE_RAD.T)
    middle, half = (low + high) / 2.0, (high - low) / 2.0

    def place(values: NDArray[np.float64]) -> NDArray[np.float64]:
        return (values - middle) / half

    y = np.arange(N)[::-1]
    axis.barh(y, np.full(N, 2.0), left=-1.0, height=0.7, color="0.92", label="range of the model")
    for values, height, color, label in (
        ((envelope.lower, envelope.upper), 0.7, "0.8", "limits of the envelope"),
        (
            (envelope.center - 2 * envelope.scale, envelope.center + 2 * envelope.scale),
            0.45,
            "#9ecae1",
            "center ± 2 scale",
        ),
        ((envelope.center - envelope.scale, envelope.center + envelope.scale), 0.45, "#3182bd", "center ± scale"),
    ):
        left, right = place(values[0]), place(values[1])
        axis.barh(y, right - left, left=left, height=height, color=color, label=label)
    axis.plot(place(envelope.center), y, "k|", markersize=16, label="center")
    axis.set_yticks(y, [f"{j} ({judgement.coverage[j]:.0%})" for j in JOINTS])
    axis.set_xlim(-1.02, 1.02)
    axis.set_xlabel("share of the joint's range, lowest to highest")
    axis.set_title("joints (share of the range within 2 scales)")
    axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=3, fontsize=8, frameon=False)


def _causes(axis, judgement: Judgement) -> None:
    causes = list(judgement.causes.items())[:12]
    y = np.arange(len(causes))[::-1]
    colors = ["#e6550d" if cause.startswith("contact") else "#756bb1" for cause, _ in causes]
    axis.barh(y, [100 * share for _, share in causes], color=colors)
    axis.set_yticks(y, [cause.split(":", 1)[1] for cause, _ in causes], fontsize=8)
    axis.set_xlabel("poses refused [%]")
    axis.set_title("causes (violet: joint limit, orange: contact)")


def _view(axis, tips: NDArray[np.float64], inside: NDArray[np.bool_], up: int, label: str, title: str) -> None:
    axis.scatter(tips[inside, 0], tips[inside, up], s=4, c="#3182bd", alpha=0.4, label="safe", linewidths=0)
    axis.scatter(tips[~inside, 0], tips[~inside, up], s=18, c="#e6550d", label="refused", marker="x")
    axis.plot(0.0, 0.0, "ks", markersize=7, label="base")
    axis.set_xlabel("x [m], ahead")
    axis.set_ylabel(label)
    axis.set_title(f"gripper tip, {title}")
    axis.set_aspect("equal")
    axis.legend(loc="upper right", fontsize=8)


def _floor(axis) -> None:
    from ..scene.room import TABLE_TOP_M

    axis.axhspan(TABLE_TOP_M - 0.03, TABLE_TOP_M, color="#c8ad7f")
    axis.text(
        0.99, TABLE_TOP_M - 0.015, "table", transform=axis.get_yaxis_transform(), ha="right", va="center", fontsize=8
    )
