"""How far a campaign is, as a bar in a notebook.

It is tqdm's, which notebooks know: it draws a widget where ipywidgets are installed, and a line of
text where they are not. Rich, which draws the table in a terminal, needs ipywidgets in a notebook.
"""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from math import isnan
from typing import Any

from fedsim.running.execution import RunProgress, Watch, unwatched

_REDRAW = 0.1  # seconds of real time

_FORMAT = "{desc} {percentage:3.0f}% |{bar}| {elapsed}{postfix}"


@contextmanager
def notebook_bar(name: str, runs: int) -> Iterator[Watch]:
    """Show a bar for all runs together, if this is a notebook; it goes when they have ended."""
    if not in_notebook():
        yield unwatched
        return
    with _bar()(total=runs, desc=name, bar_format=_FORMAT, leave=False) as bar:
        yield _Bar(bar)


def in_notebook() -> bool:
    """Say whether this is a kernel of Jupyter, or of what speaks its language."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return "IPKernelApp" in getattr(shell, "config", ())


def _bar() -> Any:  # noqa: ANN401 - a class of tqdm's, which has no types
    """Return the class of bars that can be drawn here."""
    if find_spec("ipywidgets") is None:
        from tqdm import tqdm

        return tqdm
    from tqdm.notebook import tqdm_notebook

    return tqdm_notebook


class _Bar:
    """Keeps a bar: a run counts by the share of its rounds until it ends, then as one."""

    def __init__(self, bar: Any) -> None:  # noqa: ANN401 - of tqdm's, see above
        self._bar = bar
        self._shares: dict[tuple[str, int], float] = {}
        self._drawn = 0.0

    def __call__(self, reached: RunProgress) -> None:
        key = reached.variant, reached.seed
        self._shares[key] = 1.0 if reached.ended else reached.round / max(reached.rounds, 1)
        now = time.monotonic()
        if reached.ended or now - self._drawn >= _REDRAW:
            self._drawn = now
            self._bar.set_postfix_str(_state(reached), refresh=False)
            self._bar.update(sum(self._shares.values()) - self._bar.n)


def _state(reached: RunProgress) -> str:
    figure = "objective" if isnan(reached.gap) else "gap"
    run = f"{reached.variant}, seed {reached.seed}, round {reached.round}"
    return f"{run}, {figure} {getattr(reached, figure):.3g}"
