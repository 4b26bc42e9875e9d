"""The terminal page of a study in progress: curves, runs with the time left, workers, events."""

import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from math import isfinite, isnan, log10
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from fedsim.core.errors import FedsimError
from fedsim.core.text import format_number, quantity, visible
from fedsim.results.record.live import LiveCampaign, LiveRun
from fedsim.running.probe import duration
from fedsim.running.watching import Key, Snapshot, Watcher, headline, time_left

_PAUSE = 1.0  # seconds of real time between two looks, at least

_SHARE = 0.01  # of real time, which looking and drawing may take at most

_LINE = 10.0  # seconds of real time between two lines outside of a terminal

_WIDE = 72  # columns from which on the rate and the worker of a run fit

_RUNS, _EVENTS = 8, 5  # lines of each

_BLOCKS = "▁▂▃▄▅▆▇█"


def sparkline(values: Sequence[float], width: int, *, log: bool = False) -> str:
    """Return a curve of block characters; what is not a number is a blank.

    Args:
        values: from left to right.
        width: in characters.
        log: whether equal ratios are equally high; values up to 0 are blanks then.

    >>> sparkline([1, 2, 3, 4, 5, 6, 7, 8], 8), sparkline([100, 1, float("nan"), 0.01], 4, log=True)
    ('▁▂▃▄▅▆▇█', '█▄ ▁')
    """
    places = [number * len(values) // width for number in range(width)] if values else []
    shown = [_height(values[place], log=log) for place in dict.fromkeys(places)]
    known = [each for each in shown if isfinite(each)]
    low, span = min(known, default=0.0), max(known, default=0.0) - min(known, default=0.0)
    top = len(_BLOCKS) - 1
    return "".join(
        _BLOCKS[int(top * (each - low) / span) if span else 0] if isfinite(each) else " "
        for each in shown
    )


def _height(value: float, *, log: bool) -> float:
    if not log:
        return value
    return log10(value) if value > 0 else float("nan")


def page(now: Snapshot, width: int) -> RenderableType:
    """Return the page of a study for a terminal of some width."""
    runs = list(now.running.values())
    parts: list[RenderableType] = [Text(headline(now), style="bold"), _variants(now)]
    for run in runs[:_RUNS]:
        parts.append(_run_line(run, width))
        parts += _curves(run, width)
    if len(runs) > _RUNS:
        parts.append(Text(f"and {len(runs) - _RUNS} more runs in progress", style="dim"))
    for own in now.campaigns:
        parts += map(_cut, _campaign(own))
    return Group(*parts)


def _cut(text: str) -> Text:
    return Text(visible(text), style="dim", no_wrap=True, overflow="ellipsis")


def _variants(now: Snapshot) -> Table:
    """Return a line for each variant with the states of its seeds."""
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True, overflow="ellipsis", max_width=24)
    table.add_column()
    for variant in now.status.variants:
        keys = [key for key in now.runs if key[0] == variant.variant]
        table.add_row(visible(variant.variant), Text(" ").join(_seed(now, key) for key in keys))
    return table


def _seed(now: Snapshot, key: Key) -> Text:
    if key in now.running:
        run = now.running[key]
        share = f" {100 * run.round // run.rounds} %" if run.rounds else " running"
        return Text(f"{key[1]}:{share.strip()}", style="yellow")
    state, style = ("failed", "red") if key in now.failed else ("pending", "dim")
    state, style = ("done", "green") if key in now.done else (state, style)
    return Text(f"{key[1]}:{state}", style=style)


