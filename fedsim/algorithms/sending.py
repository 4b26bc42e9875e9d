"""What clients say of where their local steps have led: the model, or how far it is from the start.

The server makes the same of both: the mean of w_m = w + (w_m - w) is w plus the mean of the
differences, w being the model that all have started from. A model replaces what was there, so
it has to be of this round, and errors of compression must not be kept for later ones; EF21 sends
its change. A difference is added to what the server holds: error feedback makes good what a
compressor has left out, whatever is lost on the way. Where it is made of gradient steps, one that
is late is as good as a late gradient, and an asynchronous server adds it whenever it comes. Where
it is a jump to a minimum, two of them that started alike go past it, so that rounds are needed.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from pydantic import Field

from fedsim.algorithms.base import AddingUp, Algorithm
from fedsim.algorithms.local import mean, of_this_round
from fedsim.ports import Array, Client, Meaning, Message, Payload, Reply, Server, Structure

_Says = Callable[[Payload], Message]


@dataclass(frozen=True, slots=True)
class Change(Message):
    """Client to server: where its local steps have led, less what it was sent."""

    change: Payload


class SendsModels(Algorithm):
    """A method whose clients send what their local steps have led to, or how far that is.

    Differences from earlier rounds are added up as well, unless the method needs rounds.
    """

    uplink: ClassVar[Mapping[str, Meaning]] = {"": Meaning.STATE}

    sends: Literal["models", "differences"] = Field(
        default="models",
        description="what clients send: where their local steps have led, as the paper has it, or"
        " the difference to what they were sent, which may be compressed with feedback, and late",
    )

    @property
    def up(self) -> Mapping[str, Meaning]:
        """What clients' vectors mean: models replace what was there, differences add up."""
        return {"": Meaning.INCREMENT} if self.sends == "differences" else self.uplink

    def adding_up(self) -> AddingUp:
        """Return the method whose clients send differences."""
        other = self.model_copy(update={"sends": "differences"})
        return AddingUp("sends: differences", other)

    def said(
        self, client: Client, ends: Array, start: Array, kind: _Says, known: Structure
    ) -> Message:
        """Return a client's message.

        Args:
            client: who packs it.
            ends: where its steps have led, shape (d,).
            start: what it was sent, shape (d,).
            kind: makes the message that says where they have led.
            known: of `ends`, and of the difference.
        """
        if self.sends == "differences":
            return Change(client.pack(ends - start, known))
        return kind(client.pack(ends, known))

    def mean_of(self, server: Server, replies: Sequence[Reply], w: Array, field: str) -> Array:
        """Return the mean of what clients have arrived at, shape (d,); `w` where nobody counts.

        Args:
            server: of which a round is open.
            replies: to this round, and late ones.
            w: what the server goes on from.
            field: of a message that says where local steps have led.
        """
        added = self.sends == "differences"
        counted = replies if added and not self.synchronous else of_this_round(server, replies)
        if not counted:
            return w
        return w + mean(server, counted, "change") if added else mean(server, counted, field)
