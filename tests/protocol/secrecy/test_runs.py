"""Whole runs under secure aggregation."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

import fedsim
from fedsim.addons.live.refusals import check_live
from fedsim.addons.repricing.api import reprice
from fedsim.algorithms import CensoredHeavyBall, FedAvg
from fedsim.algorithms.censored import Innovation
from fedsim.core.errors import LiveError, ScenarioError
from fedsim.core.ports import Array, Payload, Reply, Server
from fedsim.protocol.secrecy import client as clients
from fedsim.protocol.secrecy.client import SecretMemory
from fedsim.protocol.secrecy.method import SecretMethod
from fedsim.protocol.secrecy.server import SecretServer
from fedsim.scenario import load
from fedsim.scenario.building import Builder
from fedsim.sim.worlds.server import RoundServer
from tests.algorithms.local_loops import SIZES, local, told
from tests.runs import files, small

FEDAVG: Mapping[str, Any] = {"kind": "fedavg", "step_size": 0.05, "local_steps": 3}
PHONE: Mapping[str, Any] = {"device": "phone-mid", "radio": "lte"}
CLIP: float = 300.0
NEEDS = pytest.mark.needs("secrecy")

LOSSY: dict[str, Any] = {
    "fleet": [
        {
            "count": 9,
            "device": "phone-mid",
            "radio": {"kind": "lte", "loss": {"kind": "independent", "rate": 0.3}, "tries": 2},
        }
    ],
    "participation": {"kind": "full", "deadline": "300 ms"},
    "stop": {"rounds": 12},
}
"""Each message is lost with a probability of 9 %."""

TOP_K = {"wire": {"values": "float64", "up": {"compressor": {"kind": "top-k", "count": 3}}}}

SHORT = {"algorithm": {"kind": "ef21", "step_size": 4e-4}}
"""A step that suits top-k."""

STEPS = {"fedavg": 0.001, "scaffold": 0.0001, "chb": "0.2/L", "ef21": "0.5/L", "diana": "0.1/L"}


def secret(method: str = "fedavg", kind: str = "secagg", **block: Any) -> dict[str, Any]:
    return {
        "algorithm": {"kind": method, "step_size": STEPS[method]},
        "secrecy": {"kind": kind, "clip": CLIP * 1000, "bits": 20, **block},
    }


def tables(folder: Path) -> dict[str, bytes]:
    names = ("events.parquet", "clients.parquet", "models.parquet")
    return {name: text for name, text in files(folder).items() if name.endswith(names)}


# What is computed.


@pytest.mark.needs("secrecy")
@pytest.mark.parametrize(
    "changes",
    [
        secret(),
        secret("chb"),
        secret("chb", silence="mask"),
        secret("scaffold", "secagg+", neighbours=2),
        secret("ef21", "lightsecagg", threshold=0.7),
        secret(threshold=0.5) | LOSSY,
        secret("chb", threshold=0.5) | LOSSY,
        secret("chb", "secagg+", neighbours=6, threshold="1/2", silence="mask") | LOSSY,
        secret("ef21", "lightsecagg", threshold=0.6, colluding=0.2) | LOSSY,
        secret("chb", silence="grouped", group=2, consistency=True),
        secret("chb", "secagg+", silence="grouped", group=2, neighbours=4) | LOSSY,
        secret("chb", "lightsecagg", silence="grouped", group=3, colluding=0.2) | LOSSY,
        secret(threshold=0.5, consistency=True) | LOSSY,
        secret("ef21", supports="union") | TOP_K | SHORT,
        secret("ef21", "lightsecagg", supports="union", colluding=0.2) | LOSSY | TOP_K | SHORT,
    ],
)
def test_counted_and_exact_runs_have_the_same_log(changes: dict[str, Any], tmp_path: Path) -> None:
    scenario = small(**{"stop": {"rounds": 8}, **changes})
    fedsim.run(scenario, out=tmp_path / "counted", check=False)
    exact = scenario | {"secrecy": {**scenario["secrecy"], "values": "exact"}}
    fedsim.run(exact, out=tmp_path / "exact", check=False)
    one, other = tables(tmp_path / "counted"), tables(tmp_path / "exact")
    assert len(one) == 3
    assert one == other


def test_the_mean_is_weighted_by_what_clients_send(tmp_path: Path) -> None:
    """Each multiplies by p_m, and the server divides by the sum of these factors."""
    problem = local(tmp_path)
    secrecy = {"kind": "secagg", "bits": 24, "clip": 4.0}
    seen = told(problem, dict(FEDAVG), tmp_path, secrecy=secrecy)
    w, models = np.zeros(problem.dimension), []
    for _ in seen.run.models:
        ends = [problem.descend(m, w, 0.05, 3) for m in range(len(SIZES))]
        w = problem.weights @ np.array(ends)
        models.append(w)
    assert len(set(problem.weights)) > 1
    assert np.abs(seen.run.models - np.array(models)).max() < 1e-5
    known = seen.run.job.setup.algorithm.known  # type: ignore[union-attr]
    assert known.coordinates == problem.dimension + 1
    masked = {row["payload_bits"] for row in seen.events if row["message"] == "maskedinput"}
    assert masked == {(problem.dimension + 1) * 27}  # 5 (2^24 - 1) + 1 has 27 bits


def test_long_vectors_are_clipped(tmp_path: Path) -> None:
    problem = local(tmp_path)
    secrecy = {"kind": "secagg", "bits": 24, "clip": 1e-3}
    seen = told(problem, dict(FEDAVG), tmp_path, secrecy=secrecy)
    w, models = np.zeros(problem.dimension), []
    for _ in seen.run.models:
        ends = [problem.descend(m, w, 0.05, 3) - w for m in range(len(SIZES))]
        w = w + problem.weights @ np.array([1e-3 * end / np.linalg.norm(end) for end in ends])
        models.append(w)
    assert np.abs(seen.run.models - np.array(models)).max() < 1e-8


class _Kept:
    """Keeps the memories and the server of a run under secrecy."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.memories: dict[int, SecretMemory] = {}
        self.servers: list[SecretServer] = []
        self.models: list[Array] = []
        handle, server, commit = SecretMethod.handle, SecretMethod.server, RoundServer.commit

        async def keep_memory(method: SecretMethod, client: Any, message: Any) -> Any:
            self.memories[client.id] = client.state
            return await handle(method, client, message)

        def keep_server(method: SecretMethod, seen: Server) -> Server:
            view: Any = server(method, seen)
            self.servers.append(view)
            return view  # type: ignore[no-any-return]

        def keep_model(world: RoundServer, model: Array, **measures: float) -> None:
            self.models.append(model)
            commit(world, model, **measures)

        patch.setattr(SecretMethod, "handle", keep_memory)
        patch.setattr(SecretMethod, "server", keep_server)
        patch.setattr(RoundServer, "commit", keep_model)


