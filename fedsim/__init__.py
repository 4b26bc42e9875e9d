"""fedsim: an event-driven network simulator for communication-efficient federated optimisation.

    import fedsim

    result = fedsim.run("quickstart")               # a scenario: an example, a file, a mapping
    result.events, result.rounds, result.clients, result.summary    # pandas
    result.plot(), result.compare(), result.report()                # a figure, tables, a page

run       run every variant of a scenario under every seed
check     validate a scenario, and find the costs of its first two rounds
load      read, merge and validate a scenario
open      the results of an earlier run, from its folder
reprice   the same runs under another fleet or network, without training again
robust    which conclusions survive the uncertainty of constants
explore   a page on which the constants of a study can be moved
arrays    arrays as the data of a scenario; `table` takes a data frame, `dataset` one of
          Hugging Face's or flwr-datasets' data sets

`help(fedsim.run)` says more, and so does the reference: docs/reference, or `mkdocs serve`. Tables
and figures of results are in `fedsim.results.analysis`, base classes of own blocks in
`fedsim.extend`.

Each name is loaded on first use, so that the command can set its signal handlers before it loads
anything else.
"""

from importlib import import_module

from fedsim.core.loaded import LOADED as LOADED  # isort: skip - first of all
from fedsim.core.extras import VERSION
from fedsim.core.former import FORMER, as_attribute, keep_former_names

TYPE_CHECKING = False  # as in typing, which takes time to load
if TYPE_CHECKING:
    from fedsim.addons.explorer import explore
    from fedsim.addons.repricing import reprice
    from fedsim.addons.robustness import robust
    from fedsim.core.errors import (
        AuditError,
        BlockError,
        DataError,
        Deadlock,
        DecodeError,
        Diverged,
        FedsimError,
        OccupiedError,
        OutputError,
        RepricingError,
        RunError,
        RunWarning,
        ScenarioError,
        TheoryWarning,
    )
    from fedsim.problems.data.files import arrays
    from fedsim.problems.data.in_python import dataset
    from fedsim.problems.data.table import table
    from fedsim.results.result import Result, open  # noqa: A004 - as a file is opened
    from fedsim.running.api import run
    from fedsim.running.check import check
    from fedsim.scenario import Scenario, load

keep_former_names()

__version__ = VERSION

__all__ = [
    "AuditError",
    "BlockError",
    "DataError",
    "Deadlock",
    "DecodeError",
    "Diverged",
    "FedsimError",
    "OccupiedError",
    "OutputError",
    "RepricingError",
    "Result",
    "RunError",
    "RunWarning",
    "Scenario",
    "ScenarioError",
    "TheoryWarning",
    "arrays",
    "check",
    "dataset",
    "explore",
    "load",
    "open",
    "reprice",
    "robust",
    "run",
    "table",
]

_HOMES = {
    "arrays": "fedsim.problems.data.files",
    "dataset": "fedsim.problems.data.in_python",
    "explore": "fedsim.addons.explorer",
    "table": "fedsim.problems.data.table",
    "reprice": "fedsim.addons.repricing",
    "robust": "fedsim.addons.robustness",
    "Result": "fedsim.results.result",
    "open": "fedsim.results.result",
    "check": "fedsim.running.check",
    "run": "fedsim.running.api",
    "Scenario": "fedsim.scenario",
    "load": "fedsim.scenario",
}
"""The module of each name; all others are errors."""

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Load a public name."""
        if name in FORMER:
            return as_attribute(name)
        if name not in __all__:
            raise AttributeError(f"module 'fedsim' has no attribute {name!r}")
        found = getattr(import_module(_HOMES.get(name, "fedsim.core.errors")), name)
        globals()[name] = found
        return found

    def __dir__() -> list[str]:
        own = [name for name in globals() if name.startswith("__")]
        return sorted({*own, *__all__})
