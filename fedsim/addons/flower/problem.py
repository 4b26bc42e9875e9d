"""A Flower app as a problem: its clients, its model, and evaluations."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from math import nan
from typing import Any, NamedTuple, Protocol, cast, runtime_checkable

import numpy as np
from flwr.app import ArrayRecord, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.common import GetParametersIns, parameters_to_ndarrays
from flwr.compat.common.recorddict_compat import (
    arrayrecord_to_parameters,
    getparametersins_to_recorddict,
)
from numpy.typing import NDArray

from fedsim.addons.flower.arrays import ArrayLayout, Arrays, FlowerContent, encode, numpy_of, read
from fedsim.addons.flower.blocks import AppBlock, Evaluator
from fedsim.addons.flower.program import (
    ClientProgram,
    Question,
    Task,
    context_of,
    instruction,
    node_of,
)
from fedsim.addons.flower.user_code import (
    NOTHING,
    FlowerEvaluation,
    Looked,
    SleepMeter,
    call_user_code,
    mean_of,
    numbers,
    parse_reply,
)
from fedsim.core.errors import DataError, Failed
from fedsim.core.ports import Array, Oracle
from fedsim.core.streams import stream
from fedsim.problems.client_losses import LazySequence
from fedsim.problems.measures import Observer
from fedsim.problems.programs import ProgramProblem
from fedsim.problems.samples import Draw
from fedsim.results.record.rounds import OWN

# The start of a Flower app: the app itself, and the initial model.


def client_app_of(app: AppBlock) -> tuple[ClientApp, bool]:
    """Return the app, and whether its clients have the older interface."""
    client_app = type(app).client_app
    if isinstance(client_app, ClientApp):
        # An app does not state its interface; it follows from the function that created the app.
        return client_app, getattr(client_app, "_call", None) is not None
    if callable(client_app):
        return ClientApp(client_fn=client_app), True
    text = f"{type(app).__name__} has no client_app; set a ClientApp, or a client_fn(context)"
    raise DataError("loss.kind", text)


@runtime_checkable
class SendsInitial(Protocol):
    """A method whose server code has an initial model."""

    def first_arrays(self, app: AppBlock, clients: int, seed: int) -> Arrays | None:
        """Return the model in its first messages; None if they have none."""
        ...


def start_of(
    app: AppBlock,
    client_app: ClientApp,
    clients: int,
    seed: int,
    method: object = None,
    *,
    legacy: bool,
) -> Arrays:
    """Return the initial model as arrays by name; empty if it is unknown and not needed."""
    given: Any = app.initial_arrays()
    if given is None and isinstance(method, SendsInitial):
        given = method.first_arrays(app, clients, seed)
    if given is None and legacy:
        given = _parameters(app, client_app, clients)
    if given is None and isinstance(method, SendsInitial) and app.evaluated_by == "nobody":
        given = {}
    if given is None:
        text = f"{app.kind} has no initial model; give initial=... to fedsim.flower.app, or return"
        raise DataError("loss.kind", f"{text} it from initial_arrays of the class")
    if isinstance(given, ArrayRecord):
        given = numpy_of(given)
    named = given.items() if isinstance(given, Mapping) else enumerate(given)
    arrays = {str(name): np.array(array) for name, array in named}
    return (
        dict(zip(map(str, range(len(arrays))), arrays.values(), strict=True)) if legacy else arrays
    )


def _parameters(app: AppBlock, client_app: ClientApp, clients: int) -> list[NDArray[Any]]:
    """Return the parameters of client 0."""
    context = context_of(app, 0, clients)
    asked = getparametersins_to_recorddict(GetParametersIns({}))

    def call() -> RecordDict:
        message = Message(asked, dst_node_id=node_of(0), message_type="get_parameters")
        return client_app(message, context).content

    try:
        content = call_user_code("get_parameters of client 0", 0, call, app.limit)
    except Failed as error:
        raise DataError("loss.kind", str(error)) from None
    record = next(iter(content.array_records.values()))
    return parameters_to_ndarrays(arrayrecord_to_parameters(record, keep_input=True))


class Sizes(NamedTuple):
    """The known properties of a client's loss, if the client runs a program.

    Attributes:
        rows: the number of its samples.
        gradient_operations: the cost of a pass over them.
    """

    rows: int
    gradient_operations: float


@dataclass(frozen=True, eq=False, kw_only=True)
class FlowerProblem(ProgramProblem):
    """The problem of the clients of a Flower app.

    Attributes:
        loss: the block of the app.
        client_app: the app.
        legacy: whether its clients have the older interface (`NumPyClient`).
        layout: of its model.
        start: the initial model.
        seed: of all random streams.
        evaluated_by: who evaluates models; nobody where they have no floating-point numbers.
        own_encoding: whether the method encodes all messages itself, in Flower's form.
        sleep: the real time that clients of the last world have slept.
    """

    loss: AppBlock
    client_app: ClientApp
    legacy: bool
    layout: ArrayLayout
    start: Arrays
    seed: int
    evaluated_by: Evaluator
    own_encoding: bool = False
    sleep: SleepMeter = field(default_factory=SleepMeter)

    @property
    def dimension(self) -> int:
        """The length d of the model."""
        return self.layout.dimension

    @property
    def number_bytes(self) -> int:
        """The size of the widest number of the model, in bytes; 0 if none is sent as such."""
        return 0 if self.own_encoding else self.layout.widest.itemsize

    def initial(self, rng: np.random.Generator) -> Array:
        """Return the app's model."""
        return self.layout.flat(self.start)

    def fresh_oracles(
        self,
        draw: Draw,
        *,
        among_peers: bool = False,
    ) -> Sequence[Oracle]:
        """Return the clients of a new world, with empty contexts."""
        self.sleep.seconds = 0.0
        return LazySequence(
            len(self.losses), lambda client: ClientProgram(self, client), len(self.losses)
        )

    def asking(self, task: Task, settings: Mapping[str, Any]) -> bytes:
        """Return the bytes that are sent in addition to the model: task and settings."""
        content = instruction(task, settings, self.start, legacy=self.legacy)
        return encode(content, self.layout).rest

    def run_notes(self) -> Iterator[tuple[str, str]]:
        """Yield notes on clients that have slept, and on a model that nobody could evaluate."""
        if self.evaluated_by != self.loss.evaluated_by:
            text = (
                f"got {self.loss.evaluated_by}, but the model has no floating-point numbers: the"
                " observer has evaluated nothing"
            )
            yield "problem.loss.evaluated_by", text
        if slept := self.sleep.seconds:
            text = (
                f"clients slept for {slept:.3g} s of real time (time.sleep), which takes no"
                " simulated time: give it in cost, or as slowdown or availability in the fleet"
            )
            yield "problem.loss.cost", text

    # -- evaluations -------------------------------------------------------------------

    @property
    def valued(self) -> bool:
        """Whether evaluations report the objective."""
        return not np.isnan(self._first.objective)

    def looked_at(
        self,
        w: Array,
        values: Callable[[Array], Sequence[float] | Array],
    ) -> float:
        """Return the objective at `w`, shape (d,); NaN where none is reported."""
        return self._look(w).objective

    @property
    def observers(self) -> Sequence[Observer]:
        """The metrics of an evaluation beside the objective, named as in the first one."""

        def observe(w: Array) -> Mapping[str, float]:
            figures = self._look(w).figures
            return {name: figures.get(name, nan) for name in self._first.figures}

        return (observe,) if self._first.figures else ()

    @property
    def _first(self) -> Looked:
        """The evaluation of the initial model."""
        cached = self.__dict__.get("_first_look")
        if cached is None:
            cached = self.__dict__["_first_look"] = self._look(self.layout.flat(self.start))
        return cast("Looked", cached)

    def _look(self, w: Array) -> Looked:
        """Return the evaluation of a model; the last one is cached."""
        last = self.__dict__.get("_last_look")
        key = w.tobytes()
        if last is None or last[0] != key:
            # A copy: a program may write into its arguments, or need arrays that it can write into.
            last = self.__dict__["_last_look"] = key, self._evaluate(w.copy())
        return cast("Looked", last[1])

    def _evaluate(self, w: Array) -> Looked:
        if self.evaluated_by == "nobody":
            return NOTHING
        if self.evaluated_by == "clients":
            rest = self.asking("evaluate", {"server-round": 0})
            every = range(len(self.losses))
            return mean_of(
                [self._evaluate_at(client, FlowerContent(w, rest)) for client in every],
                self.loss.objective,
            )
        arrays = list(self.layout.arrays(w, self.layout.rest(self.start)).values())
        seed = int(stream(self.seed, "flower", "server").integers(2**63))
        loss, figures = call_user_code(
            f"evaluate of {self.loss.kind}",
            seed,
            lambda: self.loss.evaluate(arrays),
            self.loss.limit,
        )
        return Looked(float(loss), numbers(figures))

    def _evaluate_at(self, client: int, content: FlowerContent) -> FlowerEvaluation:
        seed = int(stream(self.seed, "flower", "look", client).integers(2**63))
        answer = ClientProgram(self, client).answer(Question("evaluate", content, 0, seed))
        return parse_reply(read(answer, self.layout, legacy=self.legacy), legacy=self.legacy)


