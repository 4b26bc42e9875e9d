"""Elements of a drawing, as text: no script, no identifier, no colour that only one page shows."""

from collections.abc import Sequence

import numpy as np
from markupsafe import Markup, escape
from numpy.typing import ArrayLike

from fedsim.analysis import COLOURS
from fedsim.visible import visible

WIDE, HIGH = 10_000, 10_000
"""Of the box that curves are drawn in; it is stretched to the area that it lies on."""

_INK = {colour: f"var(--c{number})" for number, colour in enumerate(COLOURS)}
_INK |= {"#BBBBBB": "var(--rest)", "#666666": "var(--off)"}


def ink(colour: str) -> str:
    """Return a colour as the page has it, which is another one in the dark.

    >>> ink("#0072B2"), ink("#BBBBBB"), ink("#123456")
    ('var(--c0)', 'var(--rest)', '#123456')
    """
    return _INK.get(colour, colour)


def tag(name: str, *children: object, **facts: object) -> Markup:
    r"""Return an element. Text is escaped, and what would hide in it is shown.

    Args:
        name: of the element.
        children: elements and texts; None and empty ones are left out.
        facts: attributes, "_" for "-"; None and "" are left out.

    >>> print(tag("text", "a < b", class_="tick", x=0.25))
    <text class="tick" x="0.25">a &lt; b</text>
    """
    own = Markup("").join(
        Markup(' {}="{}"').format(key.rstrip("_").replace("_", "-"), _short(value))
        for key, value in facts.items()
        if value is not None and value != ""
    )
    inside = joined(children)
    if not inside:
        return Markup("<{}{}/>").format(name, own)
    return Markup("<{}{}>{}</{}>").format(name, own, inside, name)


def joined(children: Sequence[object]) -> Markup:
    """Return elements and texts in a row."""
    return Markup("").join(
        each if isinstance(each, Markup) else escape(visible(str(each)))
        for each in children
        if each is not None
    )


def percent(share: float) -> str:
    """Return a share of the width, as an attribute has it.

    >>> percent(1 / 3), percent(0.5)
    ('33.333%', '50%')
    """
    return f"{round(100 * share, 3):.7g}%"


def path(x: ArrayLike, y: ArrayLike) -> str:
    """Return a line through some points, shares of `WIDE` and `HIGH`; it breaks at what is NaN.

    >>> path([0, 0.5, 1], [1, 0.5, 0.5])
    'M0 10000l5000-5000 5000 0'
    """
    places = np.column_stack([np.asarray(x, dtype=float), np.asarray(y, dtype=float)])
    known = np.isfinite(places).all(axis=1)
    breaks = np.flatnonzero(np.diff(np.concatenate([[False], known, [False]]).astype(np.int8)))
    parts = zip(breaks[::2].tolist(), breaks[1::2].tolist(), strict=True)
    return "".join(_piece(places[begin:end]) for begin, end in parts)


def _piece(places: np.ndarray[tuple[int, int], np.dtype[np.float64]]) -> str:
    """Return a line without a gap: where it begins, then its steps, those of nothing left out."""
    far = 20 * max(WIDE, HIGH)  # of what leaves the area, so much is enough
    whole = np.clip(np.rint(places * (WIDE, HIGH)), -far, far).astype(np.int64)
    steps = np.diff(whole, axis=0)
    steps = steps[steps.any(axis=1)]
    begin = f"M{whole[0, 0]} {whole[0, 1]}"
    if not len(steps):
        return f"{begin}h0"
    return f"{begin}l" + " ".join(f"{dx}{dy}" if dy < 0 else f"{dx} {dy}" for dx, dy in steps)


def _short(value: object) -> object:
    return f"{value:.6g}" if isinstance(value, float) else value
