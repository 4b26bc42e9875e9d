"""The stages of a radio between two messages: when it is heard, and NB-IoT's as closed forms."""

from collections.abc import Sequence
from itertools import accumulate
from math import inf
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.addons.robustness.exchange import wake
from fedsim.physics.radios import NB_IOT, Connection, NarrowbandRadio, RadioStage, States
from fedsim.physics.radios.stages import connect, reception_time, stage_records
from fedsim.sim.arrays.paging import reception_times
from tests.tiers import every

NAMES = list(NB_IOT)
DAY = 86400.0


def radio(kind: str, **figures: str | int) -> NarrowbandRadio:
    return NarrowbandRadio.model_validate({"kind": kind, **figures})


def joules(law: NarrowbandRadio, period: float, sent: float) -> float:
    """Return the energy of a period with one message up, by the law's own stages, J.

    Args:
        law: the radio.
        period: from one message to the next, s; longer than all stages but the last.
        sent: bits of the message.
    """
    *tail, rest = law.states.stages
    up = law.rates({}).up.constant
    assert up is not None
    extra = rest.wake_time * rest.wake_power + law.draw.send * sent / up
    return law.resting * period + extra + sum(stage.power * stage.time for stage in tail)


stages = st.builds(
    RadioStage,
    time=st.integers(1, 40).map(float),
    cycle=st.sampled_from([0.0, 0.5, 1.0, 3.0, 64.0]),
)


@given(
    st.lists(stages, max_size=3), st.sampled_from([0.0, 2.0, 7.0]), st.integers(0, 400), st.data()
)
def test_a_message_is_heard_at_the_first_occasion_and_no_later_than_the_longest_wait(
    passing: list[RadioStage], cycle: float, quarter: int, data: st.DataObject
) -> None:
    states = States((RadioStage(time=4.0), *passing, RadioStage(cycle=cycle)))
    number = data.draw(st.integers(0, len(states.stages) - 1))
    now = quarter / 4
    now = min(now, states.stages[number].time)
    heard = reception_time(states.stages, number, 0.0, now)
    # By hand: walk through all occasions of all stages, in steps of a quarter of a second.
    since = 0.0
    for stage in states.stages[number:]:
        at = max(now, since)
        while at <= min(since + stage.time, 1e4):
            age = at - since
            if not stage.cycle or (age > 0 and age % stage.cycle == 0):
                assert heard == at
                assert heard - now <= states.longest_wait
                return
            at += 0.25
        since += stage.time
    raise AssertionError("the last stage hears at some time")


lasting = st.tuples(st.integers(0, 40), st.sampled_from([0.0, 0.5, 1.0, 3.0, 64.0]))
worlds = st.lists(
    st.tuples(
        st.tuples(lasting, lasting),
        st.sampled_from([0.0, 2.0, 7.0]),
        st.integers(0, 3),
        st.integers(0, 400),
    ),
    min_size=1,
    max_size=6,
)


