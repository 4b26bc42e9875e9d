"""Rate traces of others: the bits that pass in a window are those that the file speaks of."""

import json
import lzma
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import fedsim
from fedsim.core.errors import DataError
from fedsim.physics.formats.rates import read_lumos, read_monroe, read_pensieve, read_ucc
from tests.tiers import every

UCC = """Timestamp,Longitude,NetworkMode,DL_bitrate,UL_bitrate,State,PINGAVG
2019.12.31_23.59.58,-8.49,5G,1000,10,D,-
2019.12.31_23.59.58,-8.49,5G,3000,30,D,-
2019.12.31_23.59.59,-8.49,5G,8000,0,D,-
2020.01.01_00.00.02,-8.49,LTE,500,4,I,-
"""
LUMOS = """run_num,seq_num,nrStatus,Throughput,mobility_mode
1,1,CONNECTED,100.5,driving
1,2,CONNECTED,0,driving
2,4,NONE,7,walking
1,5,CONNECTED,20,driving
2,6,NONE,9,walking
"""
PENSIEVE = "3.0 99\n3.5 2\n3.5 1000\n5.5\t0.25\n6.0  4\n"

in_a_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def written(folder: Path, text: str) -> Path:
    path = folder / "trace"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_second_of_ucc_has_the_mean_of_its_rows_and_holds_until_the_next(tmp_path: Path) -> None:
    down = read_ucc(written(tmp_path, UCC), "down", repeat=True)
    # 2 Mbit/s for 1 s, 8 Mbit/s for the 3 s over midnight, 0.5 Mbit/s for as long once more.
    assert down.period == 7
    assert down.integral(0, 7) == pytest.approx(2e6 + 3 * 8e6 + 3 * 0.5e6)
    assert [down.at(t) for t in (0, 0.99, 1, 3.99, 4, 7)] == [2e6, 2e6, 8e6, 8e6, 0.5e6, 2e6]
    up = read_ucc(written(tmp_path, UCC), "up", repeat=False)
    assert (up.period, up.integral(0, 10)) == (inf, 20e3 + 6 * 4e3)


def test_the_order_of_the_lines_of_ucc_does_not_matter(tmp_path: Path) -> None:
    head, *rows = UCC.splitlines()
    rate = read_ucc(written(tmp_path, "\n".join([head, *rows[::-1]])), "down", repeat=True)
    assert rate.values.tolist() == [2e6, 8e6, 0.5e6]


def test_a_run_of_lumos_is_read_without_the_others(tmp_path: Path) -> None:
    path = written(tmp_path, LUMOS)
    one, two = (read_lumos(path, run, repeat=True) for run in (1, 2))
    assert (one.period, one.integral(0, one.period)) == (7, 100.5e6 + 3 * 20e6)
    assert (two.period, two.times.tolist(), two.values.tolist()) == (4, [0, 2], [7e6, 9e6])


def test_pensieves_rates_have_held_since_the_time_before(tmp_path: Path) -> None:
    rate = read_pensieve(written(tmp_path, PENSIEVE), repeat=True)
    assert (rate.period, rate.times.tolist()) == (3, [0, 0.5, 2.5])
    # 2 Mbit/s to 3.5 s, 0.25 to 5.5 s, 4 to 6 s; 99 and 1000 are of no time.
    assert rate.integral(0, 3) == pytest.approx(1e6 + 0.5e6 + 2e6)
    assert rate.integral(3, 6) == pytest.approx(3.5e6)
    assert read_pensieve(written(tmp_path, PENSIEVE), repeat=False).at(1e9) == 4e6


def simulated(rows: list[tuple[float, float]], bits: float) -> float:
    """Return how long bits take in Pensieve's simulator: row by row, from the second on."""
    at, last, taken = 1, rows[0][0], 0.0
    while True:
        span = rows[at][0] - last
        if rows[at][1] * 1e6 * span >= bits:
            return taken + bits / (rows[at][1] * 1e6)
        bits -= rows[at][1] * 1e6 * span
        taken += span
        last, at = rows[at][0], at + 1
        if at == len(rows):
            at, last = 1, rows[0][0]