def problem_of(
    app: AppBlock, clients: int | None, seed: int, method: object = None
) -> FlowerProblem:
    """Return the problem of the clients of an app.

    Args:
        app: the block.
        clients: the size of the fleet, if known.
        seed: of all random streams.
        method: the method; one that `SendsInitial` needs no initial model of the app.

    Raises:
        DataError: the number of clients is missing, or set twice; there is no app or no model; or
            the evaluation of the model fails.
    """
    count = _count(app, clients)
    rows = list(app.samples) if isinstance(app.samples, tuple) else [app.samples] * count
    if len(rows) != count:
        text = f"got {len(rows)} numbers for {count} clients; give one for each, or one for all"
        raise DataError("loss.samples", text)
    sizes = [Sizes(row_count, app.cost.operations_of(row_count)) for row_count in rows]
    client_app, legacy = client_app_of(app)
    start = start_of(app, client_app, count, seed, method, legacy=legacy)
    layout, sends_initial = ArrayLayout.of(start), isinstance(method, SendsInitial)
    problem = FlowerProblem(
        loss=app,
        losses=cast("Any", sizes),  # no other properties are known
        fingerprint=_fingerprint(app, start),
        client_app=client_app,
        legacy=legacy,
        layout=layout,
        start=start,
        seed=seed,
        evaluated_by=_evaluator_of(app, layout, own_encoding=sends_initial),
        own_encoding=sends_initial,
    )
    _check_figures(problem)
    return problem