@given(worlds)
def test_many_radios_are_each_heard_as_one_is_and_pass_its_stages(drawn: list[Any]) -> None:
    """The law in kernels, on records, beside Python on objects, and beside a loop."""
    every = [
        (
            RadioStage(power=3.0, time=4.0),
            RadioStage(2.0, float(first[0]), first[1], 0.5, 6.0),
            RadioStage(1.0, float(second[0]), second[1], 0.25, 5.0),
            RadioStage(cycle=cycle, wake_time=1.5, wake_power=7.0),
        )
        for (first, second), cycle, _, _ in drawn
    ]
    number = np.array([stage for _, _, stage, _ in drawn])
    now, since = np.array([quarter / 4 for *_, quarter in drawn]), np.zeros(len(drawn))
    records = stage_records(every)
    heard = reception_times(records, np.arange(len(drawn)), number, since, now)
    for paged in (False, True):
        began, spent = np.zeros((2, len(drawn), 1))
        column = since[:, None]
        figures = records[:, None]
        wake(figures, number[:, None], column, now[:, None], column, paged, began, spent)
        for place, stages in enumerate(every):
            stage, start, joules, until = int(number[place]), 0.0, 0.0, float(now[place])
            assert heard[place] == reception_time(stages, stage, start, until)
            ready, awake, drawn_joules = connect(stages, stage, start, until, paged)
            joules = drawn_joules + stages[0].power * (ready - awake)
            assert [began[place, 0], spent[place, 0]] == [ready, joules]
            until = (
                reception_time(stages, *_passed(stages, stage, until)[:2], until)
                if paged
                else until
            )
            stage, start, joules = _passed(stages, stage, until)
            if stage:
                joules += stages[stage].power * (until - start)
                joules += stages[stage].wake_time * stages[stage].wake_power
                until = start = until + stages[stage].wake_time
            assert (ready, awake, drawn_joules) == pytest.approx((until, start, joules), rel=1e-12)


def _passed(stages: Sequence[RadioStage], number: int, until: float) -> tuple[int, float, float]:
    """Return the stage of a radio at a time, its begin, and the energy of all stages before it."""
    ends = [*accumulate((stage.time for stage in stages[number:]), initial=0.0)]
    over = sum(end < until for end in ends[1:])
    before = stages[number : number + over]
    return number + over, ends[over], sum(stage.power * stage.time for stage in before)


def test_a_radio_without_stages_of_its_own_has_its_tail_and_is_idle() -> None:
    states = Connection.in_si(
        promotion_power=8.0, promotion_time=2.0, tail_power=0.5, tail_time=4.0
    ).as_states
    assert states.stages == (RadioStage(0.5, 4.0), RadioStage(0.0, inf, 0.0, 2.0, 8.0))
    assert states.stateful
    assert not Connection().as_states.stateful


@every("period", [60.0, 3600.0, DAY])
@every("sent", [8, 4096, 10**6])
def test_the_energy_of_a_period_is_the_sum_of_powers_by_durations(period: float, sent: int) -> None:
    law = radio("nb-iot-edrx")
    # By hand: 792, 165.6, 21.6 and 0.0108 mW; 46 mA for 5 ms in 2.048 s, for 50 ms in 20.48 s.
    paged = 1.08e-5 + (0.1656 - 1.08e-5) * 0.05 / 20.48
    waiting = 0.0216 + (0.1656 - 0.0216) * 0.005 / 2.048
    busy = sent / 30e3
    by_hand = (
        0.792 * busy
        + 0.25 * 0.35
        + 0.1656 * 0.2
        + waiting * 9.8
        + paged * (period - busy - 0.35 - 10)
    )
    if period > busy + 10.35:
        assert joules(law, period, sent) == pytest.approx(by_hand, rel=1e-12)


