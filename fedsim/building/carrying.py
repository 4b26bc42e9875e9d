"""How the messages of a run are carried: as values, or as the bytes that they are on the air."""

from fedsim.algorithms.messages import registered
from fedsim.building.findings import Findings
from fedsim.protocol.carriage import VALUES, Bytes, Carriage, Carry, Values
from fedsim.scenario import Scenario


def carriage_of(scenario: Scenario, carry: Carry, findings: Findings) -> Carriage:
    """Return what carries the messages of a method; values where it cannot send bytes.

    Args:
        scenario: with the method, whose messages are numbered, and what compresses them.
        carry: what is wanted.
        findings: takes note of a method whose messages have no numbers, where they need some.
    """
    method, links = scenario.algorithm, (scenario.wire.up, scenario.wire.down)
    if carry == "values":
        updates = any(link.error_feedback == "ef21" for link in links)
        return Values(method.messages or None, updates=updates)
    try:
        return Bytes(registered(type(method)))
    except TypeError as error:
        findings.add("algorithm.kind", f"messages cannot go as bytes: {error}")
        return VALUES