def _run_line(run: LiveRun, width: int) -> Table:
    """Return the bar of a run, its round and the time left."""
    table = Table.grid(padding=(0, 1), expand=True)
    table.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
    table.add_column(width=max(6, width // 5))
    table.add_column(no_wrap=True, overflow="ellipsis")
    state = run.doing or (f"{run.round:,} of {run.rounds:,}" if run.rounds else "running")
    left = time_left(run)
    if not isnan(left) and width >= _WIDE:
        state += f", {duration(left)} left at most"
    bar = ProgressBar(total=max(run.rounds, 1), completed=run.round)
    table.add_row(visible(f"{run.variant}, seed {run.seed}"), bar, visible(state))
    return table


def _curves(run: LiveRun, width: int) -> Iterator[Text]:
    """Yield the curves of a run: its gap, or its objective, and its joules."""
    gaps = [point.gap for point in run.curve]
    known = any(map(isfinite, gaps))
    name, values = ("gap", gaps) if known else ("objective", [each.objective for each in run.curve])
    for label, curve, log, unit in (
        (name, values, known, ""),
        ("joules", [point.joules for point in run.curve], False, "J"),
    ):
        last = next((each for each in reversed(curve) if isfinite(each)), None)
        if last is not None:
            line = sparkline(curve, max(width - 26, 8), log=log)
            figure = quantity(last, unit) if unit else format_number(last, ".3g")
            yield Text(f"  {label:<9} {line} {figure}", no_wrap=True, overflow="ellipsis")


def _campaign(own: LiveCampaign) -> Iterator[str]:
    """Yield the workers of a campaign, and its last events."""
    late = f", last report {format_number(own.age, '.0f')} s ago" if own.age > 5 else ""
    yield f"{own.process}: {own.ended} of {own.runs} ended{late}{own.doing and ': '}{own.doing}"
    for run in own.running:
        rate = "" if isnan(run.rate) else f", {format_number(run.rate, '.3g')} rounds/s"
        if run.worker:
            yield f"  {run.worker}: {run.variant}, seed {run.seed}{rate}"
    for event in own.events[-_EVENTS:]:
        yield f"{event.seconds:7.0f} s  {event.text}"


def _looks(watcher: Watcher, over: threading.Event) -> Iterator[Snapshot]:
    """Yield the state of a study again and again, for a small share of the time."""
    pause = 0.0
    while not over.wait(pause):
        began = time.thread_time()
        with suppress(FedsimError, OSError):  # the folder is not there yet, or changes right now
            yield watcher.look()
        pause = max(_PAUSE, (time.thread_time() - began) / _SHARE)


def _show(console: Console, states: Iterable[Snapshot], *, ends: bool) -> None:
    """Show states as they come, on a page that is removed, or outside of a terminal in lines.

    Args:
        console: to print on.
        states: of the study.
        ends: whether to end when the study is over.
    """
    if not console.is_terminal:
        _print_lines(console, states, ends=ends)
        return
    with Live(console=console, auto_refresh=False, transient=True) as live:
        for now in states:
            live.update(page(now, console.width), refresh=True)
            if ends and now.over:
                return


def _print_lines(console: Console, states: Iterable[Snapshot], *, ends: bool) -> None:
    counts, printed = (-1, -1), 0.0
    for now in states:
        seen = len(now.done), len(now.failed)
        if seen != counts or time.monotonic() - printed >= _LINE:
            counts, printed = seen, time.monotonic()
            console.print(headline(now), markup=False, highlight=False, soft_wrap=True)
        if ends and now.over:
            return


def follow(console: Console, out: Path) -> None:
    """Show a study until its runs have ended, or no process makes them.

    Raises:
        DataError: the folder holds no record of its study, or a damaged one.
    """
    watcher = Watcher(out)
    watcher.look()
    _show(console, _looks(watcher, threading.Event()), ends=True)
    final = watcher.look()
    if console.is_terminal:
        console.print(page(final, console.width))


@contextmanager
def live_page(console: Console, out: Path) -> Iterator[None]:
    """Show a study within the block, while its runs are made."""
    over = threading.Event()
    states = _looks(Watcher(out), over)
    thread = threading.Thread(
        target=_show, args=(console, states), kwargs={"ends": False}, daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
