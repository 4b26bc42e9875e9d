"""The scenario of `fedsim.results.analysis.example_log`, and the command that records it anew.

python -m tests.results.analysis.example_log
"""

from typing import Any

import pandas as pd

import fedsim
from fedsim.results.analysis.log.example_log import EXAMPLE
from tests.runs import SMALL, small

_LOSS = {"kind": "independent", "rate": "15 %"}
_CHARGING = {"kind": "constant", "power": "1 W"}
_BATTERY = {"capacity": "0.001 Wh", "charge": "60 %", "charging": _CHARGING}

SCENARIO: dict[str, Any] = {
    "problem": {**SMALL["problem"], "split": {"kind": "iid", "remainder": "drop"}},
    "fleet": [
        {"count": 2, "device": "phone-mid", "radio": {"kind": "lte", "loss": _LOSS, "tries": 2}},
        {"count": 1, "device": "pi-4", "radio": "wifi", "battery": _BATTERY},
        {"count": 1, "device": {"kind": "cortex-m7", "speed": "50 kflop/s"}, "radio": "wifi"},
    ],
    "variants": {"gd": {"algorithm": {"kind": "gd", "step_size": "1/L"}}, "chb": {}},
    "seeds": 2,
    "participation": {"kind": "full", "deadline": "1 s"},
    "stop": {"rounds": 8},
}
"""Five minutes of reading: losses, silence, an empty battery, a slow client and a deadline."""


def tables() -> dict[str, pd.DataFrame]:
    """Run the scenario and return its tables by name."""
    result = fedsim.run(small(**SCENARIO))
    return {name: getattr(result, name) for name in ("events", "rounds", "clients")}


if __name__ == "__main__":
    for name, table in tables().items():
        table.to_parquet(EXAMPLE / f"{name}.parquet", index=False, compression="zstd")
