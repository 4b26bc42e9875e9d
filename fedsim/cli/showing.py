"""Display of runs in progress: bars, or a page in the terminal."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from fedsim.cli.app import err as _err

if TYPE_CHECKING:
    from fedsim.running.run import Watch


@contextmanager
def show_runs(
    out: Path, count: int, labels: Mapping[str, str], *, quiet: bool, watch: bool
) -> "Iterator[Watch]":
    """Show runs in the terminal while the block runs; yield the callback for their progress."""
    from fedsim.cli.live_page import live_page
    from fedsim.cli.progress import progress_table
    from fedsim.running.run import ignore_progress

    hidden = nullcontext(ignore_progress)
    table = hidden if quiet or watch else progress_table(_err, count, labels)
    with live_page(_err, out) if watch else nullcontext(), table as callback:
        yield callback
