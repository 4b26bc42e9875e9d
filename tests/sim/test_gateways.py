"""Tiers of gateways by hand: their models by loops, their bits, times and joules by closed form."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

import fedsim
from fedsim.addons.conformance import check_energy
from fedsim.algorithms.averaging import FedAvg
from fedsim.core.ports import Array, Server
from fedsim.results.record.parts import read_table
from fedsim.wire import HEADER_BITS, Dense, ValueFormat
from tests.algorithms.harness import trajectory
from tests.algorithms.local_loops import FEATURES, Local, check_near, local

ETA, STEPS = 0.1, 2
BELOW = ([0, 1], [2, 3, 4])
"""The clients of two gateways, of five clients in order."""

EXACT = {"values": "float64"}


TOP_ONE = {"compressor": {"kind": "top-k", "count": 1}, "error_feedback": "ef"}
LOSS = {"kind": "independent", "rate": "10 %"}


def scenario(problem: Local, *tiers: dict[str, Any], **blocks: Any) -> dict[str, Any]:
    """Return a scenario of FedAvg below some tiers, in full precision."""
    algorithm = {"kind": "fedavg", "step_size": ETA, "local_steps": STEPS}
    if problem.batch is not None:
        algorithm["batch"] = problem.batch
    return {
        "problem": problem.block,
        "algorithm": algorithm,
        "wire": EXACT,
        "tiers": [{"wire": EXACT, **tier} for tier in tiers],
        "stop": {"rounds": 12},
    } | blocks


def models(problem: Local, folder: Path, *tiers: dict[str, Any], **blocks: Any) -> Array:
    """Return the model of each round, shape (rounds, d)."""
    return trajectory(scenario(problem, *tiers, **blocks), folder / "run").models


Step = Callable[[Array, Array], Array]
"""The model of a server after a mean change."""


def average(w: Array, delta: Array) -> Array:
    return w + delta


class Momentum:
    """DiLoCo's outer step: Nesterov's momentum with the mean change."""

    def __init__(self, rate: float, beta: float) -> None:
        self.rate, self.beta, self.b = rate, beta, np.zeros(1)

    def __call__(self, w: Array, delta: Array) -> Array:
        self.b = self.beta * self.b + delta
        return np.asarray(w + self.rate * (self.beta * self.b + delta))


def edge(problem: Local, w: Array, clients: Sequence[int], rounds: int, mu: float = 0.0) -> Array:
    """HierFAVG at a gateway: so many means of models after local steps."""
    own = problem.weights[list(clients)]
    for _ in range(rounds):
        ends = [problem.descend(client, w, ETA, STEPS, mu) for client in clients]
        w = np.tensordot(own / own.sum(), np.array(ends), 1)
    return w


def cloud(problem: Local, rounds: int, step: Step = average, mu: float = 0.0) -> list[Array]:
    """HierFAVG, Algorithm 1: local steps, so many edge rounds, and the mean of the edges."""
    w, made = np.zeros(problem.dimension), list[Array]()
    shares = [problem.weights[clients].sum() for clients in BELOW]
    for _ in range(12):
        ends = [edge(problem, w, clients, rounds, mu) for clients in BELOW]
        w = step(w, np.tensordot(shares, np.array(ends), 1) - w)
        made.append(w)
    return made


# -- models ----------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["logistic", "softmax"])
@pytest.mark.parametrize("batch", [None, 4])
def test_one_gateway_with_one_round_is_fedavg_to_the_bit(
    loss: str, batch: int | None, tmp_path: Path
) -> None:
    problem = local(tmp_path, loss, batch)
    flat = models(problem, tmp_path / "flat")
    tiered = models(problem, tmp_path / "tiers", {"count": 1})
    deep = models(problem, tmp_path / "deep", {"count": 1}, {"count": 1}, {"count": 1})
    assert flat.tobytes() == tiered.tobytes() == deep.tobytes()


def test_gateways_with_one_round_are_fedavg_but_for_the_order_of_sums(tmp_path: Path) -> None:
    problem = local(tmp_path)
    flat = models(problem, tmp_path / "flat")
    for count in (2, 5):
        check_near(models(problem, tmp_path / str(count), {"count": count}), list(flat))


@pytest.mark.parametrize("rounds", [2, 5])
@pytest.mark.parametrize("batch", [None, 4])
def test_more_rounds_are_hierfavg(rounds: int, batch: int | None, tmp_path: Path) -> None:
    problem = local(tmp_path, batch=batch)
    seen = models(problem, tmp_path, {"count": 2, "rounds": rounds})
    check_near(seen, cloud(problem, rounds))


def test_inner_and_outer_methods_are_those_of_their_papers(tmp_path: Path) -> None:
    problem = local(tmp_path)
    inner = {"kind": "fedprox", "step_size": ETA, "local_steps": STEPS, "mu": 0.5}
    for number, outer in enumerate(
        (
            {
                "kind": "fedopt",
                "server_rate": 0.7,
                "server_optimizer": {"kind": "sgd", "momentum": 0.9, "nesterov": True},
            },
            {"kind": "diloco"},
        )
    ):
        tier = {"count": 2, "rounds": 3, "outer": outer}
        seen = models(problem, tmp_path / str(number), tier, algorithm=inner)
        check_near(seen, cloud(problem, 3, Momentum(0.7, 0.9), 0.5))


def test_tiers_of_tiers_are_loops_in_loops(tmp_path: Path) -> None:
    problem = local(tmp_path)
    low, high = {"count": 4, "rounds": 2}, {"count": 2, "rounds": 3}
    seen = models(problem, tmp_path, low, high)
    w, made = np.zeros(problem.dimension), list[Array]()
    p = problem.weights
    for _ in range(12):
        ends = []
        for block in ([[0], [1]], [[2], [3, 4]]):
            shares = np.array([p[clients].sum() for clients in block])
            own = w
            for _ in range(3):
                means = [edge(problem, own, clients, 2) for clients in block]
                own = np.tensordot(shares / shares.sum(), np.array(means), 1)
            ends.append(own)
        w = p[[0, 1]].sum() * ends[0] + p[[2, 3, 4]].sum() * ends[1]
        made.append(w)
    check_near(seen, made)


def top(v: Array, k: int) -> Array:
    """Return the k entries of largest magnitude, zero elsewhere."""
    kept = np.zeros_like(v)
    places = np.argsort(-np.abs(v), kind="stable")[:k]
    kept[places] = v[places]
    return kept


def test_each_hop_has_its_own_compressor_and_errors(tmp_path: Path) -> None:
    problem = local(tmp_path)
    top_two = {"kind": "top-k", "count": 2}
    up = {"compressor": top_two, "error_feedback": "ef", "if_longer": "compressed"}
    wire = {**EXACT, "up": up}
    low = {**EXACT, "up": {**up, "compressor": {"kind": "top-k", "count": 3}}}
    seen = models(problem, tmp_path, {"count": 2, "rounds": 2, "wire": wire}, wire=low)
    p, w, made = problem.weights, np.zeros(problem.dimension), list[Array]()
    errors = {node: np.zeros_like(w) for node in range(7)}

    def sent(node: int, change: Array, k: int) -> Array:
        kept = top(change + errors[node], k)
        errors[node] = errors[node] + change - kept
        return kept

    for _ in range(12):
        step = np.zeros_like(w)
        for gateway, clients in zip((5, 6), BELOW, strict=True):
            own, shares = w, p[clients] / p[clients].sum()
            for _ in range(2):
                changes = [problem.descend(m, own, ETA, STEPS) - own for m in clients]
                kept = [sent(m, each, 3) for m, each in zip(clients, changes, strict=True)]
                own = own + np.tensordot(shares, np.array(kept), 1)
            step = step + p[clients].sum() * sent(gateway, own - w, 2)
        w = w + step
        made.append(w)
    check_near(seen, made)


# -- bits, seconds and joules ----------------------------------------------------------

BITS = Dense.of(np.zeros(FEATURES), ValueFormat.FLOAT64).bits + HEADER_BITS
"""A message with a model, or a change."""

CLIENT = {
    "kind": "ideal",
    "up": "1.024 kbit/s",
    "down": "2.048 kbit/s",
    "latency": "0.25 s",
    "energy_up": "2 nJ/bit",
    "energy_down": "1 nJ/bit",
}
GATEWAY = {
    "kind": "ideal",
    "up": "0.512 kbit/s",
    "down": "4.096 kbit/s",
    "latency": "0.5 s",
    "energy_up": "8 nJ/bit",
    "energy_down": "4 nJ/bit",
}


def timed(folder: Path, **blocks: Any) -> fedsim.Result:
    """Run two rounds of three edge rounds; no work takes time."""
    tier = {"count": 2, "rounds": 3, "radio": GATEWAY, **blocks.pop("tier", {})}
    given = {"fleet": [{"count": 5, "radio": CLIENT}], "stop": {"rounds": 2}, **blocks}
    return fedsim.run(scenario(local(folder), tier, **given), out=folder / "runs")


def test_what_is_charged_on_each_hop_is_what_arrives_there(tmp_path: Path) -> None:
    result = timed(tmp_path)
    edge_round = 0.5 + BITS / 2048 + BITS / 1024
    whole = 1.0 + BITS / 4096 + 3 * edge_round + BITS / 512
    assert result.rounds["t"].to_numpy()[1:] == pytest.approx([whole, 2 * whole], rel=1e-12)
    for way in ("bits_up", "bits_down"):
        assert list(result.rounds[way][1:]) == [(2 + 3 * 5) * BITS] * 2
    sent = result.events[result.events["event"] == "send"]
    ways = sent.groupby(["node", "peer"], observed=True).size()
    expected = {("server", f"gateway-{g}"): 2 for g in (5, 6)}
    expected |= {(f"gateway-{g}", "server"): 2 for g in (5, 6)}
    for gateway, clients in zip((5, 6), BELOW, strict=True):
        for m in clients:
            expected[f"gateway-{gateway}", f"client-{m}"] = 6
            expected[f"client-{m}", f"gateway-{gateway}"] = 6
    assert ways.to_dict() == expected
    assert set(sent["round"]) == {1, 2}  # a message has the number of the server's round
    table = result.clients.set_index("client")
    assert table["joules"].to_numpy() == pytest.approx(
        [6 * 3e-9 * BITS] * 5 + [2 * 12e-9 * BITS] * 2
    )
    assert list(table["server"]) == ["gateway-5"] * 2 + ["gateway-6"] * 3 + ["server"] * 2
    assert list(table["tier"]) == [0] * 5 + [1] * 2


def test_links_are_shared_below_each_server(tmp_path: Path) -> None:
    link = {"uplink": "1.024 kbit/s", "latency": "1 s"}
    server = {"server": {"downlink": "2.048 kbit/s"}}
    result = timed(tmp_path, tier={"link": link}, network=server)
    most = 3  # clients of a gateway send at once
    edge_round = 0.5 + 2.0 + BITS / 2048 + most * BITS / 1024
    whole = 1.0 + 2 * BITS / 2048 + 3 * edge_round + BITS / 512
    assert result.rounds["t"].to_numpy()[1:] == pytest.approx([whole, 2 * whole], rel=1e-12)


# -- missing gateways and clients ------------------------------------------------------


def test_a_deadline_above_goes_on_without_a_late_gateway(tmp_path: Path) -> None:
    problem = local(tmp_path)
    fleet = [{"count": 2}, {"count": 3, "radio": {"kind": "ideal", "up": "0.1 kbit/s"}}]
    policy = {"kind": "full", "deadline": "1 s", "late": "drop"}
    blocks = {"fleet": fleet, "stop": {"rounds": 3}}
    tier = {"count": 2, "rounds": 2, "participation": policy}
    seen = models(problem, tmp_path, tier, **blocks)
    w, made = np.zeros(problem.dimension), list[Array]()
    for _ in range(3):
        w = edge(problem, w, BELOW[0], 2)
        made.append(w)
    check_near(seen, made)
    late = _rows(tmp_path, "late")
    assert {(row["node"], row["peer"]) for row in late} <= {("gateway-6", "server")}


def test_a_deadline_below_goes_on_without_a_late_client(tmp_path: Path) -> None:
    problem = local(tmp_path)
    fleet = [{"count": 4}, {"count": 1, "radio": {"kind": "ideal", "up": "0.1 kbit/s"}}]
    policy = {"kind": "full", "deadline": "1 s", "late": "drop"}
    blocks = {"fleet": fleet, "participation": policy, "stop": {"rounds": 3}}
    seen = models(problem, tmp_path, {"count": 2, "rounds": 2}, **blocks)
    w, made, p = np.zeros(problem.dimension), list[Array](), problem.weights
    for _ in range(3):
        ends = [edge(problem, w, clients, 2) for clients in (BELOW[0], [2, 3])]
        w = p[[0, 1]].sum() * ends[0] + p[[2, 3, 4]].sum() * ends[1]
        made.append(w)
    check_near(seen, made)
    assert {(row["node"], row["peer"]) for row in _rows(tmp_path, "late")} == {
        ("client-4", "gateway-6")
    }


def test_a_gateway_that_hears_of_nobody_keeps_the_model_of_its_round(tmp_path: Path) -> None:
    """All its rounds are without a reply; they bear the number of the server's round."""
    problem = local(tmp_path)
    slow = {"kind": "ideal", "up": "0.1 kbit/s"}
    policy = {"kind": "full", "deadline": "1 s", "late": "drop"}
    blocks = {"fleet": [{"count": 2}, {"count": 3, "radio": slow}], "participation": policy}
    seen = models(problem, tmp_path, {"count": 2, "rounds": 2}, **blocks, stop={"rounds": 3})
    w, made, p = np.zeros(problem.dimension), list[Array](), problem.weights
    for _ in range(3):
        w = p[[0, 1]].sum() * edge(problem, w, BELOW[0], 2) + p[[2, 3, 4]].sum() * w
        made.append(w)
    check_near(seen, made)
    rows = read_table(tmp_path / "run", "events").to_pylist()
    due = np.cumsum([row["event"] == "round" for row in rows]) + 1
    sent = [(row["event"], row["node"]) == ("send", "gateway-6") for row in rows]
    assert sum(sent) == 3 * (2 * 3 + 1)  # to three clients in two rounds, and the answer
    assert [row["round"] for row, own in zip(rows, sent, strict=True) if own] == [*due[sent]]


