"""Networks for rows of tokens, such as the characters of a text."""

from fedsim.problems.architectures.text.attention import Transformer
from fedsim.problems.architectures.text.base import TokenNetwork
from fedsim.problems.architectures.text.recurrent import CharacterLSTM

__all__ = ["CharacterLSTM", "TokenNetwork", "Transformer"]
