"""Recurrent networks for rows of tokens."""

from torch import Tensor, nn


class Recurrent(nn.Module):
    """Embedded tokens, layers of long short-term memory, and a dense one on where they end.

    Args:
        known: how many tokens there are.
        width: numbers of an embedded token.
        hidden: units of a layer.
        layers: how many.
        outputs: classes.
    """

    def __init__(self, known: int, width: int, hidden: int, layers: int, outputs: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(known, width)
        self.memory = nn.LSTM(width, hidden, layers, batch_first=True)
        self.last = nn.Linear(hidden, outputs)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return outputs of tokens (b, context), shape (b, outputs)."""
        states, _ = self.memory(self.embedding(tokens))
        outputs: Tensor = self.last(states[:, -1])
        return outputs