def test_a_gateway_without_power_is_out_and_its_clients_with_it(tmp_path: Path) -> None:
    problem = local(tmp_path)
    low: dict[str, Any] = {"count": 1, "rounds": 1}  # the gateway of both, on mains
    small = {"kind": "ideal", "up": "1 kbit/s", "down": "1 kbit/s", "energy_up": "1 mJ/bit"}
    battery = {"capacity": f"{2.6 * BITS} mJ", "threshold": "10 %"}
    tier = {"count": 2, "rounds": 2, "radio": small, "battery": battery}
    seen = models(problem, tmp_path, tier, low, stop={"rounds": 6})
    w, made = np.zeros(problem.dimension), list[Array]()
    for number in range(6):
        if number < 2:
            shares = [problem.weights[clients].sum() for clients in BELOW]
            ends = [edge(problem, w, clients, 2) for clients in BELOW]
            w = np.tensordot(shares, np.array(ends), 1)
        made.append(w)
    # In the third round both are off before they have answered, and the gateway above gives it up.
    check_near(seen, made[:4])
    gone = _rows(tmp_path, "depleted")
    assert {row["node"] for row in gone} == {"gateway-5", "gateway-6"}


def test_every_gateway_waits_for_its_own_clients_to_come_online(tmp_path: Path) -> None:
    """Both ask as soon as theirs are there, which the other one's are not yet."""
    problem = local(tmp_path)
    there = [f"{client},{3 if client < 2 else 7},1000" for client in range(5)]
    (tmp_path / "there.csv").write_text("\n".join(["client,start,end", *there, ""]))
    online = {"kind": "intervals", "path": str(tmp_path / "there.csv")}
    blocks = {"fleet": [{"count": 5, "availability": online}], "stop": {"rounds": 1}}
    models(problem, tmp_path, {"count": 2}, **blocks)
    opened = {row["node"]: row["t"] for row in _rows(tmp_path, "exchange")}
    assert opened == {"server": 0.0, "gateway-5": 3.0, "gateway-6": 7.0}