def test_in_psm_a_day_costs_its_updates_and_what_sleeping_costs() -> None:
    law = radio("nb-iot-psm", tau="1 h")
    paging = 0.0216 + (0.1656 - 0.0216) * 0.005 / 2.56
    update = 0.35 * 0.25 + 1.0 * 0.1656 + 20 * paging
    by_hand = 24 * update + 1.08e-5 * (DAY - 24 * (0.35 + 1 + 20))
    assert law.resting * DAY == pytest.approx(by_hand, rel=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_rest_draws_nothing_beyond_itself_and_no_state_less(name: str) -> None:
    law = radio(name)
    assert law.idle <= law.resting < law.receive < law.send
    assert law.states.stages[-1].power == 0
    assert all(stage.power >= 0 for stage in law.states.stages)
    assert law.draw.send + law.resting == pytest.approx(law.send, rel=1e-12)


def test_the_stages_of_an_open_implementation_of_andres_maldonados_model() -> None:
    """Ye, NBIoTEnergyModel, config.py and calcStatesEnergy: mJ a visit of each state.

    19.8 mW idle and 151.8 mW receiving; 200 ms active; a long cycle of 2049 ms asleep and 5 ms on.
    Its 4 whole cycles of 10 s leave 1.58 s out, which a mean power has in it.
    """
    law = radio("nb-iot-edrx", receive="151.8 mW", doze="19.8 mW", drx_cycle="2.054 s",
                idle="9.9 uW", between="9.9 uW", paging_on="0 s")  # fmt: skip
    listening, waiting, _ = law.states.stages
    active = (listening.power + law.resting) * listening.time
    cycle = (waiting.power + law.resting) * waiting.cycle
    assert active == pytest.approx(30.3600e-3, rel=1e-9)
    assert cycle == pytest.approx(41.3292e-3, rel=1e-9)
    assert active + 4 * cycle == pytest.approx(195.677e-3, rel=1e-5)
    whole = active + (waiting.power + law.resting) * (4 * 2.054)
    assert whole == pytest.approx(195.677e-3, rel=1e-5)


@every(
    ("current", "on", "off", "mean"),
    [
        (73.6, 12.8, 4.0, 56.1),
        (72.0, 56.0, 200.0, 15.8),
        (70.4, 12.0, 4.0, 52.8),
        (66.4, 80.0, 180.0, 20.4),
    ],
)  # fmt: skip
def test_connected_drx_as_two_modules_were_measured_on_two_networks(
    current: float, on: float, off: float, mean: float
) -> None:
    """Robinson, 2019, table of C-DRX values: mA at the peaks, ms on and off."""
    law = radio("nb-iot-edrx", receive=f"{current * 3.6} mW", doze="0 W", idle="0 W", between="0 W",
                paging_on="0 s", drx_cycle=f"{on + off} ms", drx_on=f"{on} ms")  # fmt: skip
    assert law.states.stages[1].power / 3.6 * 1e3 == pytest.approx(mean, abs=0.06)


def test_packet_size_hardly_matters_and_the_paging_interval_does() -> None:
    """Michelinakis et al., IEEE IoT Journal 8(2), 2021: what they observe, as a law.

    From 1 byte to 512 bytes a message costs a third more where a connected device listens every
    two seconds, and 8 % more where it hardly ever dozes, as on a network of Robinson's. That
    costs more than three times as much.
    """

    def cost(size: int, cycle: str, on: str) -> float:
        law = radio("nb-iot-edrx", drx_cycle=cycle, drx_on=on)
        return joules(law, 60.0, 8 * (size + 40)) - law.resting * 60.0

    seldom, often = ("2.048 s", "12.8 ms"), ("16.8 ms", "12.8 ms")
    assert cost(512, *seldom) < 1.4 * cost(1, *seldom)
    assert cost(512, *often) < 1.1 * cost(1, *often)
    assert cost(1, *often) > 3 * cost(512, *seldom)


def test_coverage_repeats_what_is_sent_and_the_resumption() -> None:
    once, often = radio("nb-iot-psm"), radio("nb-iot-psm", repetitions=16)
    assert often.rates({}).up.constant == once.up / 16
    assert often.rates({}).down.constant == once.down / 16
    waking = [law.states.stages[2].wake_time for law in (once, often)]
    assert waking[1] == 16 * waking[0]


def test_a_battery_of_5_wh_lasts_38_years_asleep_and_10_hours_sending() -> None:
    """3GPP TR 45.820 by way of Sauter, From GSM to LTE-Advanced Pro and 5G: 0.015 and 500 mW."""
    law = radio("nb-iot-edrx", idle="0.015 mW", between="0.015 mW", paging_on="0 s", send="500 mW")
    hours = 5 / law.resting, 5 / (law.draw.send + law.resting)
    assert hours[0] / 24 / 365.25 == pytest.approx(38, rel=0.005)
    assert hours[1] == pytest.approx(10, rel=1e-9)
