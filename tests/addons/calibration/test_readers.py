"""Recordings of other programs become one table; a bad one is refused with its line."""

import json
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedsim.addons.calibration.readers import read_recording
from fedsim.addons.calibration.recording import join, number_clients
from fedsim.core.errors import DataError


def write(folder: Path, text: str, name: str = "log.txt") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_csv_has_its_columns_in_any_order_and_others_beside(tmp_path: Path) -> None:
    text = "bytes,client,note,start,end,direction\n1000,a,x,1,1.5,up\n2000,b,y,2,4,down\n"
    read = read_recording(write(tmp_path, text))
    assert read["kind"].tolist() == ["upload", "download"]
    assert read["client"].tolist() == ["a", "b"]
    assert (read["end"] - read["start"]).tolist() == [0.5, 2.0]
    assert number_clients(read, 2).tolist() == [0, 1]


def test_csv_of_all_kinds(tmp_path: Path) -> None:
    text = "client,round,kind,start,end,bytes,operations\nclient-1,3,compute,0,2,0,1e6\n"
    text += "client-1,3,ping,0,0.1,0,\n"
    read = read_recording(write(tmp_path, text))
    assert read["operations"][0] == 1e6
    assert np.isnan(read["operations"][1])
    assert read["round"].tolist() == [3, 3]
    assert number_clients(read, 4).tolist() == [1, 1]


def iperf(**test: Any) -> dict[str, Any]:
    spans = [{"start": n, "end": n + 1.0, "bytes": 1e6 * (n + 1)} for n in range(3)]
    spans[0]["omitted"] = True
    return {
        "start": {"test_start": {"protocol": "TCP", **test}},
        "intervals": [{"sum": span} for span in spans],
        "end": {},
    }


def test_iperf3_gives_rates_of_its_direction(tmp_path: Path) -> None:
    up = read_recording(write(tmp_path, json.dumps(iperf(reverse=0))), client="client-3")
    assert up["kind"].tolist() == ["upload-rate"] * 2
    assert up["bytes"].tolist() == [2e6, 3e6]
    assert set(up["client"]) == {"client-3"}
    down = read_recording(write(tmp_path, json.dumps(iperf(reverse=1))))
    assert down["kind"].tolist() == ["download-rate"] * 2
    both = iperf(bidir=1)
    both["intervals"][2]["sum_bidir_reverse"] = {"start": 2, "end": 3, "bytes": 5}
    read = read_recording(write(tmp_path, json.dumps(both)))
    assert read["kind"].tolist() == ["upload-rate", "upload-rate", "download-rate"]


LINUX = """PING h (10.0.0.1) 56(84) bytes of data.
64 bytes from 10.0.0.1: icmp_seq=1 ttl=64 time=12.5 ms
no answer yet for icmp_seq=2
64 bytes from 10.0.0.1: icmp_seq=3 ttl=64 time=20 ms
"""
WINDOWS = """Pinging h [10.0.0.1] with 32 bytes of data:
Reply from 10.0.0.1: bytes=32 time=12.5ms TTL=64
Request timed out.
Reply from 10.0.0.1: bytes=32 time=20ms TTL=64
"""


@pytest.mark.parametrize("lines", [LINUX, WINDOWS])
def test_pings_are_round_trips(tmp_path: Path, lines: str) -> None:
    read = read_recording(write(tmp_path, lines))
    assert set(read["kind"]) == {"ping"}
    assert (read["end"] - read["start"]).to_numpy() == pytest.approx([0.0125, 0.02])


def test_a_mahimahi_trace_is_what_could_pass_in_each_second(tmp_path: Path) -> None:
    """One opportunity of 1500 bytes at each even millisecond, for 2 s."""
    text = "\n".join(str(n) for n in range(2, 2001, 2))
    read = read_recording(write(tmp_path, text, "trace.down"))
    assert read["kind"].tolist() == ["download-capacity"] * 2
    assert read["bytes"].to_numpy() == pytest.approx([750_000, 750_000])
    assert set(read_recording(write(tmp_path, text), direction="up")["kind"]) == {"upload-capacity"}
    with pytest.raises(DataError, match=r"ends in \.up or \.down"):
        read_recording(write(tmp_path, text))


FLOWER = (
    "run | INFO flwr 2025-01-31 12:00:00,250 | server.py:91 | [INIT]\n"
    "run | INFO flwr 2025-01-31 12:00:01,000 | server.py:91 | [ROUND 1]\n"
    "run | INFO flwr 2025-01-31 12:00:01,100 | server.py:91 | configure_fit: sampled 2\n"
    "run | INFO flwr 2025-01-31 12:00:03,500 | server.py:91 | [ROUND 2]\n"
    "run | INFO flwr 2025-01-31 12:00:04,000 | server.py:91 | [SUMMARY]\n"
)


def test_flowers_log_files_have_rounds(tmp_path: Path) -> None:
    read = read_recording(write(tmp_path, FLOWER))
    assert read["kind"].tolist() == ["round", "round"]
    assert read["round"].tolist() == [1, 2]
    assert (read["end"] - read["start"]).to_numpy() == pytest.approx([2.5, 0.5])


HISTORY = {
    "losses_distributed": [[1, 0.7], [2, 0.5]],
    "losses_centralized": [],
    "metrics_distributed_fit": {"accuracy": [[1, 0.1]], "num_examples": [[1, 60], [2, 50]]},
    "metrics_distributed": {},
    "metrics_centralized": {},
}


def with_times(values: Any, name: str = "train_time") -> dict[str, Any]:
    fit = {**HISTORY["metrics_distributed_fit"], name: values}  # type: ignore[dict-item]  # a mapping
    return {**HISTORY, "metrics_distributed_fit": fit}


