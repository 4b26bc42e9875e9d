"""Blocks from objects: an app and a strategy of Flower's in a scenario written in Python."""

import sys
from collections.abc import Callable, Mapping
from copy import deepcopy
from pathlib import Path
from time import perf_counter
from typing import Any, Literal

import numpy as np
from flwr.app import ArrayRecord
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp
from numpy.typing import NDArray
from pydantic import create_model

from fedsim.addons.flower.arrays import FlowerContent
from fedsim.addons.flower.blocks import AppBlock, LossAndMetrics
from fedsim.addons.flower.method import Flower
from fedsim.addons.flower.problem import FlowerProblem, problem_of
from fedsim.addons.flower.program import ClientProgram, Question
from fedsim.addons.flower.server_app import FlowerServerApp

# The block of a Flower app, which is a problem.


class App(AppBlock):
    """The clients of a Flower app, which train with their own code.

    A subclass sets the app, and the kind by which scenarios name it:

        class Digits(App):
            kind: Literal["digits"] = "digits"
            client_app: ClassVar = app

            def initial_arrays(self):
                return Net().state_dict()
    """

    def problem(self, clients: int | None, seed: int, folder: Path) -> FlowerProblem:
        """Return the problem of the clients.

        Raises:
            DataError: the app cannot be used with these settings.
        """
        return problem_of(self, clients, seed)

    def problem_for(
        self,
        method: object,
        clients: int | None,
        seed: int,
        folder: Path,
    ) -> FlowerProblem:
        """Return the problem of the clients; a whole ServerApp has an initial model itself."""
        return problem_of(self, clients, seed, method)


Model = ArrayRecord | Mapping[str, Any] | list[NDArray[Any]]
"""Arrays by name, such as a state_dict, or a list of arrays."""


def app(
    client_app: ClientApp | Callable[..., Any],
    *,
    initial: Model | None = None,
    evaluate: Callable[[list[NDArray[Any]]], LossAndMetrics] | None = None,
    name: str = "flower-app",
    **fields: Any,
) -> App:
    """Return the clients of a Flower app as a block: a loss for a scenario in Python.

    Args:
        client_app: the app; or a `client_fn(context)` that returns a client.
        initial: the initial model. By default it is the one that a whole ServerApp sends first, or
            that of client 0, which clients of the older interface provide.
        evaluate: evaluates a model on the server's own data; `evaluated_by` is then the server.
        name: the kind of the block.
        **fields: further fields of `App`: clients, samples, cost, ...

    Raises:
        ValidationError: a ValueError; a field is invalid.

    Example:
        Not run by the tests, since the client app is the user's:

        >>> problem = app(client_app, clients=10, initial=Net().state_dict())  # doctest: +SKIP
    """
    model = _block(App, name, sys._getframe(1).f_globals.get("__name__", "__main__"))  # noqa: SLF001 - as namedtuple does
    model.client_app = client_app
    model.initial_arrays = lambda _: initial
    if evaluate is not None:
        model.evaluate = lambda _, arrays: evaluate(arrays)
        fields = {"evaluated_by": "server", **fields}
    block: App = model.model_validate(fields)
    return block


def method(strategy: Any, *, name: str = "", **fields: Any) -> Flower | FlowerServerApp:
    """Return a strategy, or a `ServerApp`, as a block: an algorithm for a scenario in Python.

    Args:
        strategy: of Flower's, or user-defined; every run uses a copy of its present state. Or a
            ServerApp with a `main(grid, context)`, which runs as it is, once a run.
        name: the kind of the block; by default "flower-" and the name of the class.
        **fields: further fields of `Flower`: sends, train_config, ...

    Example:
        >>> from flwr.server.strategy import FedMedian
        >>> method(FedMedian()).kind
        'flower-fedmedian'
    """
    called = type(strategy).__name__
    kind = name or f"flower-{called.lower()}"
    if isinstance(strategy, ServerApp):
        kind = name or "flower-server-app"
        own = _block(FlowerServerApp, kind, sys._getframe(1).f_globals.get("__name__", "__main__"))  # noqa: SLF001 - likewise
        own.server_app = strategy
        served: FlowerServerApp = own.model_validate(fields)
        return served
    model = _block(Flower, kind, sys._getframe(1).f_globals.get("__name__", "__main__"))  # noqa: SLF001 - likewise
    model.make = lambda *_: deepcopy(strategy)
    block: Flower = model.model_validate({"strategy": called, **fields})
    return block


def _block(base: type[Any], kind: str, module: str) -> Any:
    """Return a subclass of a block with the given kind."""
    word = Literal[kind]  # type: ignore[valid-type]  # known at run time only
    return create_model(kind, __base__=base, __module__=module, kind=(word, kind))


def seconds_of(block: App, *, fits: int = 3) -> float:
    """Measure the real time of a fit of client 0 on this machine, the least of some, in seconds.

    It is for `cost: {seconds: ..., on: ...}`, where `on` names or describes this machine. Once in
    the scenario, it gives the same simulated times on any machine.

    Args:
        block: of the app, as `app` returns it.
        fits: how many fits are measured.

    Raises:
        DataError, Failed: the app cannot be used.

    Example:
        Not run by the tests, since the time is this machine's:

        >>> seconds_of(problem)  # doctest: +SKIP
        0.84
    """
    problem: FlowerProblem = block.problem(None, 0, Path())
    w = problem.initial(np.random.default_rng(0))
    content = FlowerContent(w, problem.asking("train", {"server-round": 1}))

    def taken() -> float:
        program = ClientProgram(problem, 0)
        begun = perf_counter()
        program.answer(Question("train", content, 1, 0))
        return perf_counter() - begun

    return min(taken() for _ in range(fits))
