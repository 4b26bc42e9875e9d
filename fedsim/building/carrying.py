"""How the messages of a run are carried: as values, or as the bytes that they are on the air."""

from fedsim.algorithms import Algorithm
from fedsim.algorithms.messages import registered
from fedsim.building.findings import Findings
from fedsim.protocol.carriage import VALUES, Bytes, Carriage, Carry, Values


def carriage_of(method: Algorithm, carry: Carry, findings: Findings) -> Carriage:
    """Return what carries a method's messages; values where it cannot send bytes.

    Args:
        method: whose messages are numbered.
        carry: what is wanted.
        findings: takes note of a method whose messages have no numbers, where they need some.
    """
    if carry == "values":
        return Values(method.messages) if method.messages else VALUES
    try:
        return Bytes(registered(type(method)))
    except TypeError as error:
        findings.add("algorithm.kind", f"messages cannot go as bytes: {error}")
        return VALUES
