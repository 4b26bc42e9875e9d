"""The block of a Flower app in a scenario: its clients and their costs."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self

from flwr.app import ArrayRecord
from numpy.typing import NDArray
from pydantic import Field, PositiveInt, model_validator

from fedsim.blocks.choice import failure
from fedsim.blocks.quantities import Duration, Seconds
from fedsim.blocks.spec import Spec
from fedsim.physics.devices import AnyDevice
from fedsim.problems.programs import ProgramLoss
from fedsim.record.columns import higher_is_better

# The declared cost of a client's training, so that a log does not depend on the machine.


class Cost(Spec):
    """What one `fit` (or `train`) of a client costs, by which the client's device takes its time.

    Given in operations; or in the seconds that it takes on a device of a known speed, as measured
    by `fedsim.flower.seconds_of`, from which the operations follow.
    """

    operations: float | None = Field(
        default=None, ge=0, description="floating-point operations of a fit"
    )
    seconds: Seconds | None = Field(default=None, description="instead, how long a fit takes")
    on: AnyDevice | None = Field(default=None, description="the device on which it takes so long")
    per: Literal["fit", "sample"] = Field(
        default="fit", description="whether that is for a fit, or for each sample of the client's"
    )
    evaluation: float = Field(
        default=0.3, ge=0, description="what an evaluation costs, as a share of a fit"
    )

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if (self.operations is None) == (self.seconds is None):
            text = "give either operations, or seconds with on, the device that takes so long"
            raise failure(("", text, None))
        if (self.seconds is None) != (self.on is None):
            text = "seconds and on belong together: so long on a device such as pi-4"
            raise failure(("seconds" if self.on is None else "on", text, self.seconds))
        if self.on is not None and self.on.constant is None:
            text = f"{self.on.kind} has no one speed, so that operations do not follow from seconds"
            raise failure(("on", text, self.on.kind))
        return self

    def operations_of(self, samples: int) -> float:
        """Return the floating-point operations of a fit of a client with so many samples."""
        speed = None if self.on is None else self.on.constant
        one = self.operations if speed is None else (self.seconds or 0.0) * speed
        return (one or 0.0) * (samples if self.per == "sample" else 1)


Scalar = bool | int | float | str
"""What a setting of a run can be."""

Said = tuple[float, Mapping[str, float]]
"""A loss, and figures beside it."""


class AppBlock(ProgramLoss):
    """The keys of a Flower app, and what its class may say."""

    source: ClassVar[str] = "the clients' own program, over Flower's interface"

    client_app: ClassVar[Any] = None
    """A `flwr.clientapp.ClientApp`; or a `client_fn(context)` that returns a client, in
    `staticmethod`."""

    clients: PositiveInt | None = Field(
        default=None, description="how many there are; as many as the fleet has if null"
    )
    samples: PositiveInt | tuple[PositiveInt, ...] = Field(
        default=1, description="how many samples a client has; or a number for each client"
    )
    cost: Cost = Field(description="what it costs a client to train")
    run_config: Mapping[str, Scalar] = Field(
        default={}, description="what clients read from context.run_config"
    )
    evaluated_by: Literal["clients", "server", "nobody"] = Field(
        default="clients",
        description="where the observer's figures of a model come from, at no cost: all clients, by"
        " their evaluate; the server, by evaluate of this class; or nobody, without figures",
    )
    objective: str = Field(
        default="",
        description="the figure of an evaluation that is the objective; if empty, the one that is"
        " named loss, or the first whose name ends so",
    )
    figures: tuple[str, ...] = Field(
        default=(),
        description="figures of an evaluation that a run may stop at; more is better of those whose"
        " name ends in accuracy, acc, score, auc and the like",
    )
    limit: Duration | None = Field(
        default=None,
        description="the real time that one call of a client's code may take; any if null",
    )

    def initial_arrays(self) -> ArrayRecord | Mapping[str, Any] | list[NDArray[Any]] | None:
        """Return the model to start from: a list of arrays, arrays by name, or a state_dict.

        None asks client 0 for its parameters, which clients of the older interface can say.
        """
        return None

    def evaluate(self, arrays: list[NDArray[Any]]) -> Said:
        """Return the loss of a model on the server's own data, and figures beside it."""
        raise NotImplementedError(f"{type(self).__name__} has no evaluate")

    @property
    def reports(self) -> Mapping[str, bool]:
        """The figures that a run may stop at, and whether more of each is better."""
        return {name: higher_is_better(name) for name in self.figures}
