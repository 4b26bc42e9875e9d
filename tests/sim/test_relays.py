"""Relays: who forwards the messages of others pays for them, by hand, on lines of clients."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import fedsim
from fedsim.addons.repricing import reprice

HEADER = 152
UP, DOWN = 2000.0, 4000.0  # bit/s of the radios; the edges are faster
SEND, RECEIVE, BASE = 0.3, 0.2, 0.1  # W
PER_UP, PER_DOWN = 2e-6, 1e-6  # J/bit
FRAME = 320  # bits in front of every packet
RADIO = {
    "kind": "custom",
    "up": "2 kbit/s",
    "down": "4 kbit/s",
    "send": "0.3 W",
    "receive": "0.2 W",
    "base": "0.1 W",
    "energy_up": "2 uJ/bit",
    "energy_down": "1 uJ/bit",
    "packet": "1500 B",
    "framing": "40 B",
    "latency": "0 s",
}
DEVICE = {"kind": "custom", "speed": "1 Gflop/s", "active": "0 W", "idle": "0 W"}


def chain(clients: int) -> list[dict[str, str]]:
    """Return the edges of a line: server, client-0, client-1, and so on."""
    nodes = ["server", *(f"client-{number}" for number in range(clients))]
    return [{"source": one, "target": other, "rate": "10 kbit/s"} for one, other in pairwise(nodes)]


def line(clients: int, groups: Sequence[dict[str, Any]], **blocks: Any) -> dict[str, Any]:
    data = fedsim.arrays(np.ones((clients, 4)), np.ones(clients), client=np.arange(clients))
    return {
        "name": "line",
        "problem": {
            "loss": {"kind": "squared", "scale": "sum"},
            "data": data,
            "split": {"kind": "groups"},
        },
        "algorithm": {"kind": "gd", "step_size": 1e-6},
        "fleet": [{"count": 1, "device": DEVICE, "radio": RADIO} | group for group in groups],
        "network": {"topology": "graph", "edges": chain(clients)},
        "stop": {"rounds": 2},
        **blocks,
    }


def one_way(bits: float) -> tuple[float, float]:
    """Return what a radio takes to send so many bits, and to receive them, J: with its frame."""
    framed = bits + FRAME
    up = (BASE + SEND) / UP + PER_UP
    down = (BASE + RECEIVE) / DOWN + PER_DOWN
    return framed * up, framed * down


@pytest.mark.parametrize("clients", [2, 5])
def test_a_chain_pays_for_all_that_goes_through_it(clients: int, tmp_path: Path) -> None:
    result = fedsim.run(line(clients, [{"count": clients}]), out=tmp_path)
    sent, received = (
        result.events[(result.events["event"] == event) & (result.events["node"] == node)]
        for event, node in (("send", "client-0"), ("receive", "client-0"))
    )
    (up_bits,) = set(sent["payload_bits"] + sent["header_bits"])
    (down_bits,) = set(received["payload_bits"] + received["header_bits"])
    both = sum(one_way(up_bits)) + sum(one_way(down_bits))
    table = result.clients.set_index("client")
    for number in range(clients):
        behind = clients - 1 - number  # clients whose messages go through this one, both ways
        own = table.loc[f"client-{number}"]
        assert own["forward_joules"] == pytest.approx(2 * behind * both, rel=1e-12)
        bits = behind * (up_bits + down_bits + 2 * FRAME)
        assert own["bits_forwarded"] == 2 * bits
    rows = result.events[result.events["event"] == "forward"]
    assert len(rows) == 2 * 2 * clients * (clients - 1) / 2
    nodes, peers = rows["node"].astype(str), rows["peer"].astype(str)
    assert (nodes < peers).all(), "it stands with the client whose message it was"
    parts = [name for name in map(str, table) if name.endswith("_joules")][:8]
    assert table[parts].sum(axis=1).to_numpy() == pytest.approx(table["joules"].to_numpy())
    whole = fedsim.results.analysis.energy_parts(result.clients).sum(axis=1)
    assert whole.to_numpy() == pytest.approx(table["joules"].sum())
    assert result.rounds["joules"].sum() == pytest.approx(table["joules"].sum())


def test_where_no_client_forwards_nothing_has_changed(tmp_path: Path) -> None:
    edges = [{"source": "server", "target": f"client-{n}", "rate": "10 kbit/s"} for n in range(3)]
    spokes = line(3, [{"count": 3}], network={"topology": "graph", "edges": edges})
    result = fedsim.run(spokes, out=tmp_path)
    assert "forward_joules" not in result.clients
    assert "forward" not in set(result.events["event"])


def test_a_line_priced_again_equals_a_run_of_it(tmp_path: Path) -> None:
    radio = "fleet.0.radio=" + str(RADIO | {"send": "0.9 W"}).replace("'", '"')
    world = line(3, [{"count": 3}])
    world["problem"]["data"] = saved(tmp_path, 3)
    first = fedsim.run(world, out=tmp_path / "first")
    again = reprice(first.folder, [radio], tmp_path / "again")
    world["fleet"][0]["radio"] = RADIO | {"send": "0.9 W"}
    anew = fedsim.run(world, out=tmp_path / "anew")
    pd.testing.assert_frame_equal(again.clients, anew.clients)
    assert anew.clients["forward_joules"].sum() > first.clients["forward_joules"].sum() > 0


def saved(folder: Path, clients: int) -> dict[str, str]:
    path = folder / "line.npz"
    np.savez(path, X=np.ones((clients, 4)), y=np.ones(clients), client=np.arange(clients))
    return {"kind": "npz", "path": str(path)}


def test_a_relay_drains_its_battery_and_what_it_cannot_pay_is_lost(tmp_path: Path) -> None:
    battery = {"capacity": "5e-4 Wh", "charge": "100 %", "threshold": "5 %"}
    world = line(
        2,
        [{"battery": battery}, {}],
        participation={"kind": "full", "deadline": "20 s"},
        stop={"rounds": 30},
    )
    result = fedsim.run(world, out=tmp_path)
    relay = result.clients.set_index("client").loc["client-0"]
    assert relay["depletions"] == 1
    assert relay["forward_joules"] > 0.4 * relay["joules"]
    # All that its battery gave is in the log: down to the cut-off, and no further.
    assert relay["joules"] / 0.95 == pytest.approx(relay["drained_joules"], rel=1e-9)
    assert relay["final_joules"] == pytest.approx(0.05 * relay["initial_joules"], rel=1e-6)
    (died,) = result.events.loc[result.events["event"] == "depleted", "t"]
    lost = result.events[result.events["event"] == "lost"]
    after = result.events[(result.events["t"] > died) & (result.events["event"] == "receive")]
    assert after[after["payload_bits"] > 0].empty, "no way leads to client-1 any more"
    # The server goes on sending to client-1, and does not notice.
    assert (lost[lost["t"] > died]["peer"] == "client-1").all()


def test_what_passes_as_a_relay_goes_offline_is_lost_and_it_pays_for_what_came(
    tmp_path: Path,
) -> None:
    (tmp_path / "there.csv").write_text("client,start,end\n0,0,0.1\n1,0,1000\n")
    away = {"availability": {"kind": "intervals", "path": str(tmp_path / "there.csv")}}
    world = line(
        2, [away, {}], participation={"kind": "full", "deadline": "50 s"}, stop={"rounds": 1}
    )
    result = fedsim.run(world, out=tmp_path / "out")
    forward = result.events[result.events["event"] == "forward"]
    sent = result.events[(result.events["event"] == "send") & (result.events["peer"] == "client-1")]
    bits = float((sent["payload_bits"] + sent["header_bits"]).iloc[0])
    # At 0.1 s, of all the time that the bits take at 4 kbit/s.
    share = 0.1 / ((bits + FRAME) / DOWN)
    assert 0 < share < 1
    assert forward["joules"].iloc[0] == pytest.approx(share * sum(one_way(bits)), rel=1e-9)
    lost = result.events[(result.events["event"] == "lost") & (result.events["peer"] == "client-1")]
    assert len(lost) == 1
    assert "receive" not in set(
        result.events[(result.events["node"] == "client-1") & (result.events["payload_bits"] > 0)][
            "event"
        ]
    )


def test_a_relay_pays_nothing_for_a_message_whose_bits_have_not_begun_to_flow(
    tmp_path: Path,
) -> None:
    late = {"radio": RADIO | {"latency": "1 s"}}
    world = line(2, [{"count": 2} | late], stop={"time": "100 ms"})
    result = fedsim.run(world, out=tmp_path)
    assert "in flight" in set(result.events["detail"])
    assert "forward" not in set(result.events["event"])


def test_where_the_end_of_the_run_cuts_a_message_off_a_relay_pays_for_what_came(
    tmp_path: Path,
) -> None:
    result = fedsim.run(line(2, [{"count": 2}], stop={"time": "100 ms"}), out=tmp_path)
    (forward,) = result.events[result.events["event"] == "forward"].to_dict("records")
    sent = result.events[(result.events["event"] == "send") & (result.events["peer"] == "client-1")]
    bits = float((sent["payload_bits"] + sent["header_bits"]).iloc[0])
    share = 0.1 / ((bits + FRAME) / DOWN)
    assert 0 < share < 1
    assert forward["joules"] == pytest.approx(share * sum(one_way(bits)), rel=1e-9)


def test_among_peers_the_nodes_between_two_neighbours_pay(tmp_path: Path) -> None:
    edges = chain(3)[1:]  # client-0 - client-1 - client-2
    network = {
        "topology": "graph",
        "edges": edges,
        "peers": {"kind": "complete"},
    }
    world = line(
        3, [{"count": 3}], network=network, algorithm={"kind": "d-psgd", "step_size": 1e-6}
    )
    result = fedsim.run(world, out=tmp_path)
    rows = result.events[result.events["event"] == "forward"]
    assert set(rows["node"]) == {"client-1"}
    assert set(rows["peer"].astype(str)) == {"client-0", "client-2"}
    sends = result.events[
        (result.events["event"] == "send") & (result.events["node"] == "client-0")
    ]
    bits = float((sends["payload_bits"] + sends["header_bits"]).iloc[0])
    assert rows["joules"].to_numpy() == pytest.approx(sum(one_way(bits)), rel=1e-12)


@pytest.mark.parametrize(
    ("blocks", "words"),
    [
        ({}, "client-0 .* forwards the messages of other clients and may leave"),
        ({"network": {"broadcast": "cell"}}, "client-0 forwards the server's messages to others"),
    ],
)
def test_what_would_never_end_or_cannot_be_heard_is_refused(
    blocks: dict[str, Any], words: str
) -> None:
    battery = {} if blocks else {"battery": {"capacity": "1 Wh"}}
    world = line(2, [battery, {}])
    world["network"] |= blocks.get("network", {})
    with pytest.raises(fedsim.ScenarioError, match=words):
        fedsim.run(world)
