"""Everything that the tests of a user-defined block import, in one place.

    from fedsim.testing import assert_kept, assert_ledger_balanced, check_compressor, run_linked

Each `check_...` returns a table with one row per check; `assert_kept` raises where one is broken.
`run_linked` runs a method over a link that delivers at once, `run_given` a scenario on given rates,
and `assert_ledger_balanced` audits a run. The page "Tests of a block" of the documentation has an
example of each.
"""

from fedsim.addons.conformance import (
    check_aggregation,
    check_algorithm,
    check_attack,
    check_block,
    check_compressor,
    check_device,
    check_energy,
    check_loss,
    check_network_model,
    check_radio,
    check_sending,
    check_source,
    check_split,
    check_stop_rule,
)
from fedsim.addons.conformance.assertions import assert_kept, assert_ledger_balanced
from fedsim.addons.conformance.link import LinkRecord, run_linked
from fedsim.addons.conformance.scripted import GivenAvailability, GivenTrace, run_given

__all__ = [
    "GivenAvailability",
    "GivenTrace",
    "LinkRecord",
    "assert_kept",
    "assert_ledger_balanced",
    "check_aggregation",
    "check_algorithm",
    "check_attack",
    "check_block",
    "check_compressor",
    "check_device",
    "check_energy",
    "check_loss",
    "check_network_model",
    "check_radio",
    "check_sending",
    "check_source",
    "check_split",
    "check_stop_rule",
    "run_given",
    "run_linked",
]
