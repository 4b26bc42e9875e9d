"""Availability: shares, cycles and files of when clients are online."""

from collections.abc import Callable
from itertools import islice, pairwise, takewhile
from math import cos, inf, pi, sin, sqrt
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import expon, kstest

from fedsim.core.errors import DataError
from fedsim.core.streams import stream
from fedsim.physics.availability import (
    ALWAYS,
    NEVER,
    Availability,
    Intervals,
    MarkovAvailability,
    PresenceLaw,
    read_intervals,
)
from tests.physics.laws import Bernoulli, Markov
from tests.tiers import every

DAY = 86400.0


def drawn(law: PresenceLaw, seed: int) -> tuple[bool, list[float]]:
    """Return the first 4000 toggles of a timeline, or all."""
    online, toggles = law.timeline(np.random.default_rng(seed))
    return online, list(islice(toggles, 4000))


def stays(law: MarkovAvailability, seed: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Return intervals online and offline, each of shape (stays, 2)."""
    online, toggles = drawn(law, seed)
    spans = np.array(list(pairwise([0.0, *toggles])))
    return spans[0 if online else 1 :: 2], spans[1 if online else 0 :: 2]


def test_the_share_of_time_online() -> None:
    law = Markov(on=30.0, off=70.0)
    on, off = stays(law)
    time_on, time_off = np.diff(on).sum(), np.diff(off).sum()
    total = time_on + time_off
    # An alternating renewal process: var(share) = 2 (on off)^2 / ((on + off)^3 T).
    spread = sqrt(2 * (30 * 70) ** 2 / (100**3 * total))
    assert time_on / total == pytest.approx(0.3, abs=4 * spread)


@pytest.mark.parametrize("t", [0.0, 5.0, 400.0])
def test_the_state_is_stationary_from_the_start(t: float) -> None:
    law, clients = Markov(on=30.0, off=70.0), 4000
    count = 0
    for client in range(clients):
        online, toggles = law.timeline(stream(5, "availability", client))
        count += online ^ (sum(1 for _ in takewhile(lambda edge: edge <= t, toggles)) % 2)
    assert count / clients == pytest.approx(0.3, abs=4 * sqrt(0.3 * 0.7 / clients))


def test_stays_are_exponential() -> None:
    on, off = stays(Markov(on=30.0, off=70.0))
    assert kstest(np.diff(on)[:, 0], expon(scale=30).cdf).pvalue > 0.01
    assert kstest(np.diff(off)[:, 0], expon(scale=70).cdf).pvalue > 0.01


@pytest.mark.parametrize("amplitude", [0.5, 1.0])
def test_with_a_daily_cycle_the_integrated_rates_are_exponential(amplitude: float) -> None:
    law = Markov(on=3600.0, off=4 * 3600.0, amplitude=amplitude, phase=20 * 3600.0)
    on, off = stays(law)

    def integrated(t: np.ndarray) -> np.ndarray:
        swing = np.sin(2 * pi * (t - law.phase) / DAY) * DAY / (2 * pi)
        return (t + amplitude * swing) / law.off

    rescaled = integrated(off[:, 1]) - integrated(off[:, 0])
    assert kstest(rescaled, expon.cdf).pvalue > 0.01
    assert kstest(np.diff(on)[:, 0], expon(scale=law.on).cdf).pvalue > 0.01


def test_the_rate_of_return_at_the_peak_and_at_the_trough() -> None:
    law = Markov(on=3600.0, off=4 * 3600.0, amplitude=0.8, phase=20 * 3600.0)
    assert law.rate(law.phase) == pytest.approx(1.8 / law.off)
    assert law.rate(law.phase + DAY / 2) == pytest.approx(0.2 / law.off)
    _, off = stays(law)
    window = DAY / 24  # on either side of the extreme
    for centre, sign in ((law.phase, 1), (law.phase + DAY / 2, -1)):
        days = np.arange(off[-1, 1] // DAY)[:, None] * DAY + centre
        late = np.minimum(off[:, 1], days + window)
        exposure = np.maximum(late - np.maximum(off[:, 0], days - window), 0).sum()
        returns = (np.abs(off[:, 1] - days) < window).sum()
        # The mean of the cosine over the window; the time offline is nearly even within it.
        mean = sin(2 * pi * window / DAY) / (2 * pi * window / DAY)
        expected = (1 + sign * 0.8 * mean) / law.off * exposure
        assert returns == pytest.approx(expected, abs=4 * sqrt(expected))
        assert cos(2 * pi * window / DAY) < mean < 1


@given(st.floats(1, 1e4), st.floats(1, 1e4), st.floats(0, 1), st.integers(0, 2**32))
def test_toggles_rise_without_end(on: float, off: float, amplitude: float, seed: int) -> None:
    law = Markov(on, off, amplitude, period=1000.0)
    _, toggles = law.timeline(np.random.default_rng(seed))
    times = [0.0, *islice(toggles, 50)]
    assert times == sorted(times)
    assert len(times) == 51
    assert times[-1] < inf


def test_the_first_stay_begins_at_time_0() -> None:
    first = [next(Markov(1e-3, 1e-3).timeline(stream(1, client))[1]) for client in range(20)]
    assert max(first) < 0.1


def test_who_is_always_there_never_toggles() -> None:
    for law in (ALWAYS, Bernoulli(0.3)):
        assert drawn(law, 0) == (True, [])
    assert drawn(NEVER, 0) == (False, [])


def test_intervals_toggle_at_their_edges() -> None:
    assert drawn(Intervals((0.0, 10.0), (5.0, 20.0)), 0) == (True, [5.0, 10.0, 20.0])
    assert drawn(Intervals((1.0,), (5.0,)), 0) == (False, [1.0, 5.0])
    assert drawn(Intervals((1.0, 5.0), (5.0, 6.0)), 0) == (False, [1.0, 6.0])  # at 5 s, nothing
    assert drawn(Intervals((1.0,), (inf,)), 0) == (False, [1.0])


@every(
    ("begins", "ends"),
    [((1.0,), (1.0,)), ((5.0,), (1.0,)), ((0.0, 4.0), (5.0, 6.0)), ((-1.0,), (2.0,))],
)
def test_what_are_no_intervals_is_refused(
    begins: tuple[float, ...], ends: tuple[float, ...]
) -> None:
    with pytest.raises(ValueError, match="interval"):
        Intervals(begins, ends)


@every(
    "law",
    [
        lambda: MarkovAvailability.in_si(on=0.0, off=1.0),
        lambda: MarkovAvailability.in_si(on=1.0, off=inf),
        lambda: MarkovAvailability.in_si(on=1.0, off=1.0, amplitude=1.5),
        lambda: MarkovAvailability.in_si(on=1.0, off=1.0, period=0.0),
        lambda: Bernoulli(0.0),
        lambda: Bernoulli(1.5),
    ],
)
def test_what_is_no_availability_is_refused(law: Callable[[], Availability]) -> None:
    with pytest.raises(ValueError, match="got"):
        law()


def written(folder: Path, text: str) -> Path:
    path = folder / "online.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_intervals_are_read_for_each_client_in_any_order(tmp_path: Path) -> None:
    path = written(tmp_path, "client,start,end\n2,10,inf\n0,100,200\n0,0,50\n2,0,5.5\n")
    assert read_intervals(path) == {
        0: Intervals((0.0, 100.0), (50.0, 200.0)),
        2: Intervals((0.0, 10.0), (5.5, inf)),
    }


def test_an_interval_may_begin_as_the_last_one_ends(tmp_path: Path) -> None:
    path = written(tmp_path, "0,0,5\n0,5,9\n")
    assert drawn(read_intervals(path)[0], 0) == (True, [9.0])


def test_a_header_may_order_the_columns_and_need_not_be(tmp_path: Path) -> None:
    expected = {3: Intervals((1.0,), (2.0,))}
    assert read_intervals(written(tmp_path, "start,end,client\n1,2,3\n")) == expected
    assert read_intervals(written(tmp_path, "3,1,2\n")) == expected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("client,start,end\n0,5,5\n", ["line 2", "must end after it starts", "'0,5,5'"]),
        ("0,0,9\n1,0,2\n0,8,10\n", ["line 3", "before the interval of line 1 ends", "'0,8,10'"]),
        ("0,8,10\n0,0,9\n", ["line 1", "line 2 ends"]),
        ("0,-1,5\n", ["line 1", "a start"]),
        ("0,nan,5\n", ["line 1", "a start"]),
        ("0,1,nan\n", ["line 1", "end after"]),
        ("1.5,0,1\n", ["line 1", "whole number"]),
        ("-1,0,1\n", ["line 1", "whole number"]),
        ("inf,0,1\n", ["line 1", "whole number"]),
        ("0,1\n", ["line 1", "client, start, end"]),
        ("0,0,1\n\n0,two,3\n", ["line 3", "in numbers", "'0,two,3'"]),
        ("client,start,end\n", ["no row"]),
    ],
)
def test_faults_in_a_file_name_the_line(text: str, words: list[str], tmp_path: Path) -> None:
    path = written(tmp_path, text)
    with pytest.raises(DataError) as caught:
        read_intervals(path)
    assert all(word in str(caught.value) for word in [str(path), *words])
    assert caught.value.key == "intervals"
