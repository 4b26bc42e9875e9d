"""Networks: dense layers, convolutions for images, and sequence models for rows of tokens."""

from collections.abc import Callable, Sequence
from copy import copy, deepcopy
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Protocol

import numpy as np
from pydantic import Field, ValidationInfo, field_validator

from fedsim.core.blocks.in_memory import Holding
from fedsim.core.blocks.wording import named_line
from fedsim.core.errors import DataError
from fedsim.problems.architectures.base import Architecture
from fedsim.problems.samples import Features

if TYPE_CHECKING:
    from torch import Tensor, nn


class LogisticModel(Architecture):
    """One dense layer, W x + b: multinomial logistic regression with cross entropy."""

    source: ClassVar[str] = "Boehning, Multinomial logistic regression algorithm, AISM 1992"

    kind: Literal["logistic"] = "logistic"

    def module(self, features: int, outputs: int) -> "nn.Module":
        """Return the layer; see `Architecture.module`."""
        from torch import nn

        return nn.Linear(features, outputs)


class DenseLayers(Architecture):
    """Dense layers with rectified units between them: the 2NN of McMahan et al. by default."""

    source: ClassVar[str] = "McMahan et al., AISTATS 2017, section 3 (MNIST 2NN)"

    kind: Literal["mlp"] = "mlp"
    hidden: tuple[int, ...] = Field(
        default=(200, 200), min_length=1, description="units per hidden layer"
    )

    def module(self, features: int, outputs: int) -> "nn.Module":
        """Return the layers; see `Architecture.module`."""
        from torch import nn

        layers: list[nn.Module] = []
        for units in self.hidden:
            layers += [nn.Linear(features, units), nn.ReLU()]
            features = units
        return nn.Sequential(*layers, nn.Linear(features, outputs))


# A user-defined PyTorch module passed in from Python; see `fedsim.torch.problem`.


class Wrap(Protocol):
    """Wraps a module: the rows of the new module are item numbers, and its outputs are losses."""

    @property
    def sampled(self) -> Sequence[int]:
        """The items whose operations are counted."""

    def __call__(self, module: "nn.Module") -> "nn.Module":
        """Return the wrapped module."""


class PassedModule(NamedTuple):
    """A module and a loss passed in from Python.

    Attributes:
        make: a factory of the module; or the module itself, with its initial parameters.
        loss: a function of outputs and targets that returns the loss of each row, or their mean;
            None for the loss of the criterion.
        wrap: converts the module to one whose outputs are losses, shape (b, 1); None if it outputs
            predictions.
    """

    make: "nn.Module | Callable[[], nn.Module]"
    loss: "Callable[[Tensor, Tensor], Tensor] | None" = None
    wrap: "Wrap | None" = None

    def module(self) -> "nn.Module":
        """Return a new module, or a copy of the given one.

        Raises:
            DataError: the factory fails, or returns something else.
        """
        from torch import nn

        try:
            module: object = (
                deepcopy(self.make) if isinstance(self.make, nn.Module) else self.make()
            )
        except Exception as error:  # noqa: BLE001 - the code of a user's module may raise anything
            text = "a class or function that makes the module is called without arguments; it fails"
            if isinstance(self.make, nn.Module):
                text = "the module cannot be copied"
            raise DataError("loss.model", f"{text}: {named_line(error)}") from None
        if not isinstance(module, nn.Module):
            text = f"the module is to be a torch.nn.Module; got {type(module).__name__}"
            raise DataError("loss.model", text)
        if any(parameter.is_cuda for parameter in module.parameters()):
            module.cpu()  # the module is tried there; `device` chooses where it is trained
        return module if self.wrap is None else self.wrap(module)

    def row_loss(self) -> "Callable[[Tensor, Tensor], Tensor] | None":
        """Return the loss; a class with a `reduction` is copied to return each row's loss."""
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
        default=None, description="shape of one row's features at the module's input; null: flat"
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

    def module(self, features: int, outputs: int) -> "nn.Module":
        """Return a new module; see `Architecture.module`."""
        return self._handed.module()

    def row_losses(self, outputs: "Tensor", targets: "Tensor", criterion: str) -> "Tensor":
        """Return the values of the user-defined loss; see `Architecture.row_losses`."""
        if not self.predicts:
            return outputs.reshape(-1)
        if self._handed.loss is None:
            return super().row_losses(outputs, targets, criterion)
        return self._loss_values(outputs, targets, criterion, by_row=True)

    @property
    def predicts(self) -> bool:
        """Whether outputs are predictions; a wrapped module outputs losses."""
        return self._handed.wrap is None

    @property
    def sampled(self) -> Sequence[int]:
        """The items whose operations are counted; see `Architecture.sampled`."""
        wrap = self._handed.wrap
        return () if wrap is None else wrap.sampled

    def mean_loss(self, outputs: "Tensor", targets: "Tensor", criterion: str) -> "Tensor | None":
        """Return the mean that the loss computes itself; None if it does not."""
        if getattr(self._handed.loss, "reduction", None) != "mean":
            return None
        return self._loss_values(outputs, targets, criterion, by_row=False)

    def _loss_values(
        self, outputs: "Tensor", targets: "Tensor", criterion: str, *, by_row: bool
    ) -> "Tensor":
        """Return the values of the loss; its weights get the outputs' type and device."""
        from torch import nn

        loss: Any = self._handed.row_loss() if by_row else self._handed.loss
        if isinstance(loss, nn.Module):
            key = "loss", by_row, outputs.dtype, outputs.device
            if key not in self.kept:
                self.kept[key] = deepcopy(loss).to(outputs.device, outputs.dtype)
            loss = self.kept[key]
        values: Tensor = loss(
            outputs.reshape(targets.shape) if criterion == "squared" else outputs, targets
        )
        return values

    def singled_out(self, outputs: int) -> list[int]:
        """Return the classes that the user-defined loss treats specially."""
        loss, special = self._handed.loss, list[int]()
        ignored, weight = getattr(loss, "ignore_index", None), getattr(loss, "weight", None)
        if isinstance(ignored, int) and 0 <= ignored < outputs:
            special.append(ignored)
        if getattr(weight, "shape", None) == (outputs,):
            # The losses of these two classes show whether weights differ.
            special += [int(weight.argmin()), int(weight.argmax())]  # type: ignore[union-attr]
        return special

    @property
    def _handed(self) -> PassedModule:
        handed: Any = self.value("loss.model")
        return PassedModule(*handed)