@pytest.mark.parametrize("silence", ["reveal", "mask", "grouped"])
def test_sums_of_changes_stay_right_as_clients_drop_out(
    silence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server's sum is that of the clients' copies, without what it has not counted."""
    kept = _Kept(monkeypatch)
    changes = secret("chb", silence=silence, threshold=0.5) | LOSSY
    scenario = small(**changes | {"stop": {"rounds": 40}})
    result = fedsim.run(scenario, out=tmp_path, check=False)
    (server,) = kept.servers
    clients = sorted(server._counted)
    held, taken_back = np.zeros(kept.models[0].size), 0
    for number, memory in kept.memories.items():
        held = held + memory.inner.held
        pending = memory.pending
        if pending is not None and server._counted.get(number, 0) != pending.run:
            held = held - pending.message.delta.values  # type: ignore[attr-defined]
            taken_back += 1
    plan = load(scenario)
    method = Builder(plan).build(plan.variants[0], plan.variants[0].seeds[0]).algorithm
    third, second, last = kept.models[-3:]
    aggregate = (second - last + method.beta * (second - third)) / method.alpha  # type: ignore[attr-defined]
    assert len(clients) > 5
    assert np.allclose(held, aggregate, rtol=1e-9, atol=1e-6 * np.abs(held).max())
    dropped = result.events["detail"] == "no masked input"
    assert dropped.sum() > 5


def test_rand_k_sends_the_same_coordinates_of_all(tmp_path: Path) -> None:
    """A tenth of the vector and of its bits; what the server adds up is 0 elsewhere."""
    problem = local(tmp_path, "softmax")
    wire = {"up": {"compressor": {"kind": "rand-k", "count": 2}}, "values": "float64"}
    secrecy = {"kind": "secagg", "clip": 50.0}
    seen = told(problem, {**FEDAVG, "local_steps": 1}, tmp_path, secrecy=secrecy, wire=wire)
    moves = np.diff(np.vstack([np.zeros(problem.dimension), seen.run.models]), axis=0)
    assert {int(np.count_nonzero(move)) for move in moves} <= {1, 2}
    assert len({tuple(np.flatnonzero(move)) for move in moves}) > 2
    masked = {row["payload_bits"] for row in seen.events if row["message"] == "maskedinput"}
    assert masked == {(2 + 1) * 19}


CENSORED = secret("chb", bits=24) | {"fleet": [{"count": 9, **PHONE}], "stop": {"rounds": 12}}


def censored(**block: Any) -> fedsim.Result:
    return fedsim.run(small(**CENSORED | {"secrecy": CENSORED["secrecy"] | block}), check=False)


def senders(result: fedsim.Result, message: str) -> dict[int, set[int]]:
    """Return which clients have sent a message in each round."""
    rows = result.events[(result.events["event"] == "send") & (result.events["message"] == message)]
    numbers = rows["node"].astype(str).str.removeprefix("client-").astype(int)
    return {int(n): set(numbers[rows["round"] == n]) for n in result.rounds["round"][1:]}


def test_silence_is_visible_at_the_level_of_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """A group is silent if all its clients are; the models are those of masked zeros."""
    masked, answer = censored(silence="mask"), clients._answer
    groups, spoke = [{0, 1, 2}, {3, 4, 5}, {6, 7, 8}], defaultdict[int, set[int]](set)

    def answered(client: Any, *others: Any) -> Any:
        spoke[client.state.run].add(client.id)
        return answer(client, *others)

    monkeypatch.setattr(clients, "_answer", answered)
    seen = censored(silence="grouped", group=3)
    assert seen.rounds["objective"].tolist() == masked.rounds["objective"].tolist()
    vectors, notices = (senders(seen, name) for name in ("maskedinput", "notice"))
    for number, sent in vectors.items():
        speaking = [group for group in groups if group & spoke[number]]
        assert sent == set[int]().union(*speaking)
        assert notices[number] == set(range(9))
    assert {len(sent) for sent in vectors.values()} == {0, 3, 6, 9}
    votes = seen.events[seen.events["message"] == "notice"]
    assert set(votes["payload_bits"]) == {32}
    assert (seen.rounds["secrecy_dropouts"][1:] == 0).all()


class Twofold(CensoredHeavyBall):
    """CHB whose clients send a number and a part of another size, too."""

    kind: Literal["twofold"] = "twofold"  # type: ignore[assignment]

    async def handle(self, client: Any, message: Any) -> Any:
        """Return the innovation, a number and two more coordinates; or silence."""
        reply = await super().handle(client, message)
        if not isinstance(reply, Innovation):
            return reply
        more = client.pack(np.array(0.5)), client.pack(np.ones(2))
        return ThreeParts(reply.delta, *more)


@dataclass(frozen=True, slots=True)
class ThreeParts(Innovation):
    """An innovation with two more fields."""

    number: Payload
    more: Payload


@pytest.mark.parametrize("silence", ["mask", "grouped"])
def test_a_masked_zero_has_the_size_of_several_fields(silence: str) -> None:
    block = CENSORED["secrecy"] | {"silence": silence}
    changes = CENSORED | {"secrecy": block, "algorithm": {"kind": "twofold", "step_size": "0.2/L"}}
    result = fedsim.run(small(**changes), blocks=[Twofold], check=False)
    assert result.summary["status"].tolist() == ["done"]
    sent = result.events[result.events["message"] == "maskedinput"]
    assert set(sent["payload_bits"]) == {(10 + 1 + 2) * 28}  # 9 (2^24 - 1) + 1 has 28 bits
    wanted = censored(silence=silence).rounds["objective"]
    assert result.rounds["objective"].tolist() == pytest.approx(wanted.tolist(), rel=1e-6)


def united(kind: str, **more: Any) -> dict[str, Any]:
    block = {"kind": kind, "clip": CLIP * 1000, "bits": 24, "supports": "union"}
    return TOP_K | SHORT | {"secrecy": block | more}


@pytest.mark.parametrize("kind", ["secagg", "lightsecagg"])
def test_top_k_sends_the_union_of_supports(kind: str) -> None:
    """The models are those of top-k without secrecy; the bits are those of the union."""
    plain = fedsim.run(small(**united(kind) | {"secrecy": None}), check=False)
    seen = fedsim.run(small(**united(kind)), check=False)
    assert np.abs(seen.model() - plain.model()).max() < 1e-3 * np.abs(plain.model()).max()
    sent = seen.events[seen.events["event"] == "send"]
    bits = {name: rows["payload_bits"] for name, rows in sent.groupby("message", observed=True)}
    assert set(bits["notice"]) <= {4, 8, 10}  # at most three places of 4 bits, or a bit for each
    sizes = set(bits["maskedinput"] // 27)  # 5 (2^24 - 1) + 1 has 27 bits
    assert sizes > {5, 6, 7}
    assert max(sizes) <= 10
    assert set(bits["inputrequest"]) <= {8 + 32, 10 + 32}


def test_the_consistency_check_is_an_interaction() -> None:
    """Two messages more, with a signature each, and those of all others with the request."""
    plain, seen = (fedsim.run(small(**secret(consistency=asked))) for asked in (False, True))
    assert seen.rounds["objective"].tolist() == plain.rounds["objective"].tolist()
    bits = seen.events[seen.events["event"] == "send"].groupby("message", observed=True)
    first = bits["payload_bits"].first()
    assert first["publickeys"] == 2 * 256 + 512
    assert first["neighbourkeys"] == 4 * (2 * 256 + 512 + 32)
    assert first["consistencyrequest"] == 5 + 32
    assert first["signedlist"] == 512
    assert first["signedunmaskrequest"] == 5 + 32 + 4 * 512
    assert "unmaskrequest" not in first
    assert seen.rounds["t"].iloc[-1] > plain.rounds["t"].iloc[-1]


# What is charged and logged.


def test_every_client_counts_once_in_a_round(tmp_path: Path) -> None:
    result = fedsim.run(small(**secret()), out=tmp_path)
    assert set(result.rounds["cohort"][1:]) == {5}
    sent = result.events[result.events["event"] == "send"]
    assert sent["message"].nunique() == 8
    assert {len(rows) for _, rows in sent.groupby(["round", "message"], observed=True)} == {5}


def test_rounds_below_the_threshold_are_abandoned_and_paid_for(tmp_path: Path) -> None:
    """Two of five are too slow to send their shares by the deadline, which has a row for each."""
    slow = {"device": {"kind": "phone-mid", "speed": "1 Mflop/s"}, "radio": "lte"}
    changes = secret(threshold=0.8) | {
        "fleet": [{"count": 3, **PHONE}, {"count": 2, **slow}],
        "participation": {"kind": "full", "deadline": "2 s"},
        "stop": {"rounds": 4},
    }
    result = fedsim.run(small(**changes), out=tmp_path, check=False)
    abandoned = result.events[result.events["event"] == "abandoned"]
    assert len(abandoned) == 4
    text = "3 of 5 clients have sent shares: 3 clients have answered, 4 are needed"
    assert set(abandoned["detail"]) == {text}
    assert (result.rounds["objective"][1:] == result.rounds["objective"][0]).all()
    assert (result.rounds["bits_up"][1:] > 0).all()


DROPPING: dict[str, dict[str, Any]] = {
    "loss": dict(LOSSY),
    "availability": {
        "fleet": [
            {"count": 9, **PHONE, "availability": {"kind": "markov", "on": "2 s", "off": "0.3 s"}}
        ]
    },
    "battery": {
        "fleet": [
            {"count": 7, **PHONE},
            {"count": 2, **PHONE, "battery": {"capacity": "6 J"}},
        ]
    },
    "deadline": {
        "fleet": [
            {"count": 7, **PHONE},
            {"count": 2, "device": {"kind": "phone-mid", "speed": "30 Mflop/s"}, "radio": "lte"},
        ],
        "participation": {"kind": "full", "deadline": "200 ms"},
    },
}


@pytest.mark.parametrize("cause", DROPPING)
@pytest.mark.parametrize("method", ["fedavg", "chb"])
def test_runs_go_on_without_those_that_drop_out(cause: str, method: str, tmp_path: Path) -> None:
    changes = {"stop": {"rounds": 30}} | secret(method, threshold=0.5) | DROPPING[cause]
    result = fedsim.run(small(**changes), out=tmp_path, check=False)
    rounds = result.rounds
    assert rounds["objective"].iloc[-1] < rounds["objective"].iloc[0]
    skipped = result.events[result.events["event"] == "skipped"]["detail"].astype(str)
    phases = {"no public keys", "no encrypted shares", "no masked input", "no unmasking"}
    lost = skipped[skipped.isin(phases)]
    assert len(lost) or cause == "battery"


PHASES = {
    "no public keys": 0.3,
    "no encrypted shares": 0.6,
    "no notice": 0.7,
    "no masked input": 0.8,
    "no signature": 0.9,
    "no unmasking": 1.0,
}
"""What a client lacks in the first round whose battery has this charge at the start, J."""


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("values", ["counted", pytest.param("exact", marks=NEEDS)])
def test_a_battery_that_ends_between_interactions_has_a_row(phase: str, values: str) -> None:
    """The others' sum goes on, to the bit; the client is in it if only its unmasking is missing."""
    battery = {"battery": {"capacity": f"{PHASES[phase]} J"}}
    block: dict[str, Any] = {"threshold": 0.5, "silence": "grouped", "consistency": True}
    scenario = secret("chb", values=values, **block) | {
        "fleet": [{"count": 6, **PHONE}, {"count": 1, **PHONE, **battery}],
        "stop": {"rounds": 2},
    }
    result = fedsim.run(small(**scenario), check=False)
    rows = result.events[result.events["event"] == "skipped"]
    (row,) = rows[rows["detail"].isin(PHASES)].to_dict("records")
    assert (row["round"], row["node"], row["detail"]) == (1, "client-6", phase)
    assert result.rounds["secrecy_dropouts"].tolist()[1:] == [1, 0]
    assert result.rounds["objective"][1] < result.rounds["objective"][0]


def test_an_abandoned_round_has_its_own_drop_outs() -> None:
    """Nothing is repeated from the last complete round, and nothing carried to the next one."""
    result = fedsim.run(small(**secret(threshold=0.9) | LOSSY), check=False)
    skipped = result.events[result.events["event"] == "skipped"]
    details = skipped["detail"].astype(str)
    lost = skipped[details.str.startswith("no ")].groupby("round").size()
    abandoned = set(result.events[result.events["event"] == "abandoned"]["round"])
    assert len(abandoned) > 3
    for number, dropped, operations in zip(
        *(result.rounds[name][1:] for name in ("round", "secrecy_dropouts", "secrecy_operations")),
        strict=True,
    ):
        assert dropped == lost.get(number, 0)
        assert (operations == 0) == (number in abandoned)


def test_a_re_priced_run_is_the_run(tmp_path: Path) -> None:
    wifi = {"fleet": [{"count": 5, "device": "phone-mid", "radio": "wifi"}]}
    start = {"fleet": [{"count": 5, **PHONE}], "stop": {"rounds": 5}}
    fedsim.run(small(**start, **secret()), out=tmp_path / "lte")
    fresh = fedsim.run(small(**start | wifi, **secret()), out=tmp_path / "wifi")
    again = reprice(tmp_path / "lte", ["fleet.0.radio=wifi"], out=tmp_path / "again")
    assert again.summary["joules"].tolist() == fresh.summary["joules"].tolist()
    assert tables(tmp_path / "again") == tables(tmp_path / "wifi")


def test_without_the_block_nothing_changes(tmp_path: Path) -> None:
    fedsim.run(small(), out=tmp_path / "one")
    fedsim.run(small(secrecy=None), out=tmp_path / "other")
    assert tables(tmp_path / "one") == tables(tmp_path / "other")


# What is refused.


class Nosy(FedAvg):
    """FedAvg whose server looks at single updates."""

    kind: Literal["nosy"] = "nosy"  # type: ignore[assignment]

    def server_step(self, server: Server, replies: list[Reply]) -> Array:  # type: ignore[override]
        """Return the first update."""
        first: Array = replies[0].message.delta.values
        return first.copy()


class Partial(FedAvg):
    """FedAvg whose server adds up some updates only."""

    kind: Literal["partial"] = "partial"  # type: ignore[assignment]

    def server_step(self, server: Server, replies: list[Reply]) -> Array:  # type: ignore[override]
        """Return the sum of all updates but the first."""
        return server.aggregate(replies[1:], "delta")


class Preferring(FedAvg):
    """FedAvg whose server weighs updates as it likes."""

    kind: Literal["preferring"] = "preferring"  # type: ignore[assignment]

    def server_step(self, server: Server, replies: list[Reply]) -> Array:  # type: ignore[override]
        """Return a sum in which the first counts twice."""
        weights = np.ones(len(replies))
        weights[0] = 2.0
        return server.aggregate(replies, "delta", weights)


@pytest.mark.parametrize(
    ("method", "words"),
    [
        (Nosy, "secagg: the server of nosy reads `delta` of single replies"),
        (
            Partial,
            "server of partial adds up `delta` of 4 replies, and there is only the sum of al",
        ),
        (Preferring, "server of preferring weighs `delta` by weights of its own"),
    ],
)
def test_servers_that_need_more_than_the_sum_are_refused_by_name(
    method: type[FedAvg], words: str
) -> None:
    block = secret() | {
        "algorithm": {"kind": method.model_fields["kind"].default, "step_size": 0.001}
    }
    result = fedsim.run(small(**block), blocks=[method], check=False)
    assert result.summary["status"].tolist() == ["failed"]
    assert words in result.summary["reason"][0]


def test_a_number_beyond_the_clip_is_refused_by_name() -> None:
    block = {"algorithm": {"kind": "fednova", "step_size": 0.001, "local_steps": 3}}
    result = fedsim.run(small(**block, secrecy={"kind": "secagg"}), check=False)
    assert "fednova sends the number, 3, which is not within" in result.summary["reason"][0]


RAND_K = {"compressor": {"kind": "rand-k", "count": 2}}
ASYNCHRONOUS = {"participation": {"kind": "asynchronous"}}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"algorithm": {"kind": "fedasync", "step_size": 0.1}, **ASYNCHRONOUS}, "one by one"),
        ({"algorithm": {"kind": "lag-ps", "step_size": "1/L"}}, "down to one client"),
        (ASYNCHRONOUS, "participation.kind: got asynchronous"),
        ({"aggregation": {"kind": "median"}}, "which compares vectors"),
        ({"participation": {"kind": "oort", "count": 3}}, "which judges single replies"),
        ({"participation": {"kind": "uniform", "count": 1}}, "a round has one client"),
        ({"wire": {"up": {"compressor": {"kind": "top-k", "count": 2}}}}, "different coordinates"),
        (
            {"wire": {"up": {"compressor": {"kind": "qsgd"}, "error_feedback": "ef"}}},
            "wire.up.error_feedback: got ef",
        ),
        (
            {
                "wire": {
                    "up": {"compressor": {"kind": "rand-k", "count": 2}, "error_feedback": "ef"}
                }
            },
            "a client does not learn the error of a vector that was not counted",
        ),
        (
            {
                "algorithm": {"kind": "chb", "step_size": "1/L"},
                "secrecy": {"kind": "secagg", "supports": "union", "silence": "mask"},
            },
            "a silent client would be the one without a support",
        ),
        (
            {
                "privacy": {"clip": 1.0, "noise": 1.0, "where": "distributed"},
                "secrecy": {"kind": "secagg", "supports": "union"},
            },
            "clients add noise to all their coordinates",
        ),
        (
            {"secrecy": {"kind": "secagg", "contributors": 2}},
            "contributors: got 2, but supports is common",
        ),
        (
            {
                "algorithm": {"kind": "ef21", "step_size": 0.1},
                "secrecy": {"kind": "secagg", "supports": "union", "contributors": 2},
            },
            "clients of ef21 keep what they have sent",
        ),
        (
            {"secrecy": {"kind": "secagg", "group": 3}},
            "group: got 3, but silence is reveal",
        ),
        (
            {"secrecy": {"kind": "secagg+", "neighbours": 4, "silence": "grouped"}},
            "got 4, whose clients need 12 neighbours",
        ),
        ({"secrecy": {"kind": "secagg+", "neighbours": 4, "consistency": True}}, "consistency"),
        ({"fleet": [{"count": 5, "attack": {"kind": "alie"}}]}, "neither seen by others"),
        (
            {"participation": {"kind": "full", "deadline": "2 s", "late": "keep"}},
            "late masked vector",
        ),
        ({"tiers": [{"count": 2}]}, "which has one server"),
        (
            {
                "algorithm": {"kind": "scaffold", "step_size": 0.1},
                "secrecy": {"kind": "lightsecagg"},
            },
            "send several; use secagg",
        ),
        ({"algorithm": {"kind": "d-psgd", "step_size": 0.1}}, "have no server"),
        (
            {"algorithm": {"kind": "fed-ht", "step_size": 0.1, "sparsity": 3}},
            "use algorithm.sends: differences",
        ),
    ],
)
def test_what_does_not_go_with_it_is_refused_with_its_reason(
    changes: dict[str, Any], words: str
) -> None:
    scenario = small(algorithm={"kind": "fedavg", "step_size": 0.1}) | {
        "secrecy": {"kind": "secagg"},
        **changes,
    }
    if scenario["algorithm"]["kind"] == "d-psgd":
        scenario |= {"network": {"peers": {"kind": "ring"}}}
    with pytest.raises(ScenarioError, match=words):
        load(scenario)


def test_a_share_may_be_written_as_a_ratio() -> None:
    (variant,) = load(small(secrecy={"kind": "secagg", "threshold": "2/3"})).variants
    assert variant.scenario.secrecy is not None
    assert variant.scenario.secrecy.threshold == 2 / 3


def test_messages_have_no_encoding_as_bytes() -> None:
    with pytest.raises(ScenarioError, match=r"secrecy\.kind: got secagg, whose messages have no"):
        fedsim.run(small(secrecy={"kind": "secagg"}), carry="bytes")


@pytest.mark.parametrize("kind", ["secagg", "lightsecagg"])
def test_live_runs_are_refused(kind: str) -> None:
    plan = load(small(secrecy={"kind": kind}))
    with pytest.raises(LiveError, match=f"got {kind}, whose messages have no encoding as bytes"):
        check_live(Builder(plan).build(plan.variants[0], 1))
