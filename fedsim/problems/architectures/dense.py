"""Networks of dense layers."""

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

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
