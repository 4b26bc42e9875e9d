"""The page on questions of a log: each with its function, the example of that and its answer."""

import inspect
from collections.abc import Callable
from typing import Any

from fedsim.results import analysis

QUESTIONS: tuple[tuple[str, Callable[..., Any]], ...] = (
    ("Which clients are stragglers?", analysis.stragglers),
    ("Which client decided the duration of rounds?", analysis.deciding_clients),
    ("What is the critical path of a round, and what waits are on it?", analysis.critical_path),
    ("What do clients wait for?", analysis.waiting_by_cause),
    ("How busy are clients?", analysis.client_utilisation),
    ("How busy are links?", analysis.link_utilisation),
    ("How many bits did each kind of message cost?", analysis.bits_by_message),
    ("How many bits did each layer cost?", analysis.bits_by_layer),
    ("What was lost, and what was sent again?", analysis.lost_messages),
    ("How many messages were at the server at once?", analysis.server_queue),
    ("Where did energy go: by part, device or client?", analysis.energy_parts),
    ("How much was idle time, and how much tails?", analysis.idle_and_tail),
    ("When did batteries die?", analysis.battery_deaths),
    ("How even are energy and updates?", analysis.fairness),
    ("How often did each client take part?", analysis.participation),
    ("What became of each client in each round?", analysis.round_outcomes),
    ("Which client was silent when?", analysis.silences),
    ("How old were the replies?", analysis.staleness),
    ("How long did it take to reach a target?", analysis.cost_to_target),
    ("How much faster is a variant than another?", analysis.speedup),
)
"""What people ask, and the function that answers."""


def questions() -> str:
    """Return a section a question: the function, what it returns in a line, and its example."""
    return "\n\n".join(_section(title, function) for title, function in QUESTIONS)


def _section(title: str, function: Callable[..., Any]) -> str:
    text = inspect.getdoc(function) or ""
    summary = text.partition("\n\n")[0].replace("\n", " ")
    example = inspect.cleandoc(text.partition("Example:\n")[2])
    called = f"`{function.__name__}{_arguments(function)}`"
    return f"## {title}\n\n{called}: {summary}\n\n```pycon\n{example}\n```"


def _arguments(function: Callable[..., Any]) -> str:
    """Return the names of a function's arguments in brackets."""
    return f"({', '.join(inspect.signature(function).parameters)})"