def test_an_energy_audit_of_a_log_takes_gateways_for_servers_of_their_clients(
    tmp_path: Path,
) -> None:
    (run,) = timed(tmp_path).runs
    assert set(check_energy(run)["outcome"]) == {"kept"}


def test_a_round_that_is_given_up_names_the_gateways_that_are_missing(tmp_path: Path) -> None:
    participation = {"kind": "full", "give_up": "1 s"}
    timed(tmp_path, tier={"participation": participation, "radio": {**GATEWAY, "up": "1 bit/s"}})
    (run,) = (tmp_path / "runs").glob("*/seed-1")
    rows = read_table(run, "events").to_pylist()
    said = {row["detail"] for row in rows if row["event"] == "abandoned"}
    assert said == {"0 of 2 have reported, 2 are needed; missing: gateway-5, gateway-6"}


@pytest.mark.parametrize("share", [0.25, 0.75])
def test_what_a_gateway_sends_and_is_sent_breaks_off_when_its_power_is_out(
    share: float, tmp_path: Path
) -> None:
    """Its clients are on mains; its own radio takes no time, and its device a watt."""
    down, up = BITS / 2048, BITS / 1024
    dies = down * share if share < 0.5 else down + up * share
    fleet = [{"count": 5, "radio": {"kind": "ideal", "up": "1024 bit/s", "down": "2048 bit/s"}}]
    device = {"kind": "custom", "speed": "1 Gflop/s", "active": "1 W", "idle": "1 W"}
    battery = {"capacity": f"{dies} J", "cutoff": "0 %", "discharge_efficiency": "100 %"}
    tier = {"count": 1, "device": device, "battery": battery}
    source = scenario(local(tmp_path), tier, fleet=fleet, stop={"rounds": 5})
    fedsim.run(source, out=tmp_path / "runs")
    (run,) = (tmp_path / "runs").glob("*/seed-1")
    rows = read_table(run, "events").to_pylist()
    (gone,) = [row["t"] for row in rows if row["event"] == "depleted"]
    assert gone == pytest.approx(dies)
    broken = [row for row in rows if row["event"] == "lost"]
    assert [row["t"] for row in broken] == [gone] * 5
    assert {row["detail"] for row in broken} == {"aborted"}


