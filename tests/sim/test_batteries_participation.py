"""Batteries and rounds: who is skipped, whom the server waits for, and when nobody is left."""

from typing import Any

import pytest

from fedsim.physics.batteries import Battery
from fedsim.physics.signals import Constant, Steps
from fedsim.protocol.stopping import Stop
from tests.policies import participation_of
from tests.sim.devices import device_of
from tests.tiers import every

from .physical import battery, member, online, spans, told
from .worlds import Run, play, rounds, setup, working

RESTLESS = device_of(speed=1.0, active=3.0, idle=1.0)
"""3 W while it works, 1 W while it does not."""


def committing(seconds: float, *stores: Battery | None, **parts: Any) -> Run:
    """Hold rounds in which all work for so long, until the run ends."""
    members = [member(store, device=RESTLESS) for store in stores]
    return play(setup(rounds, working(seconds), members, **parts))


def test_who_has_less_than_the_threshold_is_skipped() -> None:
    low = battery(100.0, charge=0.4, threshold=0.5)
    run = committing(1.0, low, battery(100.0), stop=Stop(rounds=2))
    assert told(run, "skipped", "t", "node", "round", "detail") == [
        (0.0, "client-0", 1, "charge too low"),
        (1.0, "client-0", 2, "charge too low"),
    ]
    assert [row["cohort"] for row in run.rounds] == [1, 1]


def test_a_policy_may_ask_for_more_charge_than_the_battery_does() -> None:
    stores = [battery(100.0, charge=share, threshold=0.25) for share in (0.2, 0.3, 0.5, 0.7)]
    policy = participation_of(least_charge=0.5)
    run = committing(1.0, *stores, participation=policy, stop=Stop(rounds=1))
    assert told(run, "skipped", "node") == [("client-0",), ("client-1",)]
    policy = participation_of(least_charge=0.1)
    run = committing(1.0, *stores, participation=policy, stop=Stop(rounds=1))
    assert told(run, "skipped", "node") == [("client-0",)]


def test_who_falls_below_the_threshold_amid_a_round_goes_on_and_is_skipped_in_the_next() -> None:
    low = battery(100.0, charge=0.52, threshold=0.5)
    run = committing(4.0, low, battery(100.0), stop=Stop(rounds=2))
    assert spans(run, "compute", 0) == [(0.0, 4.0)]
    assert [row["cohort"] for row in run.rounds] == [2, 1]


def test_the_dead_are_skipped_as_dead() -> None:
    run = committing(4.0, battery(6.0), battery(100.0), stop=Stop(rounds=2))
    assert told(run, "depleted", "t") == [(2.0,)]
    assert told(run, "skipped", "t", "detail") == [(4.0, "battery empty")]


@pytest.mark.parametrize("least", [0.0, 0.5, 0.7])
def test_the_server_waits_until_the_charge_is_reached_to_the_instant(least: float) -> None:
    # 2 W in, 1 W out at rest: 25 J rise to 0.3 or whatever is asked for.
    store = battery(100.0, charge=0.25, threshold=0.3, source=Constant(2.0))
    policy = participation_of(least_charge=least)
    run = committing(4.0, store, participation=policy, stop=Stop(rounds=2))
    first = 100 * max(least, 0.3) - 25.0
    # Four seconds at 3 W cost 4 J of charge, which take 4 s to come back.
    assert run.times("round") == pytest.approx([first + 4.0, first + 12.0], rel=1e-12)
    assert run.of("skipped") == []


def test_the_server_waits_for_a_restart_to_the_instant() -> None:
    store = battery(8.0, restart=0.5, source=Constant(1.0))
    run = committing(6.0, store, stop=Stop.in_si(time=14.0))
    # 2 W net empty it in 4 s; it starts again after 4 s more, and dies within 2 s.
    assert told(run, "depleted", "t") == [(4.0,), (10.0,)]
    assert spans(run, "compute") == [(0.0, 4.0), (8.0, 10.0)]
    assert run.times("round") == [4.0, 10.0]  # over without a reply


@every("joules", [40.0, 43.0, 81.0, 86.0, 91.0])
def test_a_client_that_restarts_at_its_threshold_is_asked_though_rounding_says_less(
    joules: float,
) -> None:
    # 0.2 * 43 / 43 is less than 0.2 in floating point. At rest it would fall from there.
    store = battery(joules, cutoff=0.05, threshold=0.2, restart=0.2, source=Constant(0.5))
    run = committing(1e6, store, stop=Stop.in_si(rounds=3, time=1e4))
    assert run.reason == "rounds: 3 of 3"
    assert len(run.of("depleted")) == 3
    assert len(run.of("compute")) == 3


def test_nobody_is_left_where_all_batteries_are_empty_and_nothing_charges_them() -> None:
    run = committing(4.0, battery(6.0), battery(9.0))
    assert run.reason == "no client can take part any more: battery empty (2)"
    assert (run.t, run.error) == (3.0, None)


def test_nobody_is_left_where_the_rest_is_too_low_for_ever() -> None:
    low = battery(100.0, charge=0.4, threshold=0.5)
    run = committing(4.0, low, battery(6.0), battery(100.0, charge=0.3, threshold=0.6))
    low_charges = "charge too low (2; threshold 50 % to 60 %)"
    assert run.reason == f"no client can take part any more: {low_charges}, battery empty (1)"
    assert run.t == 2.0


