"""Fleets of files: FedScale's capacities, a LoRaWAN log, and the charger of a phone of FLASH."""

import pickle
import time
from pathlib import Path
from typing import Any

import pytest

import fedsim
from fedsim.core.errors import DataError
from fedsim.physics.formats.availability import read_charging
from fedsim.physics.formats.fleets import fedscale_fleet, lorawan_fleet, read_log
from fedsim.physics.formats.pickles import Tree
from tests.physics.formats.test_presence import FLASH, stored
from tests.tiers import every

HEAD = "time,device_address,gateway,crc_status,spreading_factor,rssi,snr,mtype,fcnt"


def frame(
    second: float, counter: int, address: str = "0a", gateway: str = "g", **cells: Any
) -> str:
    own = {"crc": 1, "sf": 7, "snr": -3.5, "mtype": "10", **cells}
    stamp = f"2020-05-02T00:{int(second) // 60:02}:{second % 60:09.6f}Z"
    last = f"{own['sf']},-100,{own['snr']},{own['mtype']},{counter}"
    return f"{stamp},{address},{gateway},{own['crc']},{last}"


def log(folder: Path, *frames: str) -> Path:
    path = folder / "02_05_2020.csv"
    path.write_text("\n".join([HEAD, *frames]) + "\n", encoding="utf-8")
    return path


def test_of_each_device_it_is_known_what_was_heard_and_what_was_not(tmp_path: Path) -> None:
    path = log(
        tmp_path,
        frame(1, 100, snr=-9),
        frame(1.1, 100, gateway="h", snr=4),
        frame(5, 41, "0b", sf=12, snr=-20),
        frame(11, 101),
        frame(12, -1, "-1", crc=-1, mtype=-1, sf=10),
        frame(13, 7, "0c", mtype=0),
        frame(21, 104, snr=-5),
        frame(61, 105, sf="SF8", mtype="010"),
        frame(71, 2, mtype=100),
    )
    one, other = read_log(path)
    # 0a: 100, 101, then 104 and 105 of six frames, and 2 of a counter that began anew.
    assert one[:2] == ("0a", 7)
    assert (one.received, one.sent, one.snr) == (5, 7, -3.5)
    assert one.loss == pytest.approx(2 / 7)
    assert other == ("0b", 12, -20.0, 1, 1)
    assert other.loss == 0


@pytest.mark.parametrize(("step", "sent"), [(1, 2), (2, 3), (1000, 1001), (1001, 2), (-3, 2)])
def test_a_counter_that_falls_or_leaps_by_more_than_a_thousand_began_anew(
    step: int, sent: int, tmp_path: Path
) -> None:
    (one,) = read_log(log(tmp_path, frame(1, 5000), frame(2, 5000 + step)))
    assert (one.received, one.sent) == (2, sent)


@pytest.mark.skipif(not hasattr(time, "tzset"), reason="no time zone can be set")
def test_times_without_a_zone_do_not_depend_on_that_of_the_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Clocks in Berlin were put forward from 02:00 to 03:00 on this day.
    cells = "0a,g,1,7,-100,1,10"
    heard = [f"2020-03-29T02:30:00,{cells},1", f"2020-03-29T03:10:00,{cells},6"]
    path = log(tmp_path, *heard)
    monkeypatch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
    time.tzset()
    try:
        (one,) = read_log(path)
    finally:
        monkeypatch.undo()
        time.tzset()
    assert (one.received, one.sent) == (2, 6)


def test_a_frame_counts_once_at_its_best_and_the_slower_factor_of_as_many_does_not(
    tmp_path: Path,
) -> None:
    heard = [frame(1, 1, snr=3, sf=8), frame(1.5, 1, snr=-7, sf=8), frame(2, 2, snr=1, sf=7)]
    (one,) = read_log(log(tmp_path, *heard[::-1]))  # whichever line comes first
    assert (one.spreading, one.snr, one.received) == (7, 2.0, 2)


@pytest.mark.parametrize(("least", "clients"), [(4, 2), (5, 1), (6, 0)])
def test_a_client_has_been_heard_as_often_as_is_asked(
    least: int, clients: int, tmp_path: Path
) -> None:
    often = [frame(k, k, "a") for k in range(5)]
    seldom = [frame(k, k, "b", sf=8) for k in range(4)]
    groups = lorawan_fleet(log(tmp_path, *often, *seldom), least=least)
    assert sum(group["count"] for group in groups) == clients


