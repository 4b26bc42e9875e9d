"""Display of runs in progress: bars, a page in the terminal, or the report in a browser."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from fedsim.cli.app import comparison_options
from fedsim.cli.app import err as _err
from fedsim.cli.app import remark as _remark
from fedsim.cli.app import write_output as _write_output

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


@contextmanager
def follow_in_browser(out: Path) -> Iterator[None]:
    """Redraw the report while the block runs, and write the whole report at the end."""
    from fedsim.cli.browser_page import draw_page, open_browser
    from fedsim.core.errors import DataError
    from fedsim.results.analysis import Comparison
    from fedsim.results.report import write_comparison

    with draw_page(out) as page:
        _err.print(f"follow the runs at {page.file.as_uri()}", markup=False, highlight=False)
        open_browser(page.file)
        yield
        try:
            comparison = Comparison.of([out])
            options = comparison_options(comparison)
            with _write_output("report", [out], out / "report.html", options) as draft:
                write_comparison(comparison, draft.path)
        except DataError as error:
            _remark(f"there is no report: {error}")
        else:
            page.lead(draft.place)
            _err.print(f"report in {draft.place}", markup=False, highlight=False)