def test_a_charger_that_cannot_keep_up_with_the_leak_is_no_hope() -> None:
    store = battery(6.0, leak=0.5, charge_efficiency=0.5, source=Constant(1.0))
    run = committing(4.0, store)
    assert run.reason == "no client can take part any more: battery empty (1)"


def test_a_charger_may_begin_late() -> None:
    late = Steps([0.0, 100.0], [0.0, 8.0])
    run = committing(2.0, battery(6.0, charge=0.5, source=late), stop=Stop(rounds=2))
    assert told(run, "depleted", "t") == [(1.0,)]
    assert told(run, "charged", "t") == [(100.375,)]
    assert run.times("round") == [1.0, 102.375]


def test_a_harvest_that_ends_is_no_hope_once_it_has_ended() -> None:
    once = Steps([0.0, 10.0, 12.0], [0.0, 4.0, 0.0])
    run = committing(2.0, battery(6.0, charge=0.5, source=once))
    # Dead at 1 s; 8 J by 12 s start it again at 10.75 s, and the rest is spent.
    assert run.reason == "no client can take part any more: battery empty (1)"
    assert told(run, "charged", "t") == [(10.75,)]
    assert run.t > 12.0


# Daylight of 6 W on 4 of every 12 s: 2 W on the mean, less than the 3 W it idles on.
DAYLIGHT = Steps([0.0, 4.0], [6.0, 0.0], period=12.0)
IDLER = device_of(speed=1.0, active=3.0, idle=3.0)


def test_a_level_that_is_only_reached_by_day_is_waited_for() -> None:
    store = battery(10.0, charge=0.1, threshold=0.8, restart=0.2, source=DAYLIGHT)
    members = [member(store, device=IDLER)]
    run = play(setup(rounds, working(4.0), members, stop=Stop(rounds=2)))
    # By day it rises by 3 W, from 1 J on the first; the second finds it dead, to restart at 2 J.
    assert told(run, "depleted", "t") == [(pytest.approx(4.0 + 10.0 / 3.0),)]
    assert told(run, "charged", "t") == [(pytest.approx(12.0 + 2.0 / 6.0),)]
    begins = [begin for begin, _ in spans(run, "compute")]
    assert begins == pytest.approx([7.0 / 3.0, 12.0 + 2.0 / 6.0 + 6.0 / 3.0], rel=1e-12)


def test_a_level_that_no_day_reaches_is_no_hope() -> None:
    store = battery(100.0, charge=0.01, threshold=0.8, restart=0.02, source=DAYLIGHT)
    run = play(setup(rounds, working(1.0), [member(store, device=IDLER)]))
    assert run.reason == "no client can take part any more: charge too low (1; threshold 80 %)"
    assert run.t == 0.0


@pytest.mark.parametrize(("most", "when"), [(1, 2.0), (2, 3.0), (3, 4.0)])
def test_a_run_may_end_as_so_many_batteries_are_empty(most: int, when: float) -> None:
    stores = [battery(joules) for joules in (9.0, 12.0, 6.0, 99.0)]
    run = committing(50.0, *stores, stop=Stop.in_si(batteries=most))
    assert (run.t, run.reason) == (when, f"batteries: {most} are empty")
    assert len(run.of("depleted")) == most


def test_batteries_that_are_charged_again_are_not_empty() -> None:
    store = battery(6.0, source=Constant(1.0))
    run = committing(50.0, store, battery(30.0), battery(31.5), stop=Stop.in_si(batteries=2))
    # The first one is empty from 3 to 6 s, and alive when the second one dies at 10 s.
    assert told(run, "depleted", "t", "node")[0] == (3.0, "client-0")
    assert run.t == 10.5
    assert run.reason == "batteries: 2 are empty"


def test_who_is_dead_at_the_start_is_skipped_until_it_is_charged() -> None:
    store = battery(10.0, charge=0.0, restart=0.5, source=Constant(2.0))
    run = committing(2.0, store, battery(100.0), stop=Stop(rounds=3))
    assert told(run, "skipped", "t", "detail") == [(0.0, "battery empty"), (2.0, "battery empty")]
    assert told(run, "charged", "t", "duration") == [(2.5, 2.5)]
    assert told(run, "depleted", "t", "node") == [(0.0, "client-0")]
    assert run.world.meters().stores.depletions.tolist() == [1, 0]
    assert run.world.meters().idle_joules.tolist() == [3.5, 6.0]


def test_a_fleet_that_is_dead_at_the_start_ends_at_once_or_waits_for_its_charger() -> None:
    run = committing(2.0, battery(10.0, charge=0.0))
    assert (run.t, run.reason) == (0.0, "no client can take part any more: battery empty (1)")
    store = battery(10.0, charge=0.0, restart=0.5, source=Constant(2.0))
    run = committing(1.0, store, stop=Stop(rounds=1))
    assert run.times("round") == [3.5]


def test_the_dead_at_the_start_count_for_the_end() -> None:
    stores = battery(10.0, charge=0.0), battery(100.0)
    run = committing(2.0, *stores, stop=Stop.in_si(batteries=1))
    assert (run.t, run.reason) == (0.0, "batteries: 1 are empty")


def test_who_is_offline_dead_and_low_by_turns_is_named_for_what_it_is_at_the_end() -> None:
    members = [
        member(battery(6.0), device=RESTLESS),
        member(None, online(0.0, 1.0)),
        member(battery(9.0), online(0.0, 1.0), device=device_of()),
    ]
    run = play(setup(rounds, working(4.0), members))
    assert run.reason == "no client can take part any more: battery empty (1), offline (2)"