def test_the_answer_of_a_gateway_breaks_off_when_its_power_is_out(tmp_path: Path) -> None:
    """Nothing takes time but the answer, and its battery lasts for half of it."""
    device = {"kind": "custom", "speed": "1 Gflop/s", "active": "1 W", "idle": "1 W"}
    half = BITS / 1024 / 2
    battery = {"capacity": f"{half} J", "cutoff": "0 %", "discharge_efficiency": "100 %"}
    radio = {"kind": "ideal", "up": "1024 bit/s"}
    tier = {"count": 1, "device": device, "battery": battery, "radio": radio}
    fedsim.run(scenario(local(tmp_path), tier, stop={"rounds": 5}), out=tmp_path / "runs")
    (run,) = (tmp_path / "runs").glob("*/seed-1")
    rows = read_table(run, "events").to_pylist()
    (gone,) = [row["t"] for row in rows if row["event"] == "depleted"]
    assert gone == pytest.approx(half)
    broken = [row for row in rows if row["event"] == "lost"]
    assert [(row["node"], row["t"], row["detail"]) for row in broken] == [
        ("gateway-5", gone, "aborted")
    ]


def away(folder: Path, out: str, radio: dict[str, Any], work: float) -> Any:
    """Return a run of one client, which computes for some seconds, below a gateway that leaves.

    Args:
        folder: for its files.
        out: from when to when the gateway is out, such as "1,2".
        radio: keys of the client's radio.
        work: how long its client computes, s.
    """
    left, back = out.split(",")
    (folder / "there.csv").write_text(f"client,start,end\n1,0,{left}\n1,{back},1000\n")
    data = fedsim.arrays(np.ones((1, 4)), np.ones(1), client=np.zeros(1, int))
    device = {"speed": f"{16 / work} flop/s", "active": "0 W", "idle": "0 W"}  # 16 operations
    tier = {
        "count": 1,
        "availability": {"kind": "intervals", "path": str(folder / "there.csv")},
        "participation": {"kind": "full", "deadline": "100 s", "noticed": "deadline"},
    }
    source = {
        "problem": {"loss": {"kind": "squared"}, "data": data, "split": {"kind": "groups"}},
        "algorithm": {"kind": "fedavg", "step_size": 0.01, "local_steps": 1},
        "fleet": [{"device": {"kind": "custom", **device}, "radio": radio}],
        "tiers": [tier],
        "participation": {"kind": "full", "deadline": "50 s"},
        "stop": {"rounds": 1, "time": "8 s"},
    }
    return fedsim.run(source, out=folder / "runs")


