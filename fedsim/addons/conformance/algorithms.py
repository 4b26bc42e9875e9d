"""Checks of a method: it runs under every difficulty, or the scenario is refused with a reason.

    from fedsim.addons.conformance import check_algorithm
    print(check_algorithm({"problem": ..., "algorithm": {"kind": "mine", ...}}, blocks=[Mine]))

The method runs on a few fast clients and a slow one, in worlds with one difficulty each. In each
world it either runs to its end with a balanced ledger and a finite objective, or the scenario is
refused before the run. A run that diverges breaks no promise, since its step may only be too large,
but says little of the method. A method also fails if it commits its model before the update, so
that its first round ends with the initial model.
"""

import pickle
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite, nan
from typing import Any

import numpy as np
import pandas as pd

from fedsim.addons.conformance.findings import Promises, describe_error, table
from fedsim.algorithms import Algorithm, PeerAlgorithm
from fedsim.algorithms.messages import register_messages
from fedsim.core.blocks.plugins import dump
from fedsim.core.blocks.spec import Spec
from fedsim.core.blocks.wording import reject_renamed
from fedsim.core.errors import FedsimError, RunWarning, ScenarioError, TheoryWarning
from fedsim.core.ports import Array, Work
from fedsim.problems import ProgramProblem, kernels
from fedsim.problems.client_loss import LocalLoss
from fedsim.problems.evaluators import Evaluator
from fedsim.problems.samples import Draw
from fedsim.results.record.summary import is_whole
from fedsim.results.result import Result
from fedsim.running.api import run
from fedsim.running.probe import opening
from fedsim.running.run import ignore_progress
from fedsim.scenario import load
from fedsim.scenario.building import Builder, Job

Blocks = Mapping[str, Any]

Row = dict[str, Any]
"""One check: its name, its outcome, the reason of it, and figures."""

PLAIN = "no trouble"
"""The world without difficulties."""

FAILED = "failed"

QUICK = 4
"""Number of fast clients; one slow client is added."""

ROUNDS = 12

_ETHER: Blocks = {
    "kind": "wifi",
    "up": "1 Mbit/s",
    "down": "1 Mbit/s",
    "latency": "1 ms",
    "energy_up": "1 uJ/bit",
    "energy_down": "1 uJ/bit",
    "base": "100 mW",
}
_DEVICE: Blocks = {"kind": "pi-4"}
_KEPT: Blocks = {"models": {"every": 1}, "counting": "rounds"}
"""Stores the model of every round."""

_NUMBERS = frozenset(
    (kernels.value, kernels.constraint, kernels.root_mean_square, kernels.strong_convexity)
)
"""The kernels whose result is a number."""


@dataclass(frozen=True, slots=True)
class HardWorld:
    """A world with one difficulty.

    Attributes:
        blocks: replacements for blocks of the scenario.
        event: the event of log rows that show the difficulty; empty if none does.
    """

    blocks: Blocks
    event: str = ""


@dataclass(frozen=True, slots=True)
class Normal:
    """Time and energy of a run without difficulties, for scaling those of the others.

    Attributes:
        seconds: the mean duration of a round.
        joules: the energy of one fast client over the run.
    """

    seconds: float
    joules: float


def _fleet(quick: Blocks | None = None, radio: Blocks | None = None) -> list[Blocks]:
    """Return groups of fast clients, the first with special settings, and of a slow one."""
    ether = {**_ETHER, **(radio or {})}
    plain = {"device": _DEVICE, "radio": ether}
    slow = {"device": {**_DEVICE, "speed": "20 MFLOP/s"}, "radio": {**ether, "up": "50 kbit/s"}}
    return [
        {"count": 1, **plain, **(quick or {})},
        {"count": QUICK - 1, **plain},
        {"count": 1, **slow},
    ]


def trials(scenario: Blocks, normal: Normal) -> dict[str, HardWorld]:
    """Return the worlds by name."""
    asynchronous = scenario.get("participation", {}).get("kind") == "asynchronous"
    askings = _arrivals() if asynchronous else _rounds(normal)
    patience = {} if asynchronous else {"deadline": f"{20 * normal.seconds!r} s"}
    given_up = {"abandoned rounds": _given_up(scenario, normal)}
    return {**askings, **_losses(patience), **given_up, **_absences(normal), **_compressions()}


