"""Whole runs under policies that see replies: what is charged, seen, and refused."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import pandas as pd
import pytest

import fedsim
from fedsim.core.ports import ClientId
from fedsim.protocol.participation import (
    ExchangeOutcome,
    Informed,
    KnownFleet,
    Moment,
    Report,
    Selector,
)
from tests import methods
from tests.tiers import every

pytestmark = pytest.mark.filterwarnings("ignore::fedsim.core.errors.TheoryWarning")

CLIENTS, COUNT, ROUNDS = 6, 2, 5
NUMBER = 40
"""The bits of one reported number: a float32 and its tag."""

FLEET = [
    {"count": 3, "device": "phone-mid", "radio": "lte", "battery": {"charge": "50 %"}},
    {"count": 3, "device": "pi-4", "radio": "wifi"},
]


def scenario(kind: str = "uniform", fleet: Any = FLEET, **keys: Any) -> dict[str, Any]:
    made = methods.scenario("fedavg")
    return {
        **made,
        "problem": made["problem"] | {"optimum": "unknown"},
        "wire": {"values": "float32"},
        "fleet": fleet,
        "participation": {"kind": kind, "count": COUNT} | keys,
        "stop": {"rounds": ROUNDS},
    }


def sent(events: pd.DataFrame) -> dict[str, list[int]]:
    """Return the payload bits of all messages that were sent, by name."""
    rows = events[events["event"] == "send"]
    return {str(name): rows["payload_bits"][rows["message"] == name].tolist()
            for name in rows["message"].unique()}  # fmt: skip


@every(
    ("kind", "numbers"),
    [("age", 0), ("oort", 1), ("energy-aware", 2), ("harvest", 2), ("importance", 1)],
)
def test_each_reported_number_is_charged_with_the_reply(kind: str, numbers: int) -> None:
    plain = sent(fedsim.run(scenario()).events)
    (bits,) = set(plain["update"])
    sun = {"kind": "energy-aware", "energy": "harvest"} if kind == "harvest" else {"kind": kind}
    found = sent(fedsim.run(scenario(**sun)).events)
    assert set(found) == {"model", "update"}
    assert set(found["update"]) == {bits + numbers * NUMBER}
    assert set(found["model"]) == set(plain["model"])


def test_candidates_take_a_round_trip_of_their_own() -> None:
    plain = sent(fedsim.run(scenario()).events)
    result = fedsim.run(scenario("power-of-choice", candidates=4))
    found = sent(result.events)
    assert found["model"] == plain["model"][:1] * (4 * ROUNDS)
    assert found["reports"] == [NUMBER] * (4 * ROUNDS)
    assert found["chosen"] == [0] * (COUNT * ROUNDS)
    assert found["update"] == plain["update"][:1] * (COUNT * ROUNDS)
    events = result.events
    sampled = events[events["event"] == "sampled"]
    assert len(sampled) == COUNT * ROUNDS
    chosen = events[(events["event"] == "send") & (events["message"] == "update")]
    assert sorted(zip(sampled["round"], sampled["node"], strict=True)) == sorted(
        zip(chosen["round"], chosen["node"], strict=True)
    )
    assert result.rounds["cohort"].tolist()[-1] in (COUNT, COUNT * ROUNDS)


def test_a_candidate_is_chosen_by_its_report_on_the_model_of_that_round() -> None:
    # Slow clients report after the deadline, to a round that is over.
    slow = {"kind": "custom", "speed": "125 flop/s", "active": "2 W", "idle": "1 W"}
    fleet = [
        {"count": 2, "device": "phone-mid", "radio": "lte"},
        {"count": 4, "device": slow, "radio": "lte"},
    ]
    small = {
        "problem": {
            "loss": {"kind": "squared", "scale": "mean", "l2": 1},
            "data": {"kind": "sklearn", "name": "diabetes", "preprocess": ["standardise"]},
        },
        "algorithm": {"kind": "gd", "step_size": "0.1/L"},
        "fleet": fleet,
        "participation": {
            "kind": "power-of-choice", "count": 2, "candidates": 4, "deadline": "10 s"
        },
        "stop": {"rounds": 12},
    }  # fmt: skip
    events = fedsim.run(small).events
    late = events[events["event"] == "late"]
    assert "reports" in set(late["message"]), "otherwise nothing is shown here"
    arrived = events[events["event"] == "receive"].sort_values("t", kind="stable")
    begun = events[(events["event"] == "exchange") & (events["message"] == "chosen")]
    opened = events[(events["event"] == "exchange") & (events["message"] != "chosen")]
    for t in begun["t"]:
        start = opened["t"][opened["t"] <= t].max()
        chosen = events["node"][(events["event"] == "sampled") & (events["t"] == t)].tolist()
        assert len(set(chosen)) == len(chosen) > 0
        within = (arrived["t"] > start) & (arrived["t"] <= t)
        reported = arrived[within & (arrived["message"] == "reports")]
        refused = set(zip(late["t"], late["node"], strict=True))
        ends = zip(reported["t"], reported["node"], reported["peer"], strict=True)
        timely = {
            one for time, node, peer in ends for one in (node, peer) if (time, one) not in refused
        }
        assert set(chosen) <= timely


def test_as_many_candidates_as_are_chosen_train_the_model_of_a_sample_by_data() -> None:
    weighted = fedsim.run(scenario("weighted", estimate="plain")).rounds
    for losses in ("asked", "last"):
        same = fedsim.run(scenario("power-of-choice", candidates=COUNT, losses=losses)).rounds
        assert same["objective"].tolist() == weighted["objective"].tolist()


class Spying(Selector):
    """Asks the clients in turn, and keeps all that it is shown."""

    outcomes: ClassVar[list[ExchangeOutcome]] = []

    def __init__(self, clients: int) -> None:
        self.clients = clients
        Spying.outcomes.clear()

    def rank(self, moment: Moment, rng: np.random.Generator) -> Iterable[ClientId]:
        return [(moment.number * COUNT + each) % self.clients for each in range(self.clients)]

    def observe(self, outcome: ExchangeOutcome) -> None:
        Spying.outcomes.append(outcome)


class Spy(Informed):
    """A user-defined policy to which clients report all that they can."""

    kind: Literal["spy"] = "spy"
    reports: ClassVar[tuple[Report, ...]] = ("loss", "charge", "harvest", "norm")

    def selector(self, fleet: KnownFleet) -> Selector:
        return Spying(fleet.count)


def test_a_policy_sees_replies_their_times_and_their_reports(tmp_path: Path) -> None:
    written = scenario("spy") | {"models": {"every": 1}}
    result = fedsim.run(written, blocks=[Spy], out=tmp_path)
    outcomes, events = Spying.outcomes, result.events
    assert len(outcomes) == ROUNDS
    for number, outcome in enumerate(outcomes, 1):
        due = {(number * COUNT - COUNT + each) % CLIENTS for each in range(COUNT)}
        assert set(outcome.asked) == set(outcome.clients) == due
        own = events[events["round"] == number]
        begun = float(own["t"][own["event"] == "exchange"].iloc[0])
        came = own[(own["event"] == "receive") & (own["message"] == "update")]
        names = [f"client-{each}" for each in outcome.clients]
        arrived = came.set_index("peer" if "server" in set(came["node"]) else "node")
        due_seconds = (arrived["t"].loc[names] - begun).to_numpy(float)
        assert outcome.seconds == pytest.approx(due_seconds, rel=1e-6)
        charges = np.where(outcome.clients < 3, outcome.reports["charge"], 1.0)
        assert outcome.reports["charge"] == pytest.approx(charges)
        assert all(outcome.reports["charge"][outcome.clients < 3] < 0.5)
        assert (outcome.reports["harvest"] == np.where(outcome.clients < 3, 0.0, 1.0)).all()
    assert all((each.reports["loss"] > 0).all() for each in outcomes)
    assert all((each.reports["norm"] > 0).all() for each in outcomes)


ACTIVE = 4.0
"""W, of a client at work."""


def harvesters(*watts: float) -> list[dict[str, Any]]:
    """Return a fleet of clients whose batteries are charged with these powers, W."""
    return [
        {
            "count": 1,
            "device": {"kind": "pi-4", "active": f"{ACTIVE} W"},
            "radio": "wifi",
            "battery": {
                "capacity": "1 Wh",
                "charge": "50 %",
                "charging": {"kind": "constant", "power": f"{each} W"}
                if each
                else {"kind": "none"},
            },
        }
        for each in watts
    ]


def test_a_harvest_is_reported_as_a_share_of_the_power_at_work() -> None:
    watts = (0.5, 1.0, 2.0, 3.0, 4.0, 8.0)
    fedsim.run(scenario("spy", harvesters(*watts)), blocks=[Spy])
    for outcome in Spying.outcomes:
        due = np.minimum(np.array(watts)[outcome.clients] / ACTIVE, 1.0)
        assert outcome.reports["harvest"] == pytest.approx(due, rel=1e-6)


@pytest.mark.parametrize("oracle", [False, True])
def test_clients_in_the_sun_are_asked(oracle: bool) -> None:
    fleet = harvesters(0.1, 0.1, 0.1, 0.1, 3.0, 3.0)
    keys = {"energy": "harvest", "utility": "0 %", "exploration": "100 %", "decay": 1.0}
    keys |= {"oracle": oracle}
    events = fedsim.run(scenario("energy-aware", fleet, **keys) | {"stop": {"rounds": 8}}).events
    asked = events[(events["event"] == "send") & (events["message"] == "model")]
    peers = asked["peer"].astype(str).where(asked["node"] == "server", asked["node"].astype(str))
    late = set(peers[asked["round"] >= (1 if oracle else 5)])
    assert late == {"client-4", "client-5"}


@every(
    ("kind", "keys"),
    [
        ("oort", {"over": 1.5}),
        ("age", {"quorum": "50 %", "give_up": "5 s", "deadline": "10 ms"}),
        ("power-of-choice", {"candidates": 4, "deadline": "1 s"}),
        ("power-of-choice", {"candidates": 4, "quorum": "50 %"}),
        ("energy-aware", {"deadline": "20 ms", "late": "keep"}),
        ("importance", {"deadline": "20 ms", "late": "drop"}),
    ],
)
def test_policies_go_with_deadlines_quorums_and_clients_that_come_and_go(
    kind: str, keys: dict[str, Any]
) -> None:
    away = {"kind": "markov", "on": "200 ms", "off": "100 ms"}
    fleet = [group | {"availability": away} for group in FLEET]
    if "deadline" not in keys:
        keys |= {} if "quorum" in keys else {"deadline": "1 s"}
    one, same = (fedsim.run(scenario(kind, fleet, **keys)) for _ in range(2))
    assert len(one.rounds) == ROUNDS + 1
    pd.testing.assert_frame_equal(one.events, same.events)


@every(
    ("blocks", "key", "words"),
    [
        ({"algorithm": {"kind": "ef21", "step_size": 0.1}, "participation": {
            "kind": "importance", "count": 2}}, "participation.kind", "does not correct for it"),
        ({"participation": {"kind": "carbon-aware", "count": 2}}, "fleet.0.carbon", "such as DE"),
        ({"participation": {"kind": "power-of-choice", "count": 3, "candidates": 2}},
         "participation.candidates", "fewer than count, 3"),
        ({"participation": {"kind": "power-of-choice", "count": 2, "candidates": 7}},
         "participation.candidates", "the fleet has 6 clients"),
        ({"participation": {"kind": "power-of-choice", "count": 2, "candidates": 3, "over": 2}},
         "participation.over", "candidates take its place"),
        ({"participation": {"kind": "importance", "count": 2, "over": 2}},
         "participation.over", "biased"),
        ({"participation": {"kind": "carbon-aware", "count": 2, "patience": "1 h"}},
         "participation.patience", "without below"),
        ({"algorithm": {"kind": "chb", "step_size": 0.1}, "participation": {
            "kind": "oort", "count": 2}, "problem": {
            "loss": {"kind": "squared", "scale": "sum"}, "data": {"kind": "sklearn", "name":
            "diabetes"}}}, "problem.loss.scale", "mean loss of their samples"),
    ],
)  # fmt: skip
def test_what_a_policy_cannot_have_is_refused(blocks: dict[str, Any], key: str, words: str) -> None:
    with pytest.raises(fedsim.ScenarioError) as caught:
        fedsim.load(scenario() | blocks)
    assert words in {fault.key: fault.message for fault in caught.value.faults}[key]


def test_a_log_is_repriced_where_no_report_or_time_decides(tmp_path: Path) -> None:
    mains = [{"count": CLIENTS, "device": "phone-mid", "radio": "lte"}]
    other = ["fleet.0.radio=nb-iot"]
    fedsim.run(scenario("age", mains), out=tmp_path / "age")
    again = fedsim.reprice(tmp_path / "age", other, out=tmp_path / "again")
    due = fedsim.run(scenario("age", [mains[0] | {"radio": "nb-iot"}]))
    assert again.rounds["t"].tolist() == due.rounds["t"].tolist()
    fedsim.run(scenario("oort", mains), out=tmp_path / "oort")
    with pytest.raises(fedsim.FedsimError, match="decide which clients are asked"):
        fedsim.reprice(tmp_path / "oort", other, out=tmp_path / "no")


def test_an_importance_weighted_step_of_everybody_is_the_plain_mean() -> None:
    """With one client the factor is 1: the step is that of the mean."""
    fleet = [{"count": 1, "device": "phone-mid", "radio": "lte"}]
    plain = fedsim.run(scenario("uniform", fleet, count=1)).rounds
    same = fedsim.run(scenario("importance", fleet, count=1)).rounds
    assert same["objective"].tolist() == plain["objective"].tolist()


def test_rounds_wait_for_a_clean_grid(tmp_path: Path) -> None:
    hours = tmp_path / "grid.csv"
    hours.write_text("time,intensity\n0,500\n1,100\n2,500\n")
    carbon = {"kind": "hourly", "path": str(hours)}
    fleet = [group | {"carbon": carbon} for group in FLEET]
    keys = {"below": "200 g/kWh"}
    rounds = fedsim.run(scenario("carbon-aware", fleet, **keys)).rounds
    assert rounds["t"].iloc[1] > 3600
    plain = fedsim.run(scenario("carbon-aware", fleet)).rounds
    assert plain["t"].iloc[-1] < 3600