WATT = {"tail_power": "1 W", "promotion_power": "1 W", "promotion_time": "0.125 s"}
"""A watt whenever its radio is not idle, but for bits, which cost nothing."""


@pytest.mark.parametrize("left", [0.1, 0.125, 1.0, 5.05])
def test_the_radio_of_a_client_stays_on_when_its_gateway_leaves(
    left: float, tmp_path: Path
) -> None:
    """In its promotion, as the model comes, in its tail, or as the answer comes up."""
    radio = {"kind": "custom", "up": "1 kbit/s", "down": "1 Gbit/s", "latency": "0 s"}
    free = {"base": "0 W", "energy_up": "0 J/bit", "energy_down": "0 J/bit", "tail_time": "10 s"}
    run = away(tmp_path, f"{left},{left + 1}", {**radio, **free, **WATT}, work=4.875)
    mine = run.events[run.events["node"] == "client-0"]
    flown = mine[mine["event"].isin(["send", "receive"])]["duration"].sum()
    assert run.clients["joules"].iloc[0] == pytest.approx(8.0 - flown, rel=1e-9)
    assert set(check_energy(run.runs[0])["outcome"]) == {"kept"}


@pytest.mark.parametrize("back", [5.5, 7.0])
def test_what_is_sent_to_a_gateway_that_is_off_is_lost_on_it(back: float, tmp_path: Path) -> None:
    """Also what it comes back for the end of: its first bits found nobody."""
    radio = {"kind": "ideal", "up": f"{BITS} bit/s", "energy_up": "1 mJ/bit"}
    run = away(tmp_path, f"1,{back}", radio, work=5.0)
    rows = run.events.set_index("node")
    assert "receive" not in set(rows.loc["gateway-1", "event"].iloc[1:])
    (sent,) = rows.loc[["client-0"]].query("event == 'send'").to_dict("records")
    assert sent["detail"] == "lost"
    assert sent["t"] == pytest.approx(5.0 + sent["joules"] * 1e3 / BITS)
    assert rows.query("event == 'lost'")["t"].tolist() == [sent["t"]]
    assert run.clients["lost"].tolist() == [1, 0]
    assert set(check_energy(run.runs[0])["outcome"]) == {"kept"}


