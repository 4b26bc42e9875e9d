"""The picture of an NB-IoT module's power after a message: a step for each of its stages.

`stages()` returns it as SVG, for a light or a dark page. Heights are powers on a logarithmic scale;
widths are not times, which stand in words.
"""

from collections.abc import Iterator
from math import inf, log10
from typing import NamedTuple

from fedsim.physics.radios import NarrowbandRadio

PRESET = "nb-iot-psm"
"""The one that has all stages."""

_WIDTH, _HEIGHT, _TOP = 150, 170, 24
_MOST, _LEAST = 1.0, 1e-5  # W, at the top and at the bottom
_STYLE = (
    ".stages{color:#222}@media(prefers-color-scheme:dark){.stages{color:#ddd}}"
    ".stages text{fill:currentColor;text-anchor:middle;font:12px sans-serif}"
    ".stages .name{font-weight:600}"
    ".stages path{fill:#1f77b4;fill-opacity:.25;stroke:#1f77b4;stroke-width:2}"
)


class Step(NamedTuple):
    """A state: its name, its power in W, and how long it lasts in s."""

    name: str
    power: float
    time: float


def steps(preset: str = PRESET) -> Iterator[Step]:
    """Yield the states of a module that wakes for a message, sends it, and falls asleep."""
    radio = NarrowbandRadio.model_validate(preset)
    rest = radio.states.stages[-1]
    yield Step("waking", radio.resting + rest.wake_power, rest.wake_time)
    yield Step("sending", radio.resting + radio.draw.send, 0.0)
    for stage in radio.states.stages:
        yield Step(stage.name or "PSM", radio.resting + stage.power, stage.time)


def stages() -> str:
    """Return the picture, a file of SVG."""
    drawn = list(steps())
    width, height = len(drawn) * _WIDTH, _TOP + _HEIGHT + 56
    boxes = "".join(_step(number, step) for number, step in enumerate(drawn))
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" class="stages" role="img"'
        f' viewBox="0 0 {width} {height}" width="{width}" height="{height}">'
        f"<title>The stages of {PRESET}</title><style>{_STYLE}</style>{boxes}</svg>\n"
    )


def _step(number: int, step: Step) -> str:
    left, bottom = number * _WIDTH, _TOP + _HEIGHT
    share = log10(step.power / _LEAST) / log10(_MOST / _LEAST)
    top = round(bottom - share * _HEIGHT, 1)
    middle = left + _WIDTH // 2
    return (
        f'<path d="M {left},{bottom} V {top} H {left + _WIDTH} V {bottom}"/>'
        f'<text x="{middle}" y="{top - 7}">{step.power * 1e3:.3g} mW</text>'
        f'<text class="name" x="{middle}" y="{bottom + 20}">{step.name}</text>'
        f'<text x="{middle}" y="{bottom + 38}">{_said(step.time)}</text>'
    )


def _said(time: float) -> str:
    if time == inf:
        return "until it wakes"
    return f"for {time:g} s" if time else "as its bits take"
