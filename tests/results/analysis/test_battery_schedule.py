"""Trainings at a fixed interval: a count in steps, a run with pauses, and what `compare` prints."""

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner, Result

import fedsim
from fedsim.cli import app
from fedsim.extend import Algorithm, Client, Message, Payload, Server
from fedsim.results.analysis import battery_lives
from fedsim.results.analysis.battery_schedule import interval, lifetimes, schedule
from tests.runs import small

ROUNDS = 3
"""Of a training."""


def by_steps(every: float, training: float, per_charge: float, idle: float) -> tuple[int, float]:
    """Take power from a battery step by step: a training, a pause, a training."""
    charge, time, count = 1.0, 0.0, 0
    while True:
        if charge < 1 / per_charge:
            return count, time + charge * per_charge * training
        charge, time, count = charge - 1 / per_charge, time + training, count + 1
        if charge < (every - training) / idle:
            return count, time + charge * idle
        charge, time = charge - (every - training) / idle, time + every - training


@given(st.floats(1, 100), st.floats(0.05, 0.95), st.floats(0.3, 50), st.floats(0.1, 1000))
def test_it_is_what_a_battery_supplies_step_by_step(
    every: float, share: float, per_charge: float, idle: float
) -> None:
    training = share * every
    count, seconds = lifetimes(every, *np.array([[training], [per_charge], [idle * every]]))
    steps, time = by_steps(every, training, per_charge, idle * every)
    assert seconds[0] == pytest.approx(time, rel=1e-6)
    if abs(steps - count[0]) > 0:  # the last training ends as the battery does
        assert steps + 1 == count[0]
        assert time == pytest.approx((count[0] - 1) * every + training, rel=1e-6)


def test_without_idle_power_a_charge_is_enough_for_its_whole_trainings() -> None:
    count, seconds = lifetimes(10.0, *np.array([[2.0, 2.0], [2.5, np.inf], [np.inf, np.inf]]))
    assert count.tolist() == [2, np.inf]
    assert seconds.tolist() == [20 + 0.5 * 2, np.inf]


@dataclass(frozen=True, slots=True)
class Vector(Message):
    v: Payload


class Daily(Algorithm):
    """Gradient descent of some rounds at a time, with a pause after them."""

    kind: Literal["daily"] = "daily"
    weighs_losses: ClassVar[bool] = True
    source: ClassVar[str] = "this test"
    step_size: float
    pause: float = 0.0

    async def serve(self, server: Server) -> None:
        w = server.initial
        while True:
            for _ in range(ROUNDS):
                replies = await server.exchange(Vector(server.pack(w)))
                w = w - self.step_size * server.aggregate(replies, "v")
                server.commit(w)
            await asyncio.sleep(self.pause)

    async def handle(self, client: Client, message: Vector) -> Vector:
        gradient = await client.compute(client.oracle.gradient(message.v.values))
        return Vector(client.pack(client.weight * gradient))


DEVICE = {"kind": "custom", "speed": "10 kflop/s", "active": "3 W", "idle": "20 mW"}


def daily(capacity: str, pause: float, stop: dict[str, Any]) -> dict[str, Any]:
    battery = {"capacity": capacity, "cutoff": "10 %", "threshold": "10 %"}
    device = DEVICE | {"battery": capacity}
    fleet = [{"count": 2, "device": device, "radio": "ideal", "battery": battery}]
    method = {"kind": "daily", "step_size": 1e-4, "pause": pause}
    return small(algorithm=method, fleet=fleet, stop=stop)


@pytest.mark.parametrize("capacity", ["200 J", "225 J", "300 J"])
def test_a_run_with_pauses_ends_as_a_run_of_one_training_foretells(capacity: str) -> None:
    """Also where the battery is empty in a pause, and where it is in a training."""
    once = fedsim.run(daily(capacity, 0.0, {"rounds": ROUNDS}), blocks=[Daily])
    (training,) = once.summary["t"]
    pause = 300.0
    (foretold, _) = schedule(battery_lives(once), training + pause).to_dict("records")
    whole = fedsim.run(
        daily(capacity, pause, {"rounds": 10_000, "batteries": 1}), blocks=[Daily], check=False
    )
    (empty, _) = battery_lives(whole).to_dict("records")
    assert empty["empty_s"] == pytest.approx(foretold["lasts_s"], rel=1e-6)
    rounds = np.flatnonzero(whole.rounds["round"] % ROUNDS == 0)[-1]
    assert whole.rounds["round"].iloc[rounds] / ROUNDS == foretold["trainings"] > 1


