"""A module of one's own, handed over in Python: see `fedsim.torch.problem`."""

from collections.abc import Callable
from copy import deepcopy
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

from pydantic import Field

from fedsim.blocks.held import Holding
from fedsim.errors import DataError
from fedsim.problems.architectures.base import Architecture

if TYPE_CHECKING:
    from torch import Tensor, nn


class Handed(NamedTuple):
    """What is handed over.

    Attributes:
        make: returns the module; or the module itself, whose parameters are the ones to begin
            with.
        loss: of outputs and targets, each row's or their mean; None for that of the criterion.
    """

    make: "nn.Module | Callable[[], nn.Module]"
    loss: "Callable[[Tensor, Tensor], Tensor] | None" = None


class GivenModule(Holding, Architecture):
    """A PyTorch module that was handed over in Python, by `fedsim.torch.problem`."""

    source: ClassVar[str] = "the user's own"

    kind: Literal["given"] = "given"
    name: str = Field(description="what its class is called")
    row: tuple[int, ...] | None = Field(
        default=None, description="shape that a row's features are given to it in; flat if null"
    )
    integers: bool = Field(default=False, description="whether features are whole numbers")

    @property
    def whole_numbers(self) -> bool:
        """Whether it takes whole numbers."""
        return self.integers

    def shape(self, features: int) -> tuple[int, ...]:
        """Return the shape of a row; see `Architecture.shape`."""
        if self.row is None:
            return (features,)
        if prod(self.row) != features:
            text = f"{self.name} takes rows of shape {self.row}; the data has {features} features"
            raise DataError("loss.model.row", text)
        return self.row

    def module(self, features: int, outputs: int) -> "nn.Module":  # noqa: ARG002 - it has its own
        """Return a module of one's own; see `Architecture.module`."""
        from torch import nn  # noqa: PLC0415 - see `Architecture`

        make = self._handed.make
        return deepcopy(make) if isinstance(make, nn.Module) else make()

    def row_losses(self, outputs: "Tensor", targets: "Tensor", criterion: str) -> "Tensor":
        """Return what the loss that was handed over says; see `Architecture.row_losses`."""
        loss = self._handed.loss
        if loss is None:
            return super().row_losses(outputs, targets, criterion)
        return loss(outputs.reshape(targets.shape) if criterion == "squared" else outputs, targets)

    @property
    def _handed(self) -> Handed:
        handed: Any = self.value("loss.model")
        return Handed(*handed)