def _rounds(normal: Normal) -> dict[str, HardWorld]:
    """Return difficult participation settings for a method with synchronous rounds."""
    deadline = {"kind": "full", "deadline": f"{0.6 * normal.seconds!r} s"}
    return {
        "sampled clients": HardWorld({"participation": {"kind": "uniform", "count": 3}}, "sampled"),
        "late replies, kept": HardWorld({"participation": deadline}, "late"),
        "late replies, dropped": HardWorld({"participation": {**deadline, "late": "drop"}}, "late"),
        "an asynchronous server": HardWorld(
            {"participation": {"kind": "asynchronous", "buffer": 2}}
        ),
    }


def _arrivals() -> dict[str, HardWorld]:
    """Return difficult participation settings for a method with an asynchronous server."""
    few = {"kind": "asynchronous", "buffer": 1, "concurrency": 2}
    return {
        "one reply at a time": HardWorld({"participation": {"kind": "asynchronous", "buffer": 1}}),
        "few clients at work": HardWorld({"participation": few}, "sampled"),
    }


def _losses(patience: Blocks) -> dict[str, HardWorld]:
    """Return worlds with lossy radios; `patience` closes a round whose replies are lost."""
    lossy = {"loss": {"kind": "independent", "rate": "20 %"}}
    lasting: dict[str, Any] = {"fleet": _fleet(radio={**lossy, "tries": 1})}
    if patience:
        lasting["participation"] = {"kind": "full", **patience}
    return {
        "packets sent again": HardWorld(
            {"fleet": _fleet(radio={**lossy, "tries": "unlimited"})}, "retransmit"
        ),
        "messages lost for good": HardWorld(lasting, "lost"),
    }


def _given_up(scenario: Blocks, normal: Normal) -> HardWorld:
    """Return a world with so many losses that some rounds are abandoned."""
    asked = scenario.get("participation", {"kind": "full"})
    quorum = {} if asked.get("kind") == "asynchronous" else {"quorum": "60 %"}
    lossy = {"loss": {"kind": "independent", "rate": "30 %"}, "tries": 1}
    waits = {**asked, **quorum, "give_up": f"{10 * normal.seconds!r} s"}
    return HardWorld({"fleet": _fleet(radio=lossy), "participation": waits}, "abandoned")


def _absences(normal: Normal) -> dict[str, HardWorld]:
    """Return worlds whose first client is not always available."""
    battery = {"capacity": f"{0.5 * normal.joules!r} J", "charge": "100 %", "cutoff": "0 %"}
    on, off = (f"{times * normal.seconds!r} s" for times in (3, 2))
    away = {"kind": "markov", "on": on, "off": off}
    return {
        "a client that dies": HardWorld({"fleet": _fleet({"battery": battery})}, "depleted"),
        "a client that comes and goes": HardWorld(
            {"fleet": _fleet({"availability": away})}, "offline"
        ),
    }


def _compressions() -> dict[str, HardWorld]:
    """Return worlds with compression."""

    def link(way: str, kind: str, feedback: str = "none", **parameters: float) -> HardWorld:
        compressor = {"kind": kind, **parameters}
        return HardWorld({"wire": {way: {"compressor": compressor, "error_feedback": feedback}}})

    return {
        "rand-k": link("up", "rand-k", fraction=0.5),
        "top-k": link("up", "top-k", fraction=0.5),
        "top-k with error feedback": link("up", "top-k", "ef", fraction=0.5),
        "the sign with EF21": link("up", "scaled-sign", "ef21"),
        "a compressed downlink": link("down", "qsgd"),
        "error feedback down": link("down", "top-k", "ef", fraction=0.5),
        "EF21 down": link("down", "top-k", "ef21", fraction=0.5),
    }


@reject_renamed
def check_algorithm(
    scenario: Blocks, blocks: Sequence[type[Spec]] = (), rounds: int = ROUNDS
) -> pd.DataFrame:
    """Run a method in every world.

    Args:
        scenario: a problem and an algorithm, as in YAML; for an asynchronous method also its
            participation. The split is over five clients, unless it sets their number.
        blocks: user-defined classes that it names.
        rounds: the number of rounds of every run.

    Returns:
        One row per world: world, outcome (done, refused, diverged or failed), reason, rounds,
        trouble (the number of log rows that show the difficulty; NaN if no row would), and the
        objective after the first round and after the last. A method that fails in the first world,
        which has no difficulty, is not tried in the others.

    Raises:
        ScenarioError: the scenario is invalid even without difficulties.

    Example:
        >>> table = check_algorithm(scenario, rounds=2)
        >>> sorted(table["outcome"].unique())
        ['done', 'refused']
    """
    return pd.DataFrame(list(algorithm_rows(scenario, blocks, rounds)))


