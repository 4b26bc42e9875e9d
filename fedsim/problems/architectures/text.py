"""Networks for rows of tokens, such as the characters of a text."""

from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from pydantic import Field, ValidationInfo, field_validator

from fedsim.errors import DataError
from fedsim.problems.architectures.base import Architecture
from fedsim.problems.samples import Features

# Base class of networks for tokens: rows of integers from 0.


class TokenNetwork(Architecture):
    """A network for rows of tokens that predicts the next one."""

    tokens: ClassVar[bool] = True

    vocabulary: int | None = Field(
        default=None, ge=2, description="how many tokens there are; as many as outputs if null"
    )

    def known(self, outputs: int) -> int:
        """Return the number of known tokens."""
        return self.vocabulary or outputs

    def check(self, X: Features, outputs: int) -> None:
        """Check that all features are tokens; see `Architecture.check`."""
        known = self.known(outputs)
        wrong = (np.floor(X) != X) | (X < 0) | (known <= X)
        if wrong.any():
            seen = f"{X[wrong][0]:g}"
            raise DataError(
                "loss.model",
                f"{self.kind} takes tokens, whole numbers from 0 to {known - 1}; the data has "
                f"{seen}: give their number (vocabulary), or the number of outputs (loss.outputs)",
            )


# Attention networks for rows of tokens.

if TYPE_CHECKING:
    from torch import nn


class Transformer(TokenNetwork):
    """A small decoder: predicts the next token of a row.

    Embedded tokens and places, then layers of causal attention and of two dense ones (4 times as
    wide, Gaussian error linear units), each behind a layer normalisation and beside a shortcut.
    The state at the last token is normalised, and a dense layer predicts the next one.
    """

    source: ClassVar[str] = (
        "Vaswani et al., NeurIPS 2017; normalisation in front: Xiong et al., ICML 2020"
    )

    kind: Literal["transformer"] = "transformer"
    width: int = Field(default=64, ge=1, description="numbers of an embedded token")
    layers: int = Field(default=2, ge=1, description="of attention and dense ones")
    heads: int = Field(default=4, ge=1, description="of attention; they divide the width")

    @field_validator("heads")
    @classmethod
    def _whole_heads(cls, heads: int, known: ValidationInfo) -> int:
        width = known.data.get("width", heads)
        if width % heads:
            raise ValueError(f"a width of {width} is no whole number of {heads} heads")
        return heads

    def module(self, features: int, outputs: int) -> "nn.Module":
        """Return the network; see `Architecture.module`."""
        from fedsim.problems.modules.layers import Decoder  # noqa: PLC0415 - loads PyTorch

        known = self.known(outputs)
        return Decoder(known, features, self.width, self.layers, self.heads, outputs)


# Recurrent networks.

if TYPE_CHECKING:
    from torch import nn


class CharacterLSTM(TokenNetwork):
    """The network of LEAF for Shakespeare: long short-term memory over embedded characters.

    The last layer's state after the last character goes through a dense layer, which predicts
    the next one.
    """

    source: ClassVar[str] = "Caldas et al., LEAF, arXiv:1812.01097, 2018 (Shakespeare)"

    kind: Literal["char-lstm"] = "char-lstm"
    embedding: int = Field(default=8, ge=1, description="numbers of an embedded character")
    hidden: int = Field(default=256, ge=1, description="units of each layer")
    layers: int = Field(default=2, ge=1, description="recurrent layers")

    def module(self, features: int, outputs: int) -> "nn.Module":  # noqa: ARG002 - any length will do
        """Return the network; see `Architecture.module`."""
        from fedsim.problems.modules.layers import Recurrent  # noqa: PLC0415 - loads PyTorch

        return Recurrent(self.known(outputs), self.embedding, self.hidden, self.layers, outputs)