def test_a_gateway_whose_clients_are_gone_is_asked_no_more(tmp_path: Path) -> None:
    problem = local(tmp_path)
    small = {"kind": "ideal", "up": "1 kbit/s", "down": "1 kbit/s", "energy_up": "1 mJ/bit"}
    dying = {"radio": small, "battery": {"capacity": f"{4.5 * BITS} mJ"}}
    fleet = [{"count": 2, **dying}, {"count": 3}]
    blocks = {"fleet": fleet, "stop": {"rounds": 5}}
    seen = models(problem, tmp_path, {"count": 2, "rounds": 2}, **blocks)
    w, made, p = np.zeros(problem.dimension), list[Array](), problem.weights
    shares = [p[clients].sum() for clients in BELOW]
    for number in range(5):
        ends = [edge(problem, w, clients, 2) for clients in BELOW]
        w = ends[1] if number >= 2 else np.tensordot(shares, np.array(ends), 1)
        made.append(w)
    check_near(seen, made)


class Catching(FedAvg):
    """FedAvg that takes each exception of a commit for a failure."""

    kind: Literal["catching"] = "catching"  # type: ignore[assignment]  # another kind

    async def serve(self, server: Server) -> None:
        def commit(model: Array, **measures: float) -> None:
            try:
                server.commit(model, **measures)
            except Exception as error:
                raise AssertionError("the end of the rounds is an exception") from error

        class Guarded:
            def __getattr__(self, name: str) -> Any:
                return commit if name == "commit" else getattr(server, name)

        guarded: Any = Guarded()
        await super().serve(guarded)


