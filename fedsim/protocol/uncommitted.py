"""Methods that forget to commit: rounds then never close, and no stop rule ends the run."""

from fedsim.core.errors import Failed

MOST_EXCHANGES = 100
"""Exchanges of one round after which the method is taken to have forgotten its commit.

A round of a built-in method has one to three exchanges. Secure aggregation adds four to each, which
makes 15 at most. An abandoned round counts anew. The rest is for methods with inner steps, such as
conjugate gradients. An exchange with some of the clients counts as this share of one: a method may
ask its clients one by one.
"""


class UncommittedExchanges:
    """Counts the exchanges of a server, or of a peer, since its last commit.

    Args:
        call: what the method should have called, such as "server.commit(model)".
    """

    __slots__ = ("_call", "_count", "_worth")

    def __init__(self, call: str) -> None:
        self._call, self._count, self._worth = call, 0, 0.0

    def add(self, number: int, share: float = 1.0) -> None:
        """Count an exchange that has ended.

        Args:
            number: the number of the round.
            share: of the clients that the method asked in it.

        Raises:
            Failed: there were too many without a commit.
        """
        self._count += 1
        self._worth += share
        if self._worth >= MOST_EXCHANGES:
            text = f"round {number} does not close: the method had {self._count:,} exchanges in it"
            helps = (
                f"call {self._call} once per round, after the update of the model. No key raises"
                f" this limit of {MOST_EXCHANGES}: a method with more inner steps commits its"
                " present model in between, which ends a round"
            )
            raise Failed(f"{text} without a commit; {helps}")

    def close(self) -> None:
        """Begin a round, after a commit or an abandoned round."""
        self._count, self._worth = 0, 0.0
