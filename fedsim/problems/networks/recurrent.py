"""Recurrent networks for rows of tokens."""

import torch
from torch import Tensor, nn
from torch.func import functional_call


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
        outputs: Tensor = self.last(self._states(self.embedding(tokens))[:, -1])
        return outputs

    def _states(self, embedded: Tensor) -> Tensor:
        """Return the states of the last layer, shape (b, context, hidden).

        On a CPU, autocast takes a narrow LSTM of oneDNN without asking whether the processor has
        the instructions for it, and fails on those that have not. Given narrow numbers PyTorch
        does ask: so they are made narrow here, as autocast would.
        """
        if embedded.device.type == "cpu" and torch.is_autocast_enabled("cpu"):
            kind = torch.get_autocast_dtype("cpu")
            weights = {name: each.to(kind) for name, each in self.memory.named_parameters()}
            with torch.autocast("cpu", enabled=False):
                states: Tensor = functional_call(self.memory, weights, (embedded.to(kind),))[0]
        else:
            states = self.memory(embedded)[0]
        return states
