"""A run in which everything happens: loss, tails, absence, empty batteries, late replies."""

from pathlib import Path
from typing import Any

import pandas as pd

import fedsim
from tests.runs import small

LOSS = {"kind": "independent", "rate": "20 %"}
CHARGING = {"kind": "constant", "power": "1 W"}
FLEET = [
    {
        "count": 3,
        "device": {"kind": "cortex-m7", "speed": "2 kflop/s"},
        "radio": {"kind": "lte", "loss": LOSS, "tries": 3},
        "availability": {"kind": "markov", "on": "40 s", "off": "20 s"},
    },
    {
        "count": 2,
        "device": "pi-4",
        "radio": "wifi",
        "battery": {"capacity": "0.02 Wh", "charge": "60 %", "charging": CHARGING},
    },
    {"count": 1, "device": "phone-mid", "radio": "ideal"},
]


def lively(out: Path | None = None, **changes: Any) -> fedsim.Result:
    """Run it."""
    own = {
        "fleet": FLEET,
        "participation": {"kind": "full", "deadline": "30 s"},
        "stop": {"rounds": 30},
    }
    return fedsim.run(small(**{**own, **changes}), out=out)


COLUMNS = {
    "t": 0.0, "duration": 0.0, "event": "", "node": "client-0", "peer": None, "round": 1,
    "message": None, "payload_bits": 0, "header_bits": 0, "transport_bits": 0, "joules": 0.0,
    "state_of_charge": float("nan"), "detail": None,
}  # fmt: skip


def log(*rows: dict[str, Any]) -> pd.DataFrame:
    """Return a log that was written by hand; what a row does not say has its default."""
    frame = pd.DataFrame([{**COLUMNS, **row} for row in rows])
    return frame.astype(dict.fromkeys(["event", "node", "peer", "message", "detail"], "category"))
