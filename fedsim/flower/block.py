"""What a scenario says of a Flower app: who its clients are, and what they cost."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from flwr.app import ArrayRecord
from numpy.typing import NDArray
from pydantic import Field, PositiveInt

from fedsim.blocks.quantities import Duration
from fedsim.flower.cost import Cost
from fedsim.problems.programs import ProgramLoss
from fedsim.record.directions import higher_is_better

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
        description="who says how good a model is, for the observer, which costs nothing: all"
        " clients, by their evaluate; the server, by evaluate of this class; or nobody",
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
