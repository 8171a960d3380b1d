"""The picture: what each policy costs by load, an SVG that looks the same on light and dark."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from bench.placement.experiments import LOADS, OURS, Results
from bench.placement.policies import Policy
from bench.placement.scenario import Result, Scenario

Panels = Mapping[str, Mapping[Policy, Sequence[Scenario]]]


@dataclass(frozen=True, slots=True)
class Scale:
    """An axis from bottom to top: linear, or by powers of ten."""

    top: float
    log: bool

    def part(self, value: float) -> float:
        """Return how far up a value is, 0 to 1."""
        if not self.log:
            return value / self.top
        return math.log10(max(value, LEAST) / LEAST) / math.log10(self.top / LEAST)

    def ticks(self) -> dict[float, str]:
        """Return what is written at which values."""
        if not self.log:
            return {value: f"{value:g}" for value in (0.0, self.top / 2, self.top)}
        decades = round(math.log10(self.top / LEAST))
        values = [LEAST * 10.0**decade for decade in range(0, decades + 1, 2)]
        return {value: f"{value:g}" for value in values}


@dataclass(frozen=True, slots=True)
class Measure:
    """What a row of the picture shows."""

    name: str
    of: Callable[[Result], float]
    log: bool = False

    def scale(self, values: list[list[float]]) -> Scale:
        """Return the axis that has room for these."""
        top = max(map(max, values))
        if not self.log:
            return Scale(_round(top), log=False)
        decades = math.ceil(math.log10(max(top, 1) / LEAST))
        return Scale(LEAST * 10.0 ** (decades + decades % 2), log=True)


LEAST = 0.01
"""Where an axis of powers of ten begins: what is less, or nothing, is drawn there."""

STYLES = ("#cf222e 2,3", "#9a6700 8,4", "#8250df 8,3,2,3", "#0969da", "#1a7f37 1,0")
"""Color and dashes of each policy's line."""
MEASURES = (
    Measure("pods refused at least once, per thousand", lambda result: result.refused),
    Measure("Failed pods for each pod", lambda result: result.failed / 1000, log=True),
    Measure("slots stranded, percent of all", lambda result: result.stranded),
)
WIDTH, LEFT, TOP = 1000, 62, 118
PLOT_WIDTH, PLOT_HEIGHT, STEP_X, STEP_Y = 252, 130, 322, 196
HEAD = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" \
aria-labelledby="title desc">
  <title id="title">What a placement policy costs</title>
  <desc id="desc">{description}</desc>
  <style>
    text {{ font-family: ui-sans-serif, system-ui, "DejaVu Sans", sans-serif; font-size: 12px; \
fill: #24292f; }}
    .head {{ font-weight: 600; font-size: 14px; }}
    .soft {{ fill: #57606a; }}
    .end {{ text-anchor: end; }}
    .middle {{ text-anchor: middle; }}
    .grid {{ stroke: #d0d7de; stroke-width: 1; }}
  </style>
  <rect x="1" y="1" width="{inner_width}" height="{inner_height}" rx="10" fill="#ffffff" \
stroke="#d0d7de"/>"""


def draw(panels: Panels, results: Results) -> str:
    """Return the picture: a column for each panel, a row for each measure."""
    height = TOP + STEP_Y * len(MEASURES) - 12
    parts = [_head(height, panels, results), *_legend()]
    for column, (title, lines) in enumerate(panels.items()):
        x = LEFT + column * STEP_X
        parts.append(f'  <text class="head" x="{x}" y="{TOP - 40}">{title}</text>')
        for row, measure in enumerate(MEASURES):
            values = [[results.mean(one, measure.of) for one in line] for line in lines.values()]
            parts += _plot(x, TOP + row * STEP_Y, measure, values)
    return "\n".join([*parts, "</svg>\n"])


def _head(height: int, panels: Panels, results: Results) -> str:
    """Begin; say in words what is seen at one load."""
    said = "; ".join(
        f"{title}, load {LOADS[1]:.0%}, refused per thousand: "
        + ", ".join(
            f"{policy.name} {results.mean(scenarios[1], lambda result: result.refused):.0f}"
            for policy, scenarios in lines.items()
        )
        for title, lines in panels.items()
    )
    return HEAD.format(
        width=WIDTH,
        height=height,
        description=said,
        inner_width=WIDTH - 2,
        inner_height=height - 2,
    )


def _legend() -> list[str]:
    parts = []
    for number, (policy, style) in enumerate(zip(OURS, STYLES, strict=True)):
        x = 30 + number * 195
        parts.append(f'  <path d="M{x} 36H{x + 34}" {_stroke(style)}/>')
        parts.append(f'  <text x="{x + 42}" y="40">{policy.name}</text>')
    return parts


def _stroke(style: str) -> str:
    color, _, dashes = style.partition(" ")
    return f'fill="none" stroke="{color}" stroke-width="2" stroke-dasharray="{dashes or "none"}"'


def _plot(x: int, y: int, measure: Measure, values: list[list[float]]) -> list[str]:
    """Return the axes of one measure in one panel, and a line for each policy."""
    scale = measure.scale(values)
    across = [x + PLOT_WIDTH * (load - 0.45) / 0.55 for load in LOADS]
    parts = [f'  <text class="soft" x="{x}" y="{y - 12}">{measure.name}</text>']
    for value, text in scale.ticks().items():
        level = _level(y, scale, value)
        parts.append(f'  <path class="grid" d="M{x} {level:.1f}h{PLOT_WIDTH}"/>')
        parts.append(f'  <text class="soft end" x="{x - 6}" y="{level + 4:.1f}">{text}</text>')
    for load, at in zip(LOADS, across, strict=True):
        below = y + PLOT_HEIGHT + 18
        text = f"load {load:.0%}" if load == LOADS[0] else f"{load:.0%}"
        parts.append(f'  <text class="soft middle" x="{at:.1f}" y="{below}">{text}</text>')
    for style, line in zip(STYLES, values, strict=True):
        points = " ".join(
            f"{at:.1f},{_level(y, scale, value):.1f}"
            for at, value in zip(across, line, strict=True)
        )
        parts.append(f'  <polyline points="{points}" {_stroke(style)}/>')
    return parts


def _level(y: int, scale: Scale, value: float) -> float:
    return y + PLOT_HEIGHT * (1 - scale.part(value))


def _round(value: float) -> float:
    """Return the next number of 1, 2, 4, 6, 8 times a power of ten."""
    if value <= 0:
        return 1.0
    unit = 10.0 ** math.floor(math.log10(value))
    return next(unit * factor for factor in (1, 2, 4, 6, 8, 10) if unit * factor >= value)