# Base class of networks for images. The rows are images, channel by channel.

COLOURS = 3


class ImageNetwork(Architecture):
    """A network for images: a row is one channel after the other, each line by line."""

    image: tuple[int, int, int] | None = Field(
        default=None,
        description=(
            "channels, height and width of a row's image; null: a square, grey or with"
            " three colours, by the number of features"
        ),
    )

    def shape(self, features: int) -> tuple[int, int, int]:
        """Return (channels, height, width)."""
        if self.image is None:
            return square_image(features)
        c, h, w = self.image
        if c * h * w != features:
            text = f"{c} x {h} x {w} is {c * h * w} numbers per row; the data has {features}"
            raise DataError("loss.model.image", text)
        return self.image


def square_image(features: int) -> tuple[int, int, int]:
    """Return the shape of a square image of `features` numbers, grey or with three colours.

    At most one of the two fits, because no square number is three times another one.

    Raises:
        DataError: neither fits.
    """
    for channels in (1, COLOURS):
        side = round((features / channels) ** 0.5)
        if channels * side * side == features:
            return channels, side, side
    raise DataError(
        "loss.model",
        f"{features} features are no square image, neither grey nor of three colours; say the "
        "shape: image: [channels, height, width]",
    )


# Convolutions, then dense layers.


class Convolutional(ImageNetwork):
    """Convolutions of 5 x 5 with rectified units and pooling of 2 x 2, then two dense layers."""

    source: ClassVar[str] = "McMahan et al., AISTATS 2017, section 3 (MNIST CNN)"

    kind: Literal["cnn"] = "cnn"
    channels: tuple[int, ...] = Field(
        default=(32, 64), min_length=1, description="channels of each convolution"
    )
    hidden: int = Field(
        default=512, ge=1, description="units of the dense layer before the outputs"
    )

    def module(self, features: int, outputs: int) -> "nn.Module":
        """Return the layers; see `Architecture.module`."""
        return _layers(self.shape(features), self.channels, self.hidden, outputs)


class FemnistNetwork(ImageNetwork):
    """LEAF's network for FEMNIST: the same as `cnn`, with 2048 units in the dense layer."""

    source: ClassVar[str] = "Caldas et al., LEAF, arXiv:1812.01097, 2018 (FEMNIST)"

    kind: Literal["cnn-femnist"] = "cnn-femnist"

    def module(self, features: int, outputs: int) -> "nn.Module":
        """Return the layers; see `Architecture.module`."""
        return _layers(self.shape(features), (32, 64), 2048, outputs)


def _layers(
    image: tuple[int, int, int], channels: Sequence[int], hidden: int, outputs: int
) -> "nn.Module":
    from torch import nn

    depth, height, width = image
    layers: list[nn.Module] = []
    for wide in channels:
        layers += [nn.Conv2d(depth, wide, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)]
        depth, height, width = wide, height // 2, width // 2
    if not height * width:
        text = f"{len(channels)} poolings leave nothing of an image {image[1]} x {image[2]}"
        raise DataError("loss.model", text)
    layers += [nn.Flatten(), nn.Linear(depth * height * width, hidden), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(hidden, outputs))


# Residual networks.

STAGES = 3


