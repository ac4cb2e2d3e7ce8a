"""Small charts as inline SVG: one plotting area with linear axes, and marks on it. No script, no font, no network."""

from collections.abc import Iterable, Sequence
from html import escape

import numpy as np

__all__ = ["Plot", "nice_ticks"]


def nice_ticks(low: float, high: float, count: int = 5) -> list[float]:
    """About ``count`` round numbers that cover ``low`` to ``high``."""
    span = max(high - low, 1e-9)
    step = 10.0 ** np.floor(np.log10(span / count))
    for factor in (1.0, 2.0, 5.0, 10.0):
        if span / (step * factor) <= count + 1e-6:
            step *= factor
            break
    first = np.ceil(low / step - 1e-9) * step
    return [float(round(t, 10)) + 0.0 for t in np.arange(first, high + step * 1e-6, step)]


class Plot:
    """A chart: give it ranges, put marks on it, take its SVG.

    Args:
        x: Range of the horizontal axis.
        y: Range of the vertical axis.
        width: Of the whole picture [px].
        height: Of the whole picture [px].
        title: Above the area.
        margins: Left, top, right and bottom of the area [px].
    """

    def __init__(
        self,
        x: tuple[float, float],
        y: tuple[float, float],
        width: int = 300,
        height: int = 220,
        title: str = "",
        margins: tuple[int, int, int, int] = (46, 26, 12, 34),
    ) -> None:
        self._x, self._y = _widened(x), _widened(y)
        self._width, self._height = width, height
        self._left, self._top, self._right, self._bottom = margins
        self._marks: list[str] = []
        if title:
            self._marks.append(f'<text x="{self._left}" y="15" class="title">{escape(title)}</text>')

    def px(self, x: float) -> float:
        """Horizontal place of a value."""
        share = (x - self._x[0]) / (self._x[1] - self._x[0])
        return round(self._left + share * (self._width - self._left - self._right), 2)

    def py(self, y: float) -> float:
        """Vertical place of a value."""
        share = (y - self._y[0]) / (self._y[1] - self._y[0])
        return round(self._height - self._bottom - share * (self._height - self._top - self._bottom), 2)

    def axes(
        self,
        x_label: str = "",
        y_label: str = "",
        x_ticks: Sequence[float] | None = None,
        y_ticks: Sequence[float] | None = None,
    ) -> "Plot":
        """Gridlines with their numbers, and what the axes are; round numbers unless ticks are given."""
        bottom, left = self._height - self._bottom, self._left
        for t in nice_ticks(*self._x) if x_ticks is None else x_ticks:
            at = self.px(t)
            self._marks.append(f'<line x1="{at}" y1="{self._top}" x2="{at}" y2="{bottom}" class="grid"/>')
            self._marks.append(f'<text x="{at}" y="{bottom + 13}" class="tick middle">{t:g}</text>')
        for t in nice_ticks(*self._y) if y_ticks is None else y_ticks:
            at = self.py(t)
            self._marks.append(f'<line x1="{left}" y1="{at}" x2="{self._width - self._right}" y2="{at}" class="grid"/>')
            self._marks.append(f'<text x="{left - 5}" y="{at + 3.5}" class="tick end">{t:g}</text>')
        center = (left + self._width - self._right) / 2
        self._marks.append(f'<text x="{center}" y="{self._height - 4}" class="tick middle">{escape(x_label)}</text>')
        if y_label:
            middle = (self._top + bottom) / 2
            turn = f'transform="rotate(-90 11 {middle})"'
            self._marks.append(f'<text x="11" y="{middle}" class="tick middle" {turn}>{escape(y_label)}</text>')
        return self

    def line(self, points: Iterable[tuple[float, float]], mark: str = "line") -> "Plot":
        """A polyline through values."""
        path = " ".join(f"{self.px(x)},{self.py(y)}" for x, y in points)
        self._marks.append(f'<polyline points="{path}" class="{mark}"/>')
        return self

    def dots(
        self, points: Iterable[tuple[float, float]], mark: str = "dot", radius: float = 1.6, note: str = ""
    ) -> "Plot":
        """A dot at each value; values outside of the area are drawn at its edge."""
        (x0, x1), (y0, y1) = sorted(self._x), sorted(self._y)
        for x, y in points:
            at = f'cx="{self.px(min(max(x, x0), x1))}" cy="{self.py(min(max(y, y0), y1))}"'
            inner = f"<title>{escape(note)}</title>" if note else ""
            self._marks.append(f'<circle {at} r="{radius}" class="{mark}">{inner}</circle>')
        return self

    def bar(self, x0: float, x1: float, y: float, height: float, mark: str = "bar") -> "Plot":
        """A horizontal bar from ``x0`` to ``x1`` centred on ``y``; ``height`` in px."""
        left, right = sorted((self.px(x0), self.px(x1)))
        shape = f'x="{left}" y="{self.py(y) - height / 2}" width="{max(right - left, 0.5):.2f}" height="{height}"'
        self._marks.append(f'<rect {shape} class="{mark}"/>')
        return self

    def span(self, low: float, high: float, y: float, mark: str = "span") -> "Plot":
        """A whisker from ``low`` to ``high`` at ``y``, cut at the edges of the area."""
        a, b = (min(max(v, self._x[0]), self._x[1]) for v in (low, high))
        at = self.py(y)
        self._marks.append(f'<line x1="{self.px(a)}" y1="{at}" x2="{self.px(b)}" y2="{at}" class="{mark}"/>')
        return self

    def text(self, x_px: float, y: float, words: str, mark: str = "label end") -> "Plot":
        """Words at a pixel column and a value's row."""
        self._marks.append(f'<text x="{x_px}" y="{self.py(y) + 4}" class="{mark}">{escape(words)}</text>')
        return self

    def svg(self, description: str) -> str:
        """The picture, with words for who can't see it."""
        size = f'viewBox="0 0 {self._width} {self._height}" width="{self._width}" height="{self._height}"'
        return f'<svg {size} role="img" aria-label="{escape(description)}">{"".join(self._marks)}</svg>'


def _widened(ends: tuple[float, float]) -> tuple[float, float]:
    low, high = float(ends[0]), float(ends[1])
    return (low, high) if high - low > 1e-12 else (low - 0.5, high + 0.5)
