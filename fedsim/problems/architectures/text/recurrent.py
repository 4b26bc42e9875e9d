"""Recurrent networks."""

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from fedsim.problems.architectures.text.base import TokenNetwork

if TYPE_CHECKING:
    from torch import nn


class CharacterLSTM(TokenNetwork):
    """The network of LEAF for Shakespeare: long short-term memory over embedded characters.

    What the last character leaves in the last layer goes through a dense layer, which says what
    the next one is.
    """

    source: ClassVar[str] = "Caldas et al., LEAF, arXiv:1812.01097, 2018 (Shakespeare)"

    kind: Literal["char-lstm"] = "char-lstm"
    embedding: int = Field(default=8, ge=1, description="numbers of an embedded character")
    hidden: int = Field(default=256, ge=1, description="units of each layer")
    layers: int = Field(default=2, ge=1, description="recurrent layers")

    def module(self, features: int, outputs: int) -> "nn.Module":  # noqa: ARG002 - any length will do
        """Return the network; see `Architecture.module`."""
        from fedsim.problems.networks.recurrent import Recurrent  # noqa: PLC0415 - loads PyTorch

        return Recurrent(self.known(outputs), self.embedding, self.hidden, self.layers, outputs)
