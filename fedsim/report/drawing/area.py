"""The area of a figure: its axes, and what is drawn on it.

An area is as wide as the page lets it, and as high as is said. What lies on it is placed by shares
of its width, so lines stretch, while words and marks keep their size on any screen. Words at
the axes stand beside the area, in the margin that its style leaves for them.
"""

from dataclasses import dataclass

from markupsafe import Markup

from fedsim.report.drawing.scales import Scale
from fedsim.report.drawing.svg import HIGH, WIDE, joined, percent, tag

_LETTER = 6.6  # pixels of a letter at an axis, on average at most

_RIGHT = 18  # pixels beside an area, for the last tick's label


@dataclass(frozen=True, slots=True)
class Area:
    """What a figure is drawn on.

    Attributes:
        label: what is read out in place of the figure.
        height: of the area, pixels.
        x: the axis from left to right.
        title: of that axis, without its unit.
        y: the axis upwards; None for lanes, which have names.
        lanes: names beside the area, and how far down each stands, pixels.
        upwards: title of the axis upwards; it stands above it.
    """

    label: str
    height: int
    x: Scale
    title: str
    y: Scale | None = None
    lanes: tuple[tuple[str, float], ...] = ()
    upwards: str = ""

    @property
    def left(self) -> int:
        """How much room the words on the left take, pixels."""
        names = [text for _, text in self.y.ticks] if self.y else [name for name, _ in self.lanes]
        return int(max((_LETTER * len(name) for name in names), default=4)) + 10

    def holding(self, *content: Markup) -> Markup:
        """Return the figure, with something drawn on its area."""
        margin = f"{28 if self.upwards else 8}px {_RIGHT}px 44px {self.left}px"
        return tag(
            "svg",
            *(self._across(), self._upwards(), self._names(), *content),
            class_="area",
            role="img",
            aria_label=self.label,
            height=self.height,
            data_x=self.x.told,
            data_y=self.y.told if self.y else None,
            style=f"margin:{margin};width:calc(100% - {self.left + _RIGHT}px)",
        )

    def _across(self) -> Markup:
        parts: list[Markup] = []
        for share, text in self.x.marks:
            place = percent(share)
            parts.append(tag("line", class_="grid", x1=place, x2=place, y1="0", y2="100%"))
            parts.append(tag("text", text, class_="x", x=place, y=self.height + 16))
        unit = f", {self.x.unit}" if self.x.unit else ""
        title = tag("text", f"{self.title}{unit}", class_="x", x="50%", y=self.height + 35)
        base = tag("line", class_="base", x1="0", x2="100%", y1="100%", y2="100%")
        return joined([*parts, title, base])

    def _upwards(self) -> Markup:
        if self.y is None:
            return Markup("")
        parts: list[Markup] = []
        for share, text in self.y.marks:
            place = percent(1 - share)
            parts.append(tag("line", class_="grid", x1="0", x2="100%", y1=place, y2=place))
            parts.append(tag("text", text, class_="y", x=-6, y=place, dy="0.35em"))
        title = tag("text", self.upwards, x=6 - self.left, y=-12) if self.upwards else None
        base = tag("line", class_="base", x1="0", x2="0", y1="0", y2="100%")
        return joined([*parts, title, base])

    def _names(self) -> Markup:
        return joined(
            [tag("text", name, class_="y", x=-6, y=down, dy="0.35em") for name, down in self.lanes]
        )


def stretched(*content: Markup) -> Markup:
    """Return curves, in shares of `WIDE` and `HIGH`, stretched to the area they lie on."""
    return tag(
        "svg",
        *content,
        width="100%",
        height="100%",
        viewBox=f"0 0 {WIDE} {HIGH}",
        preserveAspectRatio="none",
    )
