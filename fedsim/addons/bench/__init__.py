"""The bench: entries (methods with their settings) on tasks and fleets, ranked by their costs.

`rules` reads the files of the bench: tasks, fleets, entries, and the rules of a season. `running`
trains an entry once per task and seed, re-prices the training on every fleet, and seals a summary.
`worlds` prices it for other values of uncertain constants.
`verifying` finds summaries that the rules, or another training, contradict. `scoring` ranks entries
by performance profiles. `page` writes their tables in Markdown, `site` one HTML file, and `command`
has the command.
"""

from typing import TYPE_CHECKING

from fedsim.core.blocks.on_demand import exports

if TYPE_CHECKING:
    from fedsim.addons.bench.running import run_entry
    from fedsim.addons.bench.scoring import score
    from fedsim.addons.bench.verifying import verify
else:
    __getattr__, __dir__ = exports(__name__)

__all__ = ["run_entry", "score", "verify"]