def test_devices_of_one_factor_and_loss_are_a_group_that_runs(tmp_path: Path) -> None:
    lossy = [frame(10 * k, 2 * k, f"a{d}") for d in range(2) for k in range(11)]
    sound = [frame(20 * k, k, "b", sf=9) for k in range(12)]
    rare = [frame(20 * k, k, "c", sf=12) for k in range(3)]
    groups = lorawan_fleet(log(tmp_path, *lossy, *sound, *rare), radio={"tries": 4})
    # 11 of 21 frames were heard of those with a: 48 % are lost.
    assert groups == [
        {"count": 2, "radio": {"kind": "lora-sf7", "tries": 4,
                               "loss": {"kind": "independent", "rate": "48 %"}}},
        {"count": 1, "radio": {"kind": "lora-sf9", "tries": 4}},
    ]  # fmt: skip
    result = fedsim.run(scenario(groups) | {"participation": {"kind": "full", "deadline": "1 h"}})
    assert result.summary["status"].tolist() == ["done"]
    assert result.clients["radio"].tolist() == ["lora-sf7", "lora-sf7", "lora-sf9"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (frame(1, 1, crc=-1), ["no uplink with a right checksum", "mtype 10 or 100"]),
        (frame(1, 1, sf=13), ["line 2", "spreading_factor is 7 to 12", "'13'"]),
        (frame(1, 1, snr="loud"), ["line 2", "snr is a finite number", "'loud'"]),
        (frame(1, -5), ["line 2", "fcnt is a whole number", "'-5'"]),
        (frame(1, 1).replace("2020-05-02T", "today "), ["line 2", "a time such as"]),
        ("", ["a header alone"]),
    ],
)
def test_a_fault_in_a_log_names_the_line(line: str, words: list[str], tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        read_log(log(tmp_path, line))
    told = str(caught.value)
    assert [word for word in words if word not in told] == [], told


def scenario(groups: list[dict[str, Any]]) -> dict[str, Any]:
    clients = sum(group["count"] for group in groups)
    return {
        "problem": {"loss": {"kind": "logistic", "labels": "plus-minus", "l2": 0.1},
                    "data": {"kind": "sklearn", "name": "breast-cancer",
                             "preprocess": ["standardise"]},
                    "split": {"kind": "iid", "clients": clients}},
        "algorithm": {"kind": "gd", "step_size": "1/L"},
        "fleet": groups,
        "stop": {"rounds": 3},
        "seeds": 1,
    }  # fmt: skip


def test_fedscales_clients_take_as_long_as_fedscale_says(tmp_path: Path) -> None:
    path = tmp_path / "client_device_capacity"
    capacities: dict[int, dict[str, float]] = {1: {"computation": 20.0, "communication": 64.0},
                  2: {"computation": 5, "communication": 8000}}  # fmt: skip
    path.write_bytes(pickle.dumps(capacities))
    silent = {"latency": "0 s", "promotion_time": "0 s", "framing": "0 B"}
    groups = fedscale_fleet(path, 3, device={"idle": "0.3 W"}, radio=silent)
    assert len(groups) == 3
    result = fedsim.run(scenario(groups))
    rounds, clients = result.rounds, result.clients
    # FedScale's rule: three times the samples' forward passes, and the bits both ways.
    spans = []
    for client, samples in enumerate(clients["samples"]):
        own = capacities[client % 2 + 1]
        work = 3 * samples * own["computation"] * 1e-3
        messages = result.events[result.events["event"] == "send"]
        bits = messages["payload_bits"].max() + messages["header_bits"].max()
        spans.append(work + 2 * bits / (own["communication"] * 1e3))
    assert rounds["t"].iloc[1] == pytest.approx(max(spans), rel=1e-6)


def test_a_phone_is_charged_while_it_says_so(tmp_path: Path) -> None:
    path = stored(tmp_path, FLASH)
    # a charges from 10 s to the end of its 100 s, b from 10 to 30 of its 100.
    for user, joules in ((0, 90 * 5.0), (1, 20 * 5.0)):
        power = read_charging(path, user=user, power=5.0)
        assert power.integral(0, 100) == pytest.approx(joules)
        assert power.integral(0, 1000) == pytest.approx(10 * joules)
    with pytest.raises(DataError, match="has 3 users that charge, and no user 3"):
        read_charging(path, user=3, power=5.0)
    battery = {"capacity": "1 Wh", "charge": "50 %", "charging": {
        "kind": "flash", "path": str(path), "power": "5 W", "shift": "random"}}  # fmt: skip
    result = fedsim.run(scenario([{"count": 2, "device": "phone-mid", "battery": battery}]))
    assert result.summary["status"].tolist() == ["done"]


@every("length", [57, 58, 59, 500])
def test_what_was_seen_is_shown_whole_where_it_is_short(length: int) -> None:
    value = "x" * length
    with pytest.raises(DataError) as raised:
        Tree({"speed": value}, Path("fleet.json"), "[0]", "trace")["speed"].number()
    _, _, seen = str(raised.value).partition("a number is accepted; got ")
    assert "fleet.json, at [0]['speed']: " in str(raised.value)
    assert seen == (repr(value) if length <= 58 else f"{repr(value)[:60]} ...")