class Grouping(FedAvg):
    """FedAvg whose coroutine is a task of a group."""

    kind: Literal["grouping"] = "grouping"  # type: ignore[assignment]  # another kind

    async def serve(self, server: Server) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(super().serve(server))


@pytest.mark.parametrize("method", [Catching, Grouping])
@pytest.mark.parametrize("dying", [False, True])
def test_the_rounds_of_a_gateway_end_whatever_its_method_catches_or_groups(
    method: type[FedAvg], *, dying: bool, tmp_path: Path
) -> None:
    small = {"kind": "ideal", "up": "1 kbit/s", "down": "1 kbit/s", "energy_up": "1 mJ/bit"}
    battery = {"battery": {"capacity": f"{4.5 * BITS} mJ"}} if dying else {}
    fleet = [{"count": 2, "radio": small, **battery}, {"count": 3}]
    made = scenario(local(tmp_path), {"count": 2, "rounds": 2}, fleet=fleet, stop={"rounds": 5})
    own = made | {"algorithm": made["algorithm"] | {"kind": method.model_fields["kind"].default}}
    plain, same = fedsim.run(made), fedsim.run(own, blocks=[method])
    assert same.rounds["objective"].tolist() == plain.rounds["objective"].tolist()
    assert same.events["t"].tolist() == plain.events["t"].tolist()


def _rows(folder: Path, event: str) -> list[dict[str, Any]]:
    """Return the rows of an event in the log of a run."""
    rows = read_table(folder / "run", "events").to_pylist()
    return [row for row in rows if row["event"] == event]


# -- what is refused -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "blocks", "tier"),
    [
        ("algorithm.kind", {"algorithm": {"kind": "scaffold", "step_size": 0.1}}, {}),
        ("algorithm.kind", {"algorithm": {"kind": "gd", "step_size": 0.1}}, {}),
        ("algorithm.kind", {"algorithm": {"kind": "ditto", "step_size": 0.1}}, {}),
        ("tiers.0.outer.kind", {}, {"outer": {"kind": "fedprox"}}),
        ("tiers.0.outer.kind", {}, {"outer": {"kind": "fednova"}}),
        ("tiers.0.outer.kind", {}, {"outer": {"kind": "chb"}}),
        ("tiers.0.outer.local_steps", {}, {"outer": {"kind": "fedavg", "local_steps": 3}}),
        ("tiers.0.outer.step_size", {}, {"outer": {"kind": "fedavg", "step_size": 0.3}}),
        ("tiers.0.count", {}, {"count": 6}),
        ("tiers.0.count", {"fleet": [{"count": 5}]}, {"count": 6}),
        ("tiers.0.participation.count", {}, {"participation": {"kind": "uniform", "count": 3}}),
        ("participation.count", {"participation": {"kind": "uniform", "count": 3}}, {}),
        ("participation.kind", {"participation": {"kind": "asynchronous", "buffer": 1}}, {}),
        ("network.topology", {"network": {"topology": "tree", "gateways": 2}}, {}),
        ("network.model", {"network": {"model": "tcp"}}, {}),
        ("network.wifi", {"network": {"wifi": {}}}, {}),
        (
            "tiers.0.wire.down.error_feedback",
            {},
            {
                "wire": {
                    "down": {"compressor": {"kind": "top-k", "count": 1}, "error_feedback": "ef"}
                }
            },
        ),
        (
            "wire.up.error_feedback",
            {"wire": {"up": {"compressor": "scaled-sign", "error_feedback": "ef21"}}},
            {"battery": {"capacity": "9 kJ"}},
        ),
        (
            "tiers.0.radio.tries",
            {},
            {"radio": {"kind": "wifi", "loss": LOSS, "tries": 1}},
        ),
    ],
)
def test_what_gateways_cannot_have_is_refused_at_its_key(
    key: str, blocks: dict[str, Any], tier: dict[str, Any], tmp_path: Path
) -> None:
    with pytest.raises(fedsim.ScenarioError) as error:
        fedsim.check(scenario(local(tmp_path), {"count": 2, **tier}, **blocks))
    assert key in [fault.key for fault in error.value.faults], str(error.value)
