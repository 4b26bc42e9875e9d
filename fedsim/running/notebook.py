"""How far a campaign is, as a bar in a notebook.

It is tqdm's, which notebooks know: it draws a widget where ipywidgets are installed, and a line of
text where they are not. Rich, which draws the table in a terminal, needs ipywidgets in a notebook.
"""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from math import isnan
from typing import Any

from fedsim.running.execution import RunProgress, Watch, unwatched
from fedsim.under_way import now

_REDRAW = 0.1  # seconds of real time

_LONG = 1.0  # seconds of real time without a word, after which it is shown what goes on

_FORMAT = "{desc} {percentage:3.0f}% |{bar}| {elapsed}{postfix}"


@contextmanager
def notebook_bar(name: str, runs: int) -> Iterator[Watch]:
    """Show a bar for all runs together, if this is a notebook; it goes when they have ended."""
    if not in_notebook():
        yield unwatched
        return
    with _bar()(total=runs, desc=name, bar_format=_FORMAT, leave=False) as bar:
        kept = _Bar(bar)
        with kept.looking():
            yield kept


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
        self._heard = time.monotonic()

    @contextmanager
    def looking(self) -> Iterator[None]:
        """Show within the block what goes on, whenever nobody has said a word for long."""
        over = threading.Event()
        looker = threading.Thread(target=self._look_until, args=(over,), daemon=True)
        looker.start()
        try:
            yield
        finally:
            over.set()
            looker.join()

    def _look_until(self, over: threading.Event) -> None:
        while not over.wait(_LONG):
            if time.monotonic() - self._heard >= _LONG and (words := now()):
                self._bar.set_postfix_str(words)

    def __call__(self, reached: RunProgress) -> None:
        self._heard = time.monotonic()
        if reached.doing:
            self._bar.set_postfix_str(f"{_run(reached)}, {reached.doing}")
            return
        key = reached.variant, reached.seed
        self._shares[key] = 1.0 if reached.ended else reached.round / max(reached.rounds, 1)
        if reached.ended or self._heard - self._drawn >= _REDRAW:
            self._drawn = self._heard
            self._bar.set_postfix_str(_state(reached), refresh=False)
            self._bar.update(sum(self._shares.values()) - self._bar.n)


def _state(reached: RunProgress) -> str:
    figure = "objective" if isnan(reached.gap) else "gap"
    return f"{_run(reached)}, {figure} {getattr(reached, figure):.3g}"


def _run(reached: RunProgress) -> str:
    return f"{reached.variant}, seed {reached.seed}, round {reached.round}"