@in_a_folder
@given(
    st.lists(st.tuples(st.floats(0.1, 9), st.floats(0.1, 50)), min_size=2, max_size=9),
    st.floats(1, 1e9),
)
def test_a_transfer_takes_as_long_as_in_pensieves_simulator(
    tmp_path: Path, drawn: list[tuple[float, float]], bits: float
) -> None:
    times = np.cumsum([gap for gap, _ in drawn])
    rows = [(float(time), rate) for time, (_, rate) in zip(times, drawn, strict=True)]
    text = "".join(f"{time!r} {rate!r}\n" for time, rate in rows)
    trace = read_pensieve(written(tmp_path, text), repeat=True)
    assert trace.when(0, bits) == pytest.approx(simulated(rows, bits), rel=1e-6)


def flows(*series: list[tuple[int, int]], way: str = "dl") -> dict[str, Any]:
    """Return a flows file, of points of nanoseconds and bytes."""
    each = [{"time_series": [{"t": t, "b": b} for t, b in points]} for points in series]
    return {"res_id_test": "made up", "res_details": {way: each}}


def test_flows_of_monroe_are_added_up_until_the_first_ends(tmp_path: Path) -> None:
    one, two = [(10**9, 1000), (3 * 10**9, 5000)], [(2 * 10**9, 400), (4 * 10**9, 1000)]
    path = written(tmp_path, json.dumps(flows(one, two)))
    rate = read_monroe(path, "down", repeat=True)
    # By hand: 1000 + 200 bytes, 2000 + 200 bytes, 2000 + 300 bytes, in a second each.
    assert rate.values.tolist() == pytest.approx([9600, 17600, 18400])
    assert rate.period == 3
    # The program's own result: all bytes up to then, the second flow's in proportion.
    assert rate.average == pytest.approx(8 * (5000 + 400 + 300) / 3)


def test_a_flows_file_may_be_packed_and_has_both_directions(tmp_path: Path) -> None:
    tree = flows([(10**9, 1000)], way="ul")
    tree["res_details"] |= flows([(5 * 10**8, 10), (5 * 10**8, 20)])["res_details"]
    path = tmp_path / "flows.json.xz"
    path.write_bytes(lzma.compress(json.dumps(tree).encode()))
    assert read_monroe(path, "up", repeat=True).average == pytest.approx(8000)
    assert read_monroe(path, "down", repeat=False).at(100) == pytest.approx(320)


NO_RUN = "".join(f"{run},1,1\n" for run in range(3, 20))