@pytest.fixture(scope="module")
def phones(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("phones") / "out"
    battery = {"charge": "10 %", "threshold": "5 %"}
    fleet = [{"count": 2, "device": "phone-mid", "radio": "lte", "battery": battery}]
    fedsim.run(small(fleet=fleet, stop={"rounds": 3}), out=out)
    return out


def compared(*words: str | Path) -> Result:
    return CliRunner().invoke(app, ["compare", *map(str, words)])


@pytest.mark.slow
def test_compare_prints_trainings_and_the_reason_of_a_short_life(phones: Path) -> None:
    printed = " ".join(compared(phones, "--every", "1 day").stdout.split())
    lives = battery_lives(fedsim.open(phones))
    first, run = lives["lasts_idle_s"].iloc[0], lives["run_s"].iloc[0]
    hours = (run + (1 - 1 / lives["lasts_runs"].iloc[0]) * first) / 60
    assert f"one training, the battery lasts {hours:.3g} min: the device takes 368 mW" in printed
    assert "as if it stayed awake; asleep at 20 mW" in printed
    assert "n / (trainings of a charge without pauses) + (n - 1) (P - T) / (idle life)" in printed
    assert "one training" not in compared(phones, "--every", "2 min").stdout


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (["--every", "daily"], 'give a duration, such as "1 day"'),
        (["--every", "0 s"], "give a duration"),
        (["--every", "1 h", "--csv"], "leave out the option of one output"),
    ],
)
def test_an_interval_that_is_none_is_refused(words: list[str], fault: str, phones: Path) -> None:
    said = compared(phones, *words)
    assert said.exit_code == 2
    assert fault in " ".join(said.stderr.split())


def test_a_fleet_without_batteries_has_no_schedule(tmp_path: Path) -> None:
    fedsim.run(small(stop={"rounds": 1}), out=tmp_path)
    said = compared(tmp_path, "--every", "1 day")
    assert (said.exit_code, "no client of these runs has a battery" in said.stderr) == (2, True)


def test_days_and_weeks_are_intervals() -> None:
    assert [interval(text) for text in ("1 day", "2 weeks", "6 h")] == [86_400, 1_209_600, 21_600]


@pytest.mark.slow
def test_the_answer_has_the_counts_of_the_table_of_the_same_interval(tmp_path: Path) -> None:
    """Without an interval it leaves idle power out; with one it must not, beside that table."""
    battery = {"capacity": "100 J", "cutoff": "10 %", "threshold": "10 %"}
    fleet = [{"count": 2, "device": DEVICE, "radio": "ideal", "battery": battery}]
    few = {"stop": {"rounds": 2}}
    fedsim.run(
        small(fleet=fleet, stop={"rounds": 3}, variants={"few": few, "all": {}}), out=tmp_path
    )
    printed = json.loads(compared(tmp_path, "--every", "1 min", "--json").stdout)
    counts = {row["variant"]: f"{row['trainings']:,.0f}" for row in printed["schedule"]}
    alone = {row["variant"]: row for row in printed["batteries"]}
    said = " ".join(compared(tmp_path, "--every", "1 min").stdout.split())
    answer = f"every 60 s, one charge is enough for {counts['few']} trainings with few"
    assert answer in said
    assert f"and {counts['all']} with all (one seed)" in said
    assert "take no power in between" not in said
    unpaused = " ".join(compared(tmp_path).stdout.split())
    assert "if the devices take no power in between" in unpaused
    assert f"enough for {counts['few']} trainings" not in unpaused
    assert int(counts["few"].replace(",", "")) < alone["few"]["lasts_half_runs"]
    own = fedsim.open(tmp_path).compare(every="1 min").frames()["schedule"]
    assert own["trainings"].tolist() == [row["trainings"] for row in printed["schedule"]]
    files = pd.read_csv(tmp_path / "comparison/schedule.csv")
    assert files["trainings"].tolist() == own["trainings"].tolist()