def algorithm_rows(
    scenario: Blocks, blocks: Sequence[type[Spec]] = (), rounds: int = ROUNDS
) -> Iterator[Row]:
    """Yield the rows of `check_algorithm`, each as soon as its world is done.

    A method that fails without difficulties is not tried in the other worlds: it would fail in each
    of them for the same reason.
    """
    base = easy_scenario(scenario, rounds)
    method = type(load(base, blocks=blocks).variants[0].scenario.algorithm)
    try:
        plain = _run({**base, **_KEPT}, blocks)
        first = Builder(load(easy_scenario(scenario, 1), blocks=blocks)).check()[0]
        early = "" if _has_diverged(plain) else _early_commit(first, plain)
    except ScenarioError:
        raise
    except Exception as error:  # noqa: BLE001 - blocks are user-defined, and may raise anything
        yield {"world": PLAIN, **_failure_row(error, method)}
        return
    failure = {"outcome": FAILED, "reason": early} if early else {}
    row = {"world": PLAIN, **_row(plain, ""), **failure}
    yield row
    if row["outcome"] == FAILED:
        return
    for world, trial in trials(scenario, _normal(plain)).items():
        yield {"world": world, **_try({**base, **trial.blocks}, trial.event, blocks, method)}


def easy_scenario(scenario: Blocks, rounds: int = ROUNDS) -> Blocks:
    """Return the scenario of a problem and an algorithm without difficulties."""
    return {**scenario, "fleet": _fleet(), "stop": {"rounds": rounds}}


def diverges(scenario: Blocks, blocks: Sequence[type[Spec]] = ()) -> bool:
    """Return whether a method diverges without difficulties.

    Args:
        scenario: a problem and an algorithm, as for `check_algorithm`.
        blocks: user-defined classes that it names.
    """
    try:
        return _has_diverged(_run(easy_scenario(scenario), blocks))
    except Exception:  # noqa: BLE001 - blocks are user-defined; `check_algorithm` reports the error
        return False


def _has_diverged(result: Result) -> bool:
    return bool((result.summary["status"] == "diverged").any())


def _run(scenario: Blocks, blocks: Sequence[type[Spec]]) -> Result:
    """Run a scenario without warnings, whose content the table of checks has."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TheoryWarning)
        warnings.simplefilter("ignore", RunWarning)
        return run(scenario, blocks=blocks, watch=ignore_progress, check=False)


def _try(
    scenario: Blocks, event: str, blocks: Sequence[type[Spec]], method: type
) -> dict[str, Any]:
    try:
        return _row(_run(scenario, blocks), event)
    except ScenarioError as error:
        text = "; ".join(f"{fault.key}: {fault.message}" for fault in error.faults)
        return {"outcome": "refused", "reason": text, "rounds": 0}
    except Exception as error:  # noqa: BLE001 - blocks are user-defined, and may raise anything
        return _failure_row(error, method)


def _failure_row(error: Exception, method: type) -> dict[str, Any]:
    """Return the row of a run that did not end properly."""
    text = str(error) if isinstance(error, FedsimError) else describe_error(error, method)
    return {"outcome": FAILED, "reason": text, "rounds": 0}


def _early_commit(job: Job, result: Result) -> str:
    """Return a reason if the first round should change the model, but ends with the initial one.

    Some methods may keep the initial model: at a stationary point, such as zero under a heavy
    penalty; if clients evaluated only numbers, such as constraints; or among peers, since averaging
    does not change the mean of their models.

    Args:
        job: a job of one round.
        result: a run with stored models.
    """
    problem, start = job.problem, job.setup.initial
    replies = result.rounds.set_index("round")["transmissions"].get(1, 0)
    unknown = isinstance(job.algorithm, PeerAlgorithm) or isinstance(problem, ProgramProblem)
    if unknown or not replies or not np.array_equal(result.model(round=1).ravel(), start):
        return ""
    if not problem.regulariser.residual(start, problem.gradient(start)):
        return ""
    if _NUMBERS.issuperset(_kernels(job)):
        return ""
    return (
        "round 1 has replies, and ends with the model that the run starts with: call"
        " server.commit(w) after the update of w"
    )


def _normal(result: Result) -> Normal:
    (summary,) = result.summary.to_dict("records")
    return Normal(
        seconds=summary["t"] / max(summary["rounds"], 1),
        joules=float(result.clients["joules"].iloc[1]),
    )


def _row(result: Result, event: str) -> dict[str, Any]:
    (summary,) = result.summary.to_dict("records")
    failure = "diverged" if _has_diverged(result) else FAILED
    ended = is_whole(summary["status"]) and isfinite(summary["objective"])
    objective = result.rounds.set_index("round")["objective"]
    return {
        "outcome": "done" if ended else failure,
        "reason": summary["reason"],
        "rounds": summary["rounds"],
        "trouble": int((result.events["event"] == event).sum()) if event else nan,
        "first": objective.get(1, nan),
        "last": summary["objective"],
    }


# Checks of pickling and encoding: work for other processes, messages as bytes.

Kernel = Callable[..., Array]


def check_sending(scenario: Mapping[str, Any], blocks: Sequence[type[Spec]] = ()) -> pd.DataFrame:
    """Check that work can go to another process, and messages can be encoded, in the first rounds.

    Args:
        scenario: a problem and an algorithm, as for `check_algorithm`.
        blocks: user-defined classes that it names.

    Returns:
        One row per check: check, outcome (kept or broken), and the reason.

    Raises:
        ScenarioError: the scenario is invalid.

    Example:
        >>> check_sending(scenario)["outcome"].unique().tolist()
        ['kept']
    """
    job = Builder(load(easy_scenario(scenario), blocks=blocks)).check()[0]

    def promises() -> Promises:
        yield "its work can be done by another process", _find_bound(_kernels(job))
        yield "its messages can be encoded as bytes", _renumber(type(job.algorithm))

    return table(type(job.algorithm), promises())


def _kernels(job: Job) -> Sequence[Kernel]:
    """Return the kernels of the work of a job's first rounds."""
    noting = Noting(job.evaluation.evaluator)
    opening(replace(job, evaluation=job.evaluation._replace(evaluator=noting)))
    return noting.kernels