def _evaluator_of(app: AppBlock, layout: ArrayLayout, *, own_encoding: bool) -> Evaluator:
    """Return who evaluates models.

    Raises:
        DataError: they have no floating-point numbers, and the method or the observer needs them.
    """
    if layout.dimension:
        return app.evaluated_by
    text = f"the model of {app.kind} has no floating-point numbers"
    if not own_encoding:
        text = f"{text}; a whole ServerApp can send such a model: method(server_app)"
        raise DataError("loss.kind", text)
    if app.evaluated_by == "server":
        text = f"got server, but {text}, and the observer has nothing to evaluate; take nobody"
        raise DataError("loss.evaluated_by", text)
    return "nobody"


def _count(app: AppBlock, clients: int | None) -> int:
    """Return the number of clients."""
    if app.clients is None and clients is None:
        raise DataError("loss.clients", "missing; give the number of clients, or a fleet of them")
    if None not in (app.clients, clients) and app.clients != clients:
        text = f"got {app.clients}, but the counts of fleet add up to {clients}; leave one out"
        raise DataError("loss.clients", text)
    return cast("int", clients or app.clients)


def _fingerprint(app: AppBlock, start: Arrays) -> str:
    digest = sha256(app.model_dump_json().encode())
    for name, array in start.items():
        digest.update(f"{name} {array.dtype} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _check_figures(problem: FlowerProblem) -> None:
    """Evaluate the initial model, to check whether clients can evaluate."""
    try:
        names = (
            problem.observers[0](problem.initial(np.random.default_rng(0)))
            if problem.observers
            else ()
        )
    except Failed as error:
        raise DataError("loss.evaluated_by", str(error)) from None
    for name in names:
        if name in OWN:
            text = f"an evaluation has the metric {name!r}, which is a column of every round table"
            raise DataError("loss.kind", f"{text}; rename the metric")