@every(
    ("read", "text", "words"),
    [
        (read_ucc, "", ["no column Timestamp and no column DL_bitrate", "nothing"]),
        (read_ucc, "Timestamp,UL_bitrate\n", ["no column DL_bitrate", "Timestamp, UL_bitrate"]),
        (read_ucc, "Timestamp,DL_bitrate\n", ["a header alone"]),
        (read_ucc, UCC + "2020-01-01 00:00,0,5G,1,1,D,-\n", ["line 6", "a time such as", "'2020-"]),
        (read_ucc, UCC.replace(",500,", ",-,"), ["line 5", "DL_bitrate is a finite", "'-'"]),
        (read_ucc, UCC.replace(",500,", ",-3,"), ["line 5", "0 or more", "'-3'"]),
        (read_ucc, UCC.replace(",500,", ",inf,"), ["line 5", "finite", "'inf'"]),
        (read_ucc, UCC + "2020.01.01_00.00.02,0\n", ["line 6", "got 2 values", "has 7"]),
        (read_ucc, UCC + '"', ["line 6", "no table"]),
        (read_lumos, "run_num,seq_num,Throughput\n" + NO_RUN, ["no run_num 1", "12 and 7 more"]),
        (read_lumos, LUMOS + "1,5,NONE,3,x\n", ["line 7", "seq_num rises", "'5'"]),
        (read_lumos, LUMOS.replace("100.5", "fast"), ["line 2", "Throughput", "'fast'"]),
        (read_pensieve, "", ["0 times", "two or more"]),
        (read_pensieve, "0 1\n", ["1 times"]),
        (read_pensieve, "0 1\n1 2 3\n", ["line 2", "seconds and Mbit/s", "'1 2 3'"]),
        (read_pensieve, "1 1\n\n0 2\n", ["line 3", "times never fall", "'0 2'"]),
        (read_pensieve, "0 1\n1 -2\n", ["line 2", "0 or more", "'1 -2'"]),
        (read_pensieve, "0 1\nnan 2\n", ["line 2", "'nan 2'"]),
        (read_monroe, "{", ["line 1", "no JSON"]),
        (read_monroe, "[" * 10**5, ["no JSON"]),
        (read_monroe, "[]", ["at the top", "'res_details'", "got []"]),
        (read_monroe, json.dumps(flows(way="ul")), ["['res_details']", "'dl'"]),
        (read_monroe, json.dumps(flows()), ["dl has no flow"]),
        (read_monroe, json.dumps(flows([])), ["no point after 0 ns"]),
        (read_monroe, json.dumps(flows([(2, 1), (1, 2)])), ["[1]", "never fall", "{'t': 1"]),
        (read_monroe, json.dumps(flows([(1, 2), (2, 1)])), ["[1]", "never fall"]),
        (read_monroe, json.dumps(flows([(-1, 2)])), ["[0]['t']", "0 or more", "got -1"]),
        (read_monroe, json.dumps(flows([(1, 10**400)])), ["['b']", "finite"]),
        (read_monroe, '{"res_details": {"dl": [{"time_series": 3}]}}', ["an array", "got 3"]),
        (read_monroe, '{"res_details": {"dl": [{"time_series": [{"t": "1", "b": 2}]}]}}',
         ["a number", "got '1'"]),
    ],
)  # fmt: skip
def test_a_fault_names_its_place_and_what_is_accepted(
    read: Any, text: str, words: list[str], tmp_path: Path
) -> None:
    path = written(tmp_path, text)
    options = {read_lumos: {"run": 1}, read_pensieve: {}}.get(read, {"direction": "down"})
    with pytest.raises(DataError) as caught:
        read(path, **options, repeat=True)
    told = str(caught.value)
    assert [word for word in words if word not in told] == [], told
    assert len(told) < 1000
    assert caught.value.key == "trace"


TRACES: dict[str, tuple[str, dict[str, Any], float, float]] = {
    "ucc-5g": (UCC, {"direction": "up"}, 20e3 + 3 * 4e3, 7),
    "lumos5g": (LUMOS, {"run": 1}, 100.5e6 + 60e6, 7),
    "pensieve": (PENSIEVE, {}, 3.5e6, 3),
    "monroe": (json.dumps(flows([(10**9, 10**5), (4 * 10**9, 10**6)])), {}, 8e6, 4),
}
"""Files with their options, the bits that pass in a cycle, and its seconds."""


@pytest.mark.slow
@pytest.mark.parametrize("kind", TRACES)
def test_a_run_over_each_sends_what_a_cycle_of_the_file_lets_pass(
    kind: str, tmp_path: Path
) -> None:
    text, options, bits, period = TRACES[kind]
    trace = {"kind": kind, "path": str(written(tmp_path, text)), **options}
    data = {"kind": "sparse-linear", "clients": 1, "rows": 2, "ones": 3}
    scenario = {
        "problem": {"loss": {"kind": "squared"}, "data": data | {"features": int(bits / 640)}},
        "algorithm": {"kind": "gd", "step_size": "0.1/L"},
        "fleet": [{"count": 1, "radio": {"kind": "ideal", "up_trace": trace}}],
        "stop": {"rounds": 60},
        "seeds": 1,
    }
    rounds = fedsim.run(scenario).rounds
    # Nothing else takes time, so that what was sent is what the trace let pass: so many whole
    # cycles, and less than one more.
    sent, cycles = rounds["bits_up"].sum(), rounds["t"].iloc[-1] // period
    assert cycles >= 2
    assert cycles * bits <= sent * (1 + 1e-9)
    assert sent <= (cycles + 1) * bits * (1 + 1e-9)
