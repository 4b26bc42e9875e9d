"""Networks of dense layers."""

from collections.abc import Callable
from copy import copy, deepcopy
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

from pydantic import Field

from fedsim.blocks.held import Holding
from fedsim.errors import DataError
from fedsim.problems.architectures.base import Architecture

if TYPE_CHECKING:
    from torch import nn


class LogisticModel(Architecture):
    """One dense layer, W x + b: multinomial logistic regression with cross entropy."""

    source: ClassVar[str] = "Boehning, Multinomial logistic regression algorithm, AISM 1992"

    kind: Literal["logistic"] = "logistic"

    def module(self, features: int, outputs: int) -> "nn.Module":
        """Return the layer; see `Architecture.module`."""
        from torch import nn  # noqa: PLC0415 - see `Architecture`

        return nn.Linear(features, outputs)


class DenseLayers(Architecture):
    """Dense layers with rectified units between them: the 2NN of McMahan et al. by default."""

    source: ClassVar[str] = "McMahan et al., AISTATS 2017, section 3 (MNIST 2NN)"

    kind: Literal["mlp"] = "mlp"
    hidden: tuple[int, ...] = Field(
        default=(200, 200), min_length=1, description="units of each hidden layer"
    )

    def module(self, features: int, outputs: int) -> "nn.Module":
        """Return the layers; see `Architecture.module`."""
        from torch import nn  # noqa: PLC0415 - see `Architecture`

        layers: list[nn.Module] = []
        for units in self.hidden:
            layers += [nn.Linear(features, units), nn.ReLU()]
            features = units
        return nn.Sequential(*layers, nn.Linear(features, outputs))


# A user-defined PyTorch module passed in from Python; see `fedsim.torch.problem`.

if TYPE_CHECKING:
    from torch import Tensor, nn


class PassedModule(NamedTuple):
    """A module and a loss passed in from Python.

    Attributes:
        make: a factory of the module; or the module itself, whose parameters are the ones to begin
            with.
        loss: of outputs and targets, each row's or their mean; None for that of the criterion.
    """

    make: "nn.Module | Callable[[], nn.Module]"
    loss: "Callable[[Tensor, Tensor], Tensor] | None" = None

    def module(self) -> "nn.Module":
        """Return a module of which no other reference exists.

        Raises:
            DataError: the factory fails, or returns something else.
        """
        from torch import nn  # noqa: PLC0415 - see `Architecture`

        try:
            made: object = deepcopy(self.make) if isinstance(self.make, nn.Module) else self.make()
        except Exception as error:  # the code of a user's module may raise anything
            text = "a class or function that makes the module is called without arguments; it fails"
            if isinstance(self.make, nn.Module):
                text = "the module cannot be copied"
            said = f"{type(error).__name__}: {error}".splitlines()[0]
            raise DataError("loss.model", f"{text}: {said}") from error
        if not isinstance(made, nn.Module):
            text = f"the module is to be a torch.nn.Module; got {type(made).__name__}"
            raise DataError("loss.model", text)
        return made

    def row_loss(self) -> "Callable[[Tensor, Tensor], Tensor] | None":
        """Return the loss; where its class has a `reduction`, the loss of each row."""
        if getattr(self.loss, "reduction", None) not in {"mean", "sum"}:
            return self.loss
        by_row = copy(self.loss)
        by_row.reduction = "none"  # type: ignore[union-attr]  # a module of PyTorch's
        return by_row


class GivenModule(Holding, Architecture):
    """A PyTorch module passed in from Python by `fedsim.torch.problem`."""

    source: ClassVar[str] = "the user's own"

    kind: Literal["given"] = "given"
    name: str = Field(description="the name of its class")
    row: tuple[int, ...] | None = Field(
        default=None, description="shape that a row's features are given to it in; flat if null"
    )
    integers: bool = Field(default=False, description="whether features are whole numbers")

    @property
    def whole_numbers(self) -> bool:
        """Whether it takes integer features."""
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
        """Return a separate module; see `Architecture.module`."""
        return self._handed.module()

    def row_losses(self, outputs: "Tensor", targets: "Tensor", criterion: str) -> "Tensor":
        """Return the values of the user-defined loss; see `Architecture.row_losses`."""
        if self._handed.loss is None:
            return super().row_losses(outputs, targets, criterion)
        return self._loss_values(outputs, targets, criterion, by_row=True)

    def mean_loss(self, outputs: "Tensor", targets: "Tensor", criterion: str) -> "Tensor | None":
        """Return the mean that the loss itself computes, if it computes one."""
        if getattr(self._handed.loss, "reduction", None) != "mean":
            return None
        return self._loss_values(outputs, targets, criterion, by_row=False)

    def _loss_values(
        self, outputs: "Tensor", targets: "Tensor", criterion: str, *, by_row: bool
    ) -> "Tensor":
        """Return the loss's values, its weights moved to the outputs' type and device."""
        from torch import nn  # noqa: PLC0415 - see `Architecture`

        loss: Any = self._handed.row_loss() if by_row else self._handed.loss
        if isinstance(loss, nn.Module):
            key = "loss", by_row, outputs.dtype, outputs.device
            if key not in self.kept:
                self.kept[key] = deepcopy(loss).to(outputs.device, outputs.dtype)
            loss = self.kept[key]
        found: Tensor = loss(
            outputs.reshape(targets.shape) if criterion == "squared" else outputs, targets
        )
        return found

    def singled_out(self, outputs: int) -> list[int]:
        """Return the classes that the user-defined loss treats specially."""
        loss, found = self._handed.loss, list[int]()
        ignored, weight = getattr(loss, "ignore_index", None), getattr(loss, "weight", None)
        if isinstance(ignored, int) and 0 <= ignored < outputs:
            found.append(ignored)
        if getattr(weight, "shape", None) == (outputs,):
            found += [int(weight.argmin()), int(weight.argmax())]  # type: ignore[union-attr]
        return found

    @property
    def _handed(self) -> PassedModule:
        handed: Any = self.value("loss.model")
        return PassedModule(*handed)
