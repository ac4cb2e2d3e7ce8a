"""A contact sheet of one episode: what each camera saw, over what each joint did."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..errors import DatasetError
from .reader import Dataset

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["contact_sheet"]

THUMBNAILS = 8


def contact_sheet(dataset: Dataset, out: Path, episode: int = 0, thumbnails: int = THUMBNAILS) -> Path:
    """Draw one episode as a PNG: a row of pictures for each camera, and below them the trace of every joint.

    Measured joints are drawn over the commanded ones, with a dot at each waypoint where the dataset marks them.

    Args:
        dataset: Any LeRobot v3 dataset with ``observation.state``; without cameras the pictures are left out.
        out: The PNG to write; folders are made.
        episode: Which episode.
        thumbnails: Pictures of each camera.

    Raises:
        DatasetError: There is no such episode, or no ``observation.state``.
    """
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    if "observation.state" not in dataset.features:
        raise DatasetError(f"{dataset.root} has no observation.state, so there are no joints to draw")
    rows = dataset.episode(episode).length
    shown = np.unique(np.linspace(0, rows - 1, thumbnails).round().astype(int))
    names = dataset.names("observation.state")
    cameras = dataset.cameras
    height = 1.6 * len(cameras) + 0.95 * len(names) + 0.8
    figure = plt.figure(figsize=(13, height), layout="constrained")
    heights = [max(1.6 * len(cameras), 0.01), 0.95 * len(names) + 0.6]
    top, bottom = figure.subfigures(2, 1, height_ratios=heights, squeeze=False)[:, 0]
    figure.suptitle(f"{dataset.root.name}, episode {episode}: {rows} frames at {dataset.fps} fps", fontsize=11)
    if cameras:
        grid = top.subplots(len(cameras), len(shown), squeeze=False)
        for axes, camera in zip(grid, cameras, strict=True):
            _draw_pictures(axes, dataset.decode_at(camera, episode, shown.tolist()), camera, shown / dataset.fps)
    _draw_traces(bottom.subplots(len(names), 1, sharex=True, squeeze=False)[:, 0], dataset, episode, names, shown)
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, dpi=110)
    plt.close(figure)
    return out


def _draw_pictures(
    axes: "NDArray[np.object_]", images: NDArray[np.uint8], name: str, at_s: NDArray[np.float64]
) -> None:
    for ax, image, t_s in zip(axes, images, at_s, strict=True):
        ax.imshow(image)
        ax.set_xticks([])
        ax.set_yticks([])
        ax.set_title(f"{t_s:.1f} s", fontsize=8)
    axes[0].set_ylabel(name.removeprefix("observation.images."), fontsize=9)


def _draw_traces(
    axes: "NDArray[np.object_]", dataset: Dataset, episode: int, names: tuple[str, ...], shown: NDArray[np.int64]
) -> None:
    marks = [c for c in ("walk.request", "walk.waypoint") if c in dataset.features]
    columns = dataset.columns(["observation.state", "timestamp", *marks], episode)
    t_s, q = columns["timestamp"], columns["observation.state"]
    for i, (ax, name) in enumerate(zip(axes, names, strict=True)):
        _draw_trace(ax, t_s, q[:, i], columns.get("walk.request", q)[:, i], name)
        if "walk.waypoint" in columns:
            reached = columns["walk.waypoint"] >= 0
            ax.plot(t_s[reached], columns["walk.request"][reached, i], "o", ms=3, color="C3", label="waypoint")
        for frame in shown:
            ax.axvline(t_s[frame], color="0.9", lw=0.8, zorder=0)
    axes[0].legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), fontsize=7, ncols=3, frameon=False)
    axes[-1].set_xlabel("s")


def _draw_trace(
    ax: "Axes", t_s: NDArray[np.float64], measured: NDArray[np.float64], asked: NDArray[np.float64], name: str
) -> None:
    if asked is not measured:
        ax.plot(t_s, asked, color="0.6", lw=1.0, label="commanded")
    ax.plot(t_s, measured, color="C0", lw=1.2, label="measured")
    ax.set_ylabel(name.removesuffix(".pos").replace("_", "\n"), fontsize=8, rotation=0, ha="right", va="center")
    ax.tick_params(labelsize=7)
    ax.spines[["top", "right"]].set_visible(False)
    ax.margins(x=0.01)
