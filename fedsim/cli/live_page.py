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
from fedsim.running.watching import Key, Snapshot, Watcher, describe_left, headline, time_left

_PAUSE = 1.0  # least seconds of real time between two readings of the folder

_SHARE = 0.01  # largest share of real time that reading and drawing may take

_LINE = 10.0  # seconds of real time between two lines outside of a terminal

_WIDE = 72  # least width of a terminal, in characters, at which the time left is shown

_RUNS, _EVENTS = 8, 5  # most lines of each

_BLOCKS = "▁▂▃▄▅▆▇█"


def sparkline(values: Sequence[float], width: int, *, log: bool = False) -> str:
    """Return a curve of block characters; NaN is a blank.

    Args:
        values: from left to right.
        width: in characters.
        log: whether the scale is logarithmic; values of 0 or less are blanks then.

    >>> sparkline([1, 2, 3, 4, 5, 6, 7, 8], 8), sparkline([100, 1, float("nan"), 0.01], 4, log=True)
    ('▁▂▃▄▅▆▇█', '█▄ ▁')
    """
    places = [number * len(values) // width for number in range(width)] if values else []
    heights = [_height(values[place], log=log) for place in dict.fromkeys(places)]
    finite = [height for height in heights if isfinite(height)]
    low, span = min(finite, default=0.0), max(finite, default=0.0) - min(finite, default=0.0)
    top = len(_BLOCKS) - 1
    return "".join(
        _BLOCKS[int(top * (height - low) / span) if span else 0] if isfinite(height) else " "
        for height in heights
    )


def _height(value: float, *, log: bool) -> float:
    if not log:
        return value
    return log10(value) if value > 0 else float("nan")


def page(now: Snapshot, width: int) -> RenderableType:
    """Return the page of a study for a terminal of this width, in characters."""
    runs = list(now.running.values())
    parts: list[RenderableType] = [Text(headline(now), style="bold"), _variants(now)]
    for run in runs[:_RUNS]:
        parts.append(_run_line(run, width))
        parts += _curves(run, width)
    if len(runs) > _RUNS:
        parts.append(Text(f"and {len(runs) - _RUNS} more runs in progress", style="dim"))
    for campaign in now.campaigns:
        parts += map(_cut, _campaign(campaign))
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
        state += f", {describe_left(left)}"
    bar = ProgressBar(total=max(run.rounds, 1), completed=run.round)
    table.add_row(visible(f"{run.variant}, seed {run.seed}"), bar, visible(state))
    return table


def _curves(run: LiveRun, width: int) -> Iterator[Text]:
    """Yield the curves of a run: its gap or its objective, and its energy."""
    gaps = [point.gap for point in run.curve]
    has_gap = any(map(isfinite, gaps))
    objectives = [point.objective for point in run.curve]
    name, values = ("gap", gaps) if has_gap else ("objective", objectives)
    for label, curve, log, unit in (
        (name, values, has_gap, ""),
        ("joules", [point.joules for point in run.curve], False, "J"),
    ):
        last = next((value for value in reversed(curve) if isfinite(value)), None)
        if last is not None:
            line = sparkline(curve, max(width - 26, 8), log=log)
            figure = quantity(last, unit) if unit else format_number(last, ".3g")
            yield Text(f"  {label:<9} {line} {figure}", no_wrap=True, overflow="ellipsis")


def _campaign(campaign: LiveCampaign) -> Iterator[str]:
    """Yield the workers of a campaign, and its last events."""
    age, doing = campaign.age, campaign.doing
    late = f", last report {format_number(age, '.0f')} s ago" if age > 5 else ""
    state = f"{campaign.ended} of {campaign.runs} ended{late}"
    yield f"{campaign.process}: {state}{doing and ': '}{doing}"
    for run in campaign.running:
        rate = "" if isnan(run.rate) else f", {format_number(run.rate, '.3g')} rounds/s"
        if run.worker:
            yield f"  {run.worker}: {run.variant}, seed {run.seed}{rate}"
    for event in campaign.events[-_EVENTS:]:
        yield f"{event.seconds:7.0f} s  {event.text}"


def _snapshots(watcher: Watcher, stop: threading.Event) -> Iterator[Snapshot]:
    """Yield the state of a study repeatedly until `stop` is set."""
    pause = 0.0
    while not stop.wait(pause):
        began = time.thread_time()
        with suppress(FedsimError, OSError):  # the folder does not exist yet, or is being changed
            yield watcher.look()
        pause = max(_PAUSE, (time.thread_time() - began) / _SHARE)


def _show(console: Console, states: Iterable[Snapshot], *, ends: bool) -> None:
    """Show states on a page that is removed at the end; without a terminal, as lines.

    Args:
        console: to print on.
        states: the states of the study.
        ends: whether to return when all runs have ended.
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
        ended = len(now.done), len(now.failed)
        if ended != counts or time.monotonic() - printed >= _LINE:
            counts, printed = ended, time.monotonic()
            console.print(headline(now), markup=False, highlight=False, soft_wrap=True)
        if ends and now.over:
            return


def follow(console: Console, out: Path) -> None:
    """Show a study until its runs have ended, or no process works on it.

    Raises:
        DataError: the folder holds no record of its study, or a damaged one.
    """
    watcher = Watcher(out)
    watcher.look()
    _show(console, _snapshots(watcher, threading.Event()), ends=True)
    final = watcher.look()
    if console.is_terminal:
        console.print(page(final, console.width))


@contextmanager
def live_page(console: Console, out: Path) -> Iterator[None]:
    """Show a study while the block runs."""
    stop = threading.Event()
    states = _snapshots(Watcher(out), stop)
    thread = threading.Thread(
        target=_show, args=(console, states), kwargs={"ends": False}, daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
