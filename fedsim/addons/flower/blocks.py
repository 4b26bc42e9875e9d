"""The block of a Flower app in a scenario: its clients and their costs."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from flwr.app import ArrayRecord
from numpy.typing import NDArray
from pydantic import Field, PositiveInt, model_validator

from fedsim.core.blocks.choice import failure
from fedsim.core.blocks.quantities import Duration, Seconds
from fedsim.core.blocks.spec import PerCent, Spec
from fedsim.core.table_columns import higher_is_better
from fedsim.physics.devices import AnyDevice
from fedsim.problems.programs import ProgramLoss

# The declared cost of a client's training, so that a log does not depend on the machine.


class Cost(Spec):
    """The cost of one `fit` (or `train`) of a client, which determines its simulated time.

    It is given in operations; or in seconds on a device of known speed, as measured by
    `fedsim.flower.seconds_of`, from which the operations follow.
    """

    operations: float | None = Field(
        default=None, ge=0, description="floating-point operations of a fit"
    )
    seconds: Seconds | None = Field(
        default=None, description="duration of a fit, in place of operations"
    )
    on: AnyDevice | None = Field(
        default=None, description="the device on which a fit takes that long"
    )
    per: Literal["fit", "sample"] = Field(
        default="fit", description="whether the cost is per fit, or per sample of the client"
    )
    evaluation: Annotated[float, PerCent()] = Field(
        default=0.3, ge=0, description="cost of an evaluation, as a share of a fit"
    )

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if (self.operations is None) == (self.seconds is None):
            text = "give either operations, or seconds together with on, the device"
            raise failure(("", text, None))
        if (self.seconds is None) != (self.on is None):
            text = "give seconds and on together: the duration, and a device such as pi-4"
            raise failure(("seconds" if self.on is None else "on", text, self.seconds))
        if self.on is not None and self.on.constant is None:
            text = f"{self.on.kind} has no constant speed, so operations do not follow from seconds"
            raise failure(("on", text, self.on.kind))
        return self

    def operations_of(self, samples: int) -> float:
        """Return the floating-point operations of a fit for a number of samples."""
        speed = None if self.on is None else self.on.constant
        one = self.operations if speed is None else (self.seconds or 0.0) * speed
        return (one or 0.0) * (samples if self.per == "sample" else 1)


Scalar = bool | int | float | str
"""A value in the configuration of a run."""

LossAndMetrics = tuple[float, Mapping[str, float]]
"""A loss and further metrics."""


Evaluator = Literal["clients", "server", "nobody"]
"""Who evaluates models for the observer."""


class AppBlock(ProgramLoss):
    """The keys of a Flower app, and the attributes of its class."""

    source: ClassVar[str] = "the clients' own program, over Flower's interface"

    client_app: ClassVar[Any] = None
    """A `flwr.clientapp.ClientApp`; or a `client_fn(context)` that returns a client, in
    `staticmethod`."""

    clients: PositiveInt | None = Field(
        default=None, description="number of clients; by default that of the fleet"
    )
    samples: PositiveInt | tuple[PositiveInt, ...] = Field(
        default=1, description="samples per client; or a list with one number per client"
    )
    cost: Cost = Field(description="cost of a client's training")
    run_config: Mapping[str, Scalar] = Field(
        default={}, description="settings that clients read from context.run_config"
    )
    evaluated_by: Evaluator = Field(
        default="clients",
        description="the source of the observer's metrics of a model, at no cost: all clients, by"
        " their evaluate; the server, by evaluate of this class; or nobody, for no metrics",
    )
    objective: str = Field(
        default="",
        description="the metric of an evaluation that is the objective; if empty, the one named"
        " loss, or the first whose name ends with it",
    )
    figures: tuple[str, ...] = Field(
        default=(),
        description="metrics of an evaluation for stop rules; higher is better for names that end"
        " in accuracy, acc, score, auc and the like",
    )
    limit: Duration | None = Field(
        default=None,
        description="longest real time of one call of a client's code; unlimited by default",
    )

    def initial_arrays(self) -> ArrayRecord | Mapping[str, Any] | list[NDArray[Any]] | None:
        """Return the initial model: a list of arrays, arrays by name, or a state_dict.

        None requests the parameters of client 0, which clients of the older interface provide.
        """
        return None

    def evaluate(self, arrays: list[NDArray[Any]]) -> LossAndMetrics:
        """Return the loss of a model on the server's own data, and further metrics."""
        raise NotImplementedError(f"{type(self).__name__} has no evaluate")

    @property
    def reports(self) -> Mapping[str, bool]:
        """The metrics for stop rules, and whether higher is better for each."""
        return {name: higher_is_better(name) for name in self.figures}
