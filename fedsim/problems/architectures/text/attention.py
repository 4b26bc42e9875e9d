"""Networks that attend."""

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field, ValidationInfo, field_validator

from fedsim.problems.architectures.text.base import TokenNetwork

if TYPE_CHECKING:
    from torch import nn


class Transformer(TokenNetwork):
    """A small decoder: from a row of tokens, what the next one is.

    Embedded tokens and places, then layers of causal attention and of two dense ones (4 times as
    wide, Gaussian error linear units), each behind a layer normalisation and beside a shortcut.
    What stands at the last token is normalised, and a dense layer says what follows.
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
        from fedsim.problems.networks.attention import Decoder  # noqa: PLC0415 - loads PyTorch

        known = self.known(outputs)
        return Decoder(known, features, self.width, self.layers, self.heads, outputs)
