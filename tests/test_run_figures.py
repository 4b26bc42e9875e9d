"""What a run charges and measures, added up by hand."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_diabetes

import fedsim
from tests.runs import small


def test_round_costs_are_those_of_the_log() -> None:
    """Add up the log by hand, round by round, and compare with the round table."""
    result = fedsim.run(small())
    rounds = result.rounds
    events = result.events
    up = events[(events["event"] == "send") & (events["node"] != "server")]
    down = events[(events["event"] == "send") & (events["node"] == "server")]
    bits = ["payload_bits", "header_bits", "transport_bits"]
    by_round = rounds.set_index("round")
    carries = up["payload_bits"] > 0
    for column, logged in {
        "bits_up": up.groupby("round")[bits].sum().sum(axis=1),
        "bits_down": down.groupby("round")[bits].sum().sum(axis=1),
        "transmissions": up[carries].groupby("round").size(),
        "beacons": up[~carries].groupby("round").size(),
    }.items():
        assert (logged.reindex(by_round.index, fill_value=0) == by_round[column]).all()
    # Each row's energy by its time before the end of each round; rows of a time alone have none.
    spans = events[events["joules"] > 0]
    begins, lasts = (spans["t"] - spans["duration"]).to_numpy(), spans["duration"].to_numpy()
    ends = rounds["t"].to_numpy()[:, None]
    shares = np.clip((ends - begins) / lasts, 0.0, 1.0)
    assert np.allclose(shares @ spans["joules"].to_numpy(), rounds["joules"].cumsum())


def test_energy_and_time_of_one_round_by_hand() -> None:
    """One client, one round: every second and joule from the data sheet."""
    device = {"kind": "custom", "speed": "1 Mflop/s", "active": "3 W", "idle": "1 W"}
    radio = {
        "kind": "custom", "up": "10 kbit/s", "down": "20 kbit/s", "latency": "100 ms",
        "energy_up": "2 uJ/bit", "energy_down": "1 uJ/bit", "base": "0.5 W",
    }  # fmt: skip
    scenario = small(
        fleet=[{"device": device, "radio": radio}],
        network={"server": {"latency": "50 ms"}},
        stop={"rounds": 1},
    )
    result = fedsim.run(scenario)
    bits = 8 * (2 + 4 + 10 * 8) + 152  # ten float64 values as a Dense payload, and a header
    download, upload = bits / 20e3, bits / 10e3
    compute = (4 * 442 * 10) / 1e6
    (row,) = result.summary.to_dict("records")
    seconds = 0.15 + download + compute + 0.15 + upload
    assert row["t"] == pytest.approx(seconds, rel=1e-3)  # the penalty's own few operations
    (client,) = result.clients.to_dict("records")
    assert client["compute_s"] == pytest.approx(compute, rel=5e-3)
    assert client["receive_joules"] == pytest.approx(0.5 * download + 1e-6 * bits, rel=1e-12)
    assert client["send_joules"] == pytest.approx(0.5 * upload + 2e-6 * bits, rel=1e-12)
    assert client["compute_joules"] == pytest.approx(2.0 * client["compute_s"], rel=1e-12)
    assert client["idle_joules"] == pytest.approx(1.0 * row["t"], rel=1e-12)
    assert client["joules"] == pytest.approx(row["joules"], rel=1e-12)


def test_the_gradient_norm_is_measured_at_the_model_of_the_round() -> None:
    problem = {
        "loss": {"kind": "squared", "scale": "sum"},
        "data": {"kind": "sklearn", "name": "diabetes"},
        "split": {"kind": "contiguous"},
    }
    gd = {"kind": "gd", "step_size": 0.01}
    result = fedsim.run(small(problem=problem, algorithm=gd, measures=["gradient_norm"]))
    X, y = load_diabetes(return_X_y=True)
    w, norms = np.zeros(10), []
    for _ in range(31):
        gradient = X.T @ (X @ w - y)
        norms.append(np.linalg.norm(gradient))
        w = w - 0.01 * gradient
    assert np.allclose(result.rounds["gradient_norm"], norms, rtol=1e-10)


def test_the_summary_has_the_parameters_as_numbers() -> None:
    result = fedsim.run(small(algorithm={"kind": "chb", "step_size": "0.5/L", "censor": 0.2}))
    (row,) = result.summary.to_dict("records")
    eps1 = 0.2 / (row["parameters.step_size"] * 5) ** 2
    assert row["parameters.eps1"] == pytest.approx(eps1, rel=1e-12)
    assert row["parameters.momentum"] == 0.4


def test_silence_by_deadline_costs_time_and_no_bits() -> None:
    beacon = fedsim.run(small())
    deadline = fedsim.run(small(silence={"kind": "deadline", "after": "1 s"}))
    same = ["objective", "transmissions", "bits_down"]
    pd.testing.assert_frame_equal(beacon.rounds[same], deadline.rounds[same])
    assert beacon.rounds["beacons"].sum() > 0
    assert deadline.rounds["beacons"].sum() == 0
    sends = beacon.events[beacon.events["event"] == "send"]
    said = sends[sends["message"] == "beacon"]
    assert set(said["header_bits"] + said["transport_bits"]) == {152 + 60 * 8, 152 + 66 * 8}
    spared = (said["header_bits"] + said["transport_bits"]).sum()  # an empty packet each
    assert beacon.rounds["bits_up"].sum() - deadline.rounds["bits_up"].sum() == spared
    quiet = deadline.rounds["transmissions"].iloc[1:] < 5
    lasted = deadline.rounds["t"].diff().iloc[1:]
    assert np.allclose(lasted[quiet], 1.0)  # nobody can tell silence from slowness before
    assert (lasted[~quiet] < 1.0).all()


def test_replies_that_miss_the_deadline_count_for_the_next_round() -> None:
    """LTE clients need 60 ms and the deadline is at 50 ms: their news is a round old.

    The first round closes before any radio is promoted: there Wi-Fi clients are late, too.
    """
    result = fedsim.run(small(silence={"kind": "deadline", "after": "50 ms"}))
    late = result.events[result.events["event"] == "late"]
    slow = {"client-0", "client-1", "client-2"}
    assert set(late["node"].astype(str)) == slow | {"client-3", "client-4"}
    settled = late[late["round"] > 10]
    assert set(settled["node"].astype(str)) == slow
    assert set(late["detail"].astype(str)) == {"kept for the next round"}
    assert (result.summary["status"] == "done").all()
    assert result.rounds["objective"].iloc[-1] < result.rounds["objective"].iloc[0]