class ResidualNetwork(ImageNetwork):
    """The residual network for CIFAR, with group normalisation in place of batch normalisation.

    It has 3 stages of n residual blocks with two convolutions each. With the convolution before
    them and the dense layer after them these are 6 n + 2 layers. Batch normalisation uses
    statistics that clients do not share, and fails if their labels differ; group normalisation uses
    none.
    """

    source: ClassVar[str] = (
        "He et al., CVPR 2016, section 4.2; group norm: Hsieh et al., ICML 2020, section 5"
    )

    kind: Literal["resnet"] = "resnet"
    depth: int = Field(default=20, ge=8, description="6 n + 2 layers: 8, 14, 20, 32, ...")
    width: int = Field(
        default=16, ge=1, description="channels of the first stage; the others have 2 and 4 times"
    )
    groups: int = Field(
        default=2,
        ge=1,
        description="number of groups of channels for normalisation; divides the width",
    )

    @field_validator("depth")
    @classmethod
    def _whole_blocks(cls, depth: int) -> int:
        if depth % (2 * STAGES) != 2:
            raise ValueError(f"a depth is 6 n + 2, such as 8, 14, 20 or 32, not {depth}")
        return depth

    @field_validator("groups")
    @classmethod
    def _whole_groups(cls, groups: int, known: ValidationInfo) -> int:
        width = known.data.get("width", groups)
        if width % groups:
            raise ValueError(f"{width} channels are no whole number of {groups} groups")
        return groups

    def module(self, features: int, outputs: int) -> "nn.Module":
        """Return the network; see `Architecture.module`."""
        from fedsim.problems.modules.layers import Residual  # loads PyTorch

        blocks = (self.depth - 2) // (2 * STAGES)
        channels = self.shape(features)[0]
        return Residual(
            channels,
            [self.width * 2**stage for stage in range(STAGES)],
            blocks,
            self.groups,
            outputs,
        )


# Base class of networks for tokens: rows of integers from 0.


class TokenNetwork(Architecture):
    """A network for rows of tokens that predicts the next one."""

    tokens: ClassVar[bool] = True

    vocabulary: int | None = Field(
        default=None, ge=2, description="number of tokens; null: the number of outputs"
    )

    def distinct(self, outputs: int) -> int:
        """Return the number of distinct tokens."""
        return self.vocabulary or outputs

    def check(self, X: Features, outputs: int) -> None:
        """Check that all features are tokens; see `Architecture.check`."""
        known = self.distinct(outputs)
        wrong = (np.floor(X) != X) | (X < 0) | (known <= X)
        if wrong.any():
            seen = f"{X[wrong][0]:g}"
            raise DataError(
                "loss.model",
                f"{self.kind} takes tokens, whole numbers from 0 to {known - 1}; the data has "
                f"{seen}: give their number (vocabulary), or the number of outputs (loss.outputs)",
            )


# Attention networks for rows of tokens.


class Transformer(TokenNetwork):
    """A small decoder that predicts the next token of a row.

    Tokens and positions are embedded. Each layer has causal attention and two dense layers (4 times
    as wide, Gaussian error linear units), both with layer normalisation in front and a shortcut.
    The state at the last token is normalised, and a dense layer predicts the next token.
    """

    source: ClassVar[str] = (
        "Vaswani et al., NeurIPS 2017; normalisation in front: Xiong et al., ICML 2020"
    )

    kind: Literal["transformer"] = "transformer"
    width: int = Field(default=64, ge=1, description="size of a token's embedding")
    layers: int = Field(
        default=2, ge=1, description="number of blocks, each of attention and dense layers"
    )
    heads: int = Field(default=4, ge=1, description="attention heads; divides the width")

    @field_validator("heads")
    @classmethod
    def _whole_heads(cls, heads: int, known: ValidationInfo) -> int:
        width = known.data.get("width", heads)
        if width % heads:
            raise ValueError(f"a width of {width} is no whole number of {heads} heads")
        return heads

    def module(self, features: int, outputs: int) -> "nn.Module":
        """Return the network; see `Architecture.module`."""
        from fedsim.problems.modules.layers import Decoder  # loads PyTorch

        known = self.distinct(outputs)
        return Decoder(known, features, self.width, self.layers, self.heads, outputs)


# Recurrent networks.


class CharacterLSTM(TokenNetwork):
    """LEAF's network for Shakespeare: long short-term memory over embedded characters.

    The state of the last layer after the last character is passed to a dense layer, which predicts
    the next character.
    """

    source: ClassVar[str] = "Caldas et al., LEAF, arXiv:1812.01097, 2018 (Shakespeare)"

    kind: Literal["char-lstm"] = "char-lstm"
    embedding: int = Field(default=8, ge=1, description="size of a character's embedding")
    hidden: int = Field(default=256, ge=1, description="units per layer")
    layers: int = Field(default=2, ge=1, description="number of recurrent layers")

    def module(self, features: int, outputs: int) -> "nn.Module":
        """Return the network; see `Architecture.module`."""
        from fedsim.problems.modules.layers import Recurrent  # loads PyTorch

        return Recurrent(self.distinct(outputs), self.embedding, self.hidden, self.layers, outputs)