@pytest.mark.parametrize("name", ["train_time", "fit_duration", "seconds", "time_s"])
def test_a_history_of_flower_has_the_mean_times_that_clients_return(
    tmp_path: Path, name: str
) -> None:
    text = json.dumps(with_times([[1, 2.5], [2, 2.0]], name))
    read = read_recording(write(tmp_path, text))
    assert read["kind"].tolist() == ["compute-mean"] * 2
    assert read["round"].tolist() == [1, 2]
    assert read["samples"].tolist() == [60, 50]
    assert (read["end"] - read["start"]).tolist() == [2.5, 2.0]
    assert number_clients(read, 3).tolist() == [-1, -1]


def test_the_attributes_of_a_history_are_those_of_flower() -> None:
    history = pytest.importorskip("flwr.server.history").History()
    assert HISTORY.keys() == vars(history).keys()


WRONG = [
    (json.dumps({"losses_distributed": [[1, 0.7]]}), "a History of Flower has no times"),
    (
        json.dumps(HISTORY),
        "metrics_distributed_fit has accuracy and num_examples; expected a metric",
    ),
    (json.dumps(with_times([[1, "x"]])), "metrics_distributed_fit.train_time is a list of rounds"),
    (json.dumps(with_times([[1, -2.0]])), "got [[1, -2.0]]"),
    (json.dumps(with_times(7)), "metrics_distributed_fit.train_time is a list of rounds"),
    ("hello\n", "line 1: expected a folder written by fedsim run, CSV with"),
    ("", "line 1: expected a folder"),
    ("client,start,end\na,1,2\n", "has no column bytes"),
    ("client,start,end,bytes\na,1,2,3\na,1,x,3\n", "line 3: end is a finite number of 0 or more"),
    (
        "client,start,end,bytes\na,2,1,3\n",
        "line 2: end is start or later, both by one clock; got '1'",
    ),
    ("client,start,end,bytes\na,1,2,0\n", "line 2: bytes of a message are above 0; got '0'"),
    ("client,start,end,bytes\n*,1,2,3\n", "line 2: the client of a message is the one that sent"),
    ("client,start,end,bytes,direction\na,1,2,3,left\n", "direction is one of up, down"),
    ("client,start,end,bytes,kind,operations\na,1,2,0,compute,-1\n", "line 2: operations is"),
    ('{"start": {}}', "it is no report of iperf3 --json"),
    ('{"start": ', "line 1: expected JSON as iperf3 --json prints it"),
    ('{"error": "unable to connect"}', "iperf3 failed: unable to connect"),
    ("PING h\n\n0 packets\n", 'no line has a reply, such as "64 bytes from'),
    ("flwr 2025-13-31 12:00:00,000 | [ROUND 1]\n", "line 1: expected a line of a log file"),
    ("INFO :      [ROUND 1]\nINFO :      [ROUND 2]\n", "line 1: expected a line of a log file"),
]


@pytest.mark.skipif(not hasattr(time, "tzset"), reason="no time zone can be set")
@pytest.mark.parametrize(
    ("day", "hours"),
    [
        ("2025-03-30", (1, 3)),
        ("2025-03-30", (2, 3)),
        ("2025-10-26", (2, 3)),
        ("2025-10-26", (1, 2)),
    ],
)
def test_times_of_a_log_do_not_depend_on_the_zone_of_its_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, day: str, hours: tuple[int, int]
) -> None:
    """Of either day, clocks in Berlin are put forward at 02:00, or back at 03:00."""
    ends = [f"{day} {hours[0]:02}:59:50,250", f"{day} {hours[1]:02}:00:10,500"]
    lines = [f"INFO flwr {end} | [ROUND {n}]\n" for n, end in enumerate(ends, 1)]
    path = write(tmp_path, "".join(lines))
    monkeypatch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
    time.tzset()
    try:
        (seconds,) = read_recording(path)["end"]
        path.write_text("".join(lines[::-1]), encoding="utf-8")
        with pytest.raises(DataError, match="times of a log never fall"):
            read_recording(path)
    finally:
        monkeypatch.undo()
        time.tzset()
    assert seconds == 3600 * (hours[1] - hours[0] - 1) + 20.25


@pytest.mark.parametrize(("text", "words"), WRONG)
def test_a_bad_recording_is_refused_with_its_line(tmp_path: Path, text: str, words: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(DataError) as refused:
        read_recording(path)
    assert str(path) in str(refused.value)
    assert words in str(refused.value)


@pytest.mark.parametrize("name", ["nowhere", "."])
def test_folders_without_runs_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(DataError, match=r"cannot read|no runs in"):
        read_recording(tmp_path / name)


def test_runs_of_joined_recordings_are_numbered_anew(tmp_path: Path) -> None:
    text = "client,start,end,bytes\n0,1,2,3\n1,1,2,3\n"
    read = read_recording(write(tmp_path, text))
    assert join([read, read])["run"].tolist() == [0, 0, 1, 1]


def test_a_random_file_is_refused_or_read_and_nothing_else(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    whole = [text for text, _ in WRONG] + [FLOWER, json.dumps(iperf()), "PING\ntime=1 ms"]
    for number in range(300):
        text = bytearray(whole[number % len(whole)].encode() * 2)
        for place in rng.integers(0, max(len(text), 1), 3):
            text[place : place + 1] = bytes(rng.integers(0, 256, 2, np.uint8))
        path = tmp_path / "log"
        path.write_bytes(bytes(text))
        with suppress(DataError):
            read = read_recording(path)
            assert (read["end"] >= read["start"]).all()
