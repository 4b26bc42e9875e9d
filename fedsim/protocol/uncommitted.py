"""Methods that forget to commit: rounds then never close, and no stop rule ends the run."""

from fedsim.core.errors import Failed

MOST_EXCHANGES = 1000
"""Exchanges of one round after which the method is taken to have forgotten its commit.

A round of a method has one to three exchanges, and secure aggregation adds four to each. An
abandoned round counts anew. So no method that commits at all comes near it.
"""


class UncommittedExchanges:
    """Counts the exchanges of a server, or of a peer, since its last commit.

    Args:
        call: what the method should have called, such as "server.commit(model)".
    """

    __slots__ = ("_call", "_count")

    def __init__(self, call: str) -> None:
        self._call, self._count = call, 0

    def add(self, number: int) -> None:
        """Count an exchange that has ended.

        Args:
            number: the number of the round.

        Raises:
            Failed: there were too many without a commit.
        """
        self._count += 1
        if self._count >= MOST_EXCHANGES:
            text = f"round {number} does not close: the method had {self._count:,} exchanges in it"
            helps = f"call {self._call} once per round, after the update of the model"
            raise Failed(f"{text} without a commit; {helps}")

    def close(self) -> None:
        """Begin a round, after a commit or an abandoned round."""
        self._count = 0
