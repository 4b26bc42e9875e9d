"""A round that all clients leave while they answer changes nothing of what follows."""

from pathlib import Path
from typing import Any

import pytest

from tests.algorithms.local_loops import SIZES, check_near, local, told
from tests.algorithms.sums import FULL

SLOW: dict[str, Any] = {"kind": "pi-4", "speed": "1 kflop/s"}
METHODS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "the model": ({"kind": "fedavg", "step_size": 0.1}, FULL),
    "two vectors": ({"kind": "scaffold", "step_size": 0.1}, FULL),
    "votes": ({"kind": "signsgd", "step_size": 0.01}, FULL),
    "steps, one for each": ({"kind": "marina-p", "step_size": 0.1, "probability": 0.001}, FULL),
    "differences": ({"kind": "marina", "step_size": 0.1, "probability": 0.5}, FULL),
}
ROUNDS = 8


@pytest.mark.parametrize("name", METHODS)
def test_what_clients_have_received_is_not_done_twice(name: str, tmp_path: Path) -> None:
    """Whatever the message says: all receive it again in the next round, and step once."""
    algorithm, wire = METHODS[name]
    problem = local(tmp_path)
    group = {"count": len(SIZES), "device": SLOW, "radio": {"kind": "wifi"}}
    parts: dict[str, Any] = {"wire": wire, "stop": {"rounds": ROUNDS}, "counting": "rounds"}
    whole = told(problem, algorithm, tmp_path / "whole", fleet=[group], **parts)
    rows = []
    for m in range(len(SIZES)):
        (sent,) = [
            row
            for row in whole.events
            if (row["event"], row["node"], row["round"]) == ("send", f"client-{m}", 4)
        ]
        leave = sent["t"] - sent["duration"] / 2  # its work is done, and the answer on its way
        rows += [f"{m},0,{leave!r}", f"{m},1000,1e9"]
    (tmp_path / "hours.csv").write_text("\n".join(["client,start,end", *rows]) + "\n")
    group["availability"] = {"kind": "intervals", "path": str(tmp_path / "hours.csv")}
    parts["stop"] = {"rounds": ROUNDS + 1}
    broken = told(problem, algorithm, tmp_path / "broken", fleet=[group], **parts)
    ((number, detail),) = [
        (row["round"], row["detail"]) for row in broken.events if row["event"] == "abandoned"
    ]
    assert (number, detail) == (4, "0 of 5 have reported, and all others have left")
    cut = [row["node"] for row in broken.events if (row["event"], row["round"]) == ("send", 4)]
    assert {f"client-{m}" for m in range(len(SIZES))} <= set(cut)
    models = list(broken.run.models)
    assert (models[3] == models[2]).all()
    check_near(whole.run.models, models[:3] + models[4:])
