"""fedsim: an event-driven network simulator for communication-efficient federated optimisation.

import fedsim

result = fedsim.run("scenarios/quickstart.yaml")
result.events, result.rounds, result.clients, result.summary
"""

from fedsim.errors import (
    AuditError,
    DataError,
    Deadlock,
    DecodeError,
    Diverged,
    FedsimError,
    OccupiedError,
    OutputError,
    RepricingError,
    RunError,
    ScenarioError,
    TheoryWarning,
)
from fedsim.repricing import reprice
from fedsim.run import Result, run
from fedsim.scenario import Scenario, load

__version__ = "0.1.0"

__all__ = [
    "AuditError",
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
    "Scenario",
    "ScenarioError",
    "TheoryWarning",
    "load",
    "reprice",
    "run",
]
