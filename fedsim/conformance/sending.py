"""Can what a method does go elsewhere: its work to another process, its messages as bytes?"""

import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from fedsim.algorithms import Algorithm
from fedsim.algorithms.messages import registered
from fedsim.blocks.plugins import dumped
from fedsim.blocks.spec import Spec
from fedsim.building import Builder
from fedsim.computing import Evaluator
from fedsim.conformance.algorithms import untroubled
from fedsim.conformance.findings import Promises, table
from fedsim.ports import Array, Work
from fedsim.problems.local import LocalLoss
from fedsim.problems.minibatches import Draw
from fedsim.running.probe import opening
from fedsim.scenario import load

Kernel = Callable[..., Array]


def check_sending(scenario: Mapping[str, Any], blocks: Sequence[type[Spec]] = ()) -> pd.DataFrame:
    """Look at the work and the messages of a method's first rounds.

    Args:
        scenario: a problem and an algorithm, as for `check_algorithm`.
        blocks: classes of one's own that it names.

    Returns:
        A row a check: check, outcome (kept or broken), and the reason.

    Raises:
        ScenarioError: the scenario is wrong.
    """
    job = Builder(load(untroubled(scenario), blocks=blocks)).check()[0]
    noting = Noting(job.evaluation.evaluator)
    watched = replace(job, evaluation=job.evaluation._replace(evaluator=noting))

    def promises() -> Promises:
        opening(watched)
        yield "its work can be done by another process", _bound(noting.kernels)
        yield "its messages have numbers, to go as bytes", _unnumbered(type(job.algorithm))

    return table(type(job.algorithm), promises())


class Noting:
    """An evaluator that takes note of the kernels of the work that another one evaluates.

    Attributes:
        kernels: without repetition, in the order in which they were met.
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
    def draw(self) -> Draw:
        """See `Evaluator.draw`."""
        return self._evaluator.draw

    def submit(self, work: Work) -> Any:  # noqa: ANN401 - as the evaluator has it
        """See `Evaluator.submit`."""
        if work.kernel not in self.kernels:
            self.kernels.append(work.kernel)
        return self._evaluator.submit(work)

    def result(self, ticket: Any) -> Array:  # noqa: ANN401
        """See `Evaluator.result`."""
        return self._evaluator.result(ticket)

    def withdraw(self, ticket: Any) -> None:  # noqa: ANN401
        """See `Evaluator.withdraw`."""
        self._evaluator.withdraw(ticket)

    def values(self, w: Array) -> Sequence[float]:
        """See `Evaluator.values`."""
        return self._evaluator.values(w)


def _bound(kernels: Sequence[Kernel]) -> Iterator[str]:
    """Yield which kernels are no functions of a module."""
    for kernel in kernels:
        try:
            pickle.loads(dumped(kernel))  # noqa: S301 - what has just been written
        except (pickle.PickleError, AttributeError, TypeError):
            name = getattr(kernel, "__qualname__", repr(kernel))
            code = getattr(kernel, "__code__", None)
            where = f", line {code.co_firstlineno} of {code.co_filename}," if code else ""
            yield (
                f"the kernel {name}{where} is bound to where it was made; let it be a function of"
                " the module, and give it what it needs as `arguments`"
            )


def _unnumbered(method: type[Algorithm]) -> Iterator[str]:
    try:
        registered(method)
    except TypeError as error:
        yield str(error)