class Noting:
    """An evaluator that records kernels, and passes work on to another evaluator.

    Attributes:
        kernels: the distinct kernels, in the order of first use.
    """

    def __init__(self, evaluator: Evaluator) -> None:
        self._evaluator = evaluator
        self.kernels: list[Kernel] = []

    @property
    def losses(self) -> Sequence[LocalLoss]:
        """See `Evaluator.losses`."""
        return self._evaluator.losses

    @property
    def choice(self) -> Mapping[str, Any]:
        """See `Evaluator.choice`."""
        return self._evaluator.choice

    @property
    def together(self) -> bool:
        """See `Evaluator.together`."""
        return self._evaluator.together

    @property
    def draw(self) -> Draw:
        """See `Evaluator.draw`."""
        return self._evaluator.draw

    @property
    def draws(self) -> bool:
        """See `Evaluator.draws`."""
        return self._evaluator.draws

    def submit(self, work: Work) -> Any:
        """See `Evaluator.submit`."""
        if work.kernel not in self.kernels:
            self.kernels.append(work.kernel)
        return self._evaluator.submit(work)

    def result(self, ticket: Any) -> Array:
        """See `Evaluator.result`."""
        return self._evaluator.result(ticket)

    def finite(self, ticket: Any, result: Array) -> bool:
        """See `Evaluator.finite`."""
        return self._evaluator.finite(ticket, result)

    def withdraw(self, ticket: Any) -> None:
        """See `Evaluator.withdraw`."""
        self._evaluator.withdraw(ticket)

    def values(self, w: Array) -> Array:
        """See `Evaluator.values`."""
        return self._evaluator.values(w)


def _find_bound(noted: Sequence[Kernel]) -> Iterator[str]:
    """Yield kernels that are not functions of a module, and so cannot be pickled."""
    for kernel in noted:
        try:
            pickle.loads(dump(kernel))
        except (pickle.PickleError, AttributeError, TypeError):
            name = getattr(kernel, "__qualname__", repr(kernel))
            code = getattr(kernel, "__code__", None)
            where = f", line {code.co_firstlineno} of {code.co_filename}," if code else ""
            yield (
                f"the kernel {name}{where} cannot be pickled; make it a function of the module, and"
                " pass its inputs as `arguments`"
            )


def _renumber(method: type[Algorithm]) -> Iterator[str]:
    try:
        register_messages(method)
    except TypeError as error:
        yield str(error)
