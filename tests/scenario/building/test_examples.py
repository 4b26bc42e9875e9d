"""Every kind of block, from the scenario to a run that ends and whose books balance."""

import pickle
from pathlib import Path
from typing import Any

import networkx as nx
import pytest

import fedsim
from tests.scenario.blocks import GOOD

FILES = {
    "a.up": "".join(f"{millisecond}\n" for millisecond in range(1, 5000, 3)),
    "b.csv": "0,3\n5,1\n9,2\n",
    "sun.csv": "0,0\n1000,3\n2000,0\n",
    "grid.csv": "0,300\n6,100\n18,400\n",
    "there.csv": "client,start,end\n0,0,1000\n1,5,20\n2,0,inf\n3,10,inf\n",
    "ucc.csv": "Timestamp,UL_bitrate\n2020.02.14_10.00.00,3000\n2020.02.14_10.00.02,500\n",
    "lumos.csv": "run_num,seq_num,Throughput\n3,1,80\n3,2,0\n3,3,5\n",
    "pensieve.txt": "0 1\n1 20\n2 0\n3 4\n",
    "flows.json": '{"res_details": {"ul": [{"time_series": [{"t": 1000000000, "b": 900000}]}]}}',
    "states.json": '{"a": {"messages": "2020-02-01 00:00:00\\tbattery_charged_on\\n'
    '2020-02-01 10:00:00\\tbattery_charged_off\\n2020-02-01 11:00:00\\twifi"}}',
    "there.pickle": pickle.dumps(
        {1: {"active": [0, 50], "inactive": [40, 90], "finish_time": 100}}, 0
    ).decode("ascii"),
}

BASE: dict[str, Any] = {
    "problem": {
        "loss": {"kind": "squared", "l2": 1.0},
        "data": {"kind": "sklearn", "name": "diabetes"},
        "split": {"kind": "contiguous", "clients": 4},
    },
    "algorithm": {"kind": "gd", "step_size": "1/L"},
}

# What is lost for good needs a round that closes without it.
QUORUM = {"participation": {"kind": "full", "quorum": "50 %"}}
# Methods whose theory covers a sample of the clients, or replies that are old.
SAMPLED = {"algorithm": {"kind": "fedavg", "step_size": "0.1/L", "local_steps": 1}}
FURTHER: dict[str, Any] = {
    "independent": QUORUM,
    "what is lost is taken back": QUORUM,
    "uniform": SAMPLED,
    "poisson": SAMPLED,
    "weighted": SAMPLED,
    **dict.fromkeys(("age", "oort", "energy-aware", "power-of-choice", "carbon-aware"), SAMPLED),
    "compressed for a cohort": SAMPLED,
    "asynchronous": {"algorithm": {"kind": "gd", "step_size": "0.2/L"}},
}


@pytest.mark.parametrize("name", GOOD)
def test_every_example_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for file, content in FILES.items():
        (tmp_path / file).write_text(content)
    nx.write_graphml(nx.star_graph(["server", *(f"client-{n}" for n in range(4))]),
                     tmp_path / "net.graphml")  # fmt: skip
    monkeypatch.chdir(tmp_path)
    stop = GOOD[name].get("stop", {}) | {"rounds": 5}
    result = fedsim.run(BASE | GOOD[name] | FURTHER.get(name, {}) | {"stop": stop})
    (summary,) = result.summary.to_dict("records")
    assert (summary["status"], summary["rounds"]) == ("done", 5)
