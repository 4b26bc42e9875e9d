"""EF21 down to clients that are not all sent the same: the server knows what each of them holds."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedsim
from fedsim.core.ports import SERVER, ClientId, Payload
from fedsim.protocol import transport
from fedsim.protocol.transport import Unpacking
from fedsim.results.record.parts import read_table
from fedsim.results.record.read import read_run
from fedsim.scenario import Compression, load
from fedsim.scenario.building.budgets import check_held, vector_memory
from fedsim.scenario.building.inputs import Findings
from fedsim.scenario.building.packing import packer
from fedsim.wire import ByClient, Sparse, Update, ValueFormat, encode
from tests.algorithms.packing import link, run, scenario
from tests.runs import small

FLOAT64 = ValueFormat.FLOAT64
KEPT = 3  # coordinates of top-k
WIFI = {"kind": "wifi", "latency": "10 ms"}
SLOW = [{"count": 2, "device": "pi-4", "radio": WIFI}, {"count": 2, "device": "pi-4"}]
SLOW[1]["radio"] = WIFI | {"down": "3 kbit/s", "up": "3 kbit/s"}
LOSS = {"kind": "independent", "rate": "30 %"}  # and sent again until it arrives
WORLDS: dict[str, dict[str, Any]] = {
    "a sample": {"participation": {"kind": "uniform", "count": 2}},
    "a sample, first come": {
        "fleet": SLOW,
        "participation": {"kind": "uniform", "count": 2, "over": 1.5},
    },
    "asynchronous": {"fleet": SLOW, "participation": {"kind": "asynchronous", "buffer": 2}},
    "late": {"fleet": SLOW, "participation": {"kind": "full", "deadline": "150 ms"}},
    "given up": {
        "fleet": [{"count": 4, "device": "pi-4", "radio": WIFI | {"loss": LOSS}}],
        "participation": {
            "kind": "full",
            "deadline": "25 ms",
            "quorum": "75 %",
            "give_up": "30 ms",
        },
    },
    "chosen by the method": {"algorithm": {"kind": "lag-ps", "step_size": "0.1/L"}},
    "a cell": {"network": {"broadcast": "cell"}, "fleet": SLOW},
}


def blocks(world: str, **more: Any) -> dict[str, Any]:
    wire = {"values": "float64", "down": link("top-k", "ef21")}
    made = scenario(wire=wire, **WORLDS[world] | more)
    # Not from 0, which a message that is heard twice does not change.
    return made | {"problem": made["problem"] | {"start": {"kind": "normal", "scale": 0.1}}}


def top(vector: np.ndarray) -> np.ndarray:
    """Return a vector with its largest coordinates only."""
    kept = np.argsort(-np.abs(vector), kind="stable")[:KEPT]
    made = np.zeros_like(vector)
    made[kept] = vector[kept]
    return made


@pytest.mark.filterwarnings("ignore::fedsim.TheoryWarning")
def test_a_sample_of_the_clients_is_the_recursion_with_a_state_for_each(tmp_path: Path) -> None:
    rng, alpha, clients = np.random.default_rng(1), 0.003, 6
    rows, labels = rng.standard_normal((clients, 10, 8)), rng.standard_normal((clients, 10))
    data = fedsim.arrays(rows.reshape(-1, 8), labels.ravel())
    compressor = {"kind": "top-k", "count": KEPT}
    fedsim.run(
        {
            "problem": {"loss": {"kind": "squared", "scale": "sum"}, "data": data},
            "algorithm": {"kind": "dcgd", "step_size": alpha},
            "fleet": [{"count": clients}],
            "participation": {"kind": "uniform", "count": 2},
            "wire": {
                "values": "float64",
                "down": {"compressor": compressor, "error_feedback": "ef21"},
            },
            "stop": {"rounds": 40},
        },
        out=tmp_path,
    )
    folder = next(tmp_path.rglob("events.parquet")).parent
    events = read_run(folder, "events")
    w, held, values, apart = np.zeros(8), np.zeros((clients, 8)), [], 0
    for _, cohort in events[events["event"] == "sampled"].groupby("round"):
        values.append(0.5 * np.square(rows @ w - labels).sum())
        asked = [int(name.removeprefix("client-")) for name in cohort["node"]]
        apart += not np.array_equal(held[asked[0]], held[asked[1]])
        gradient = np.zeros(8)
        for one in asked:
            held[one] += top(w - held[one])
            gradient += rows[one].T @ (rows[one] @ held[one] - labels[one])
        w = w - alpha * gradient * clients / len(asked)
    assert len(values) == 40
    assert apart > 30
    assert values[-1] < 0.9 * values[0]
    objective = read_table(folder, "rounds")["objective"].to_numpy()
    assert objective[:-1] == pytest.approx(values, rel=1e-12, abs=0)
    sent = events[(events["event"] == "send") & (events["node"] == "server")]
    bits = 8 * len(encode(Update(Sparse.of(np.arange(8.0) * (np.arange(8) > 4), FLOAT64), 0)))
    assert set(sent["payload_bits"]) <= {bits, bits - 64 * KEPT - 8}  # the first model is 0


class Checked(Unpacking):
    """What one receiver holds, compared with what its sender takes it to hold."""

    seen = 0

    def unpack(self, sender: ClientId, payload: Payload) -> Payload:
        read = super().unpack(sender, payload)
        if isinstance(payload, Update):
            assert np.array_equal(read.values, payload.values)
            Checked.seen += 1
        return read


@pytest.mark.slow
@pytest.mark.parametrize("world", WORLDS)
def test_the_server_knows_what_each_client_holds(
    world: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "Unpacking", Checked)
    monkeypatch.setattr(Checked, "seen", 0)
    plain = run(blocks(world), tmp_path / "plain")
    assert Checked.seen >= 15
    assert isinstance(plain.down.packer, ByClient) == (world != "a cell")
    assert (world == "given up") == bool(plain.of("abandoned"))
    monkeypatch.undo()
    wired = run(blocks(world), tmp_path / "wired", bytewise=True)
    assert plain.sha256 == wired.sha256
    assert np.array_equal(plain.models, wired.models)


@pytest.mark.parametrize("kind", ["top-k", "qsgd"])
def test_where_all_are_sent_the_same_it_is_ef21_as_it_is(kind: str) -> None:
    """One draw and one payload for all clients, until one of them is left out."""
    spec = Compression.model_validate(link(kind, "ef21"))
    plain = packer(spec, FLOAT64, 1, SERVER)
    own = packer(spec, FLOAT64, 1, SERVER, by_client=True)
    rng = np.random.default_rng(1)
    for _ in range(5):
        vector = rng.standard_normal(30)
        sent = own.pack(vector).sent(range(4))  # type: ignore[attr-defined]
        assert len(set(map(id, sent))) == 1
        assert np.array_equal(sent[0].values, plain.pack(vector).values)
    assert len(set(map(id, own.pack(vector).sent([0, 2])))) == 1  # type: ignore[attr-defined]
    assert len(set(map(id, own.pack(vector).sent([0, 1, 2, 3])))) == 2  # type: ignore[attr-defined]


def test_what_differs_from_client_to_client_has_no_one_value() -> None:
    spec = Compression.model_validate(link("top-k", "ef21"))
    payload = packer(spec, FLOAT64, 1, SERVER, by_client=True).pack(np.ones(30))
    for name in ("values", "bits"):
        with pytest.raises(
            ValueError, match="no single payload for the server to read; use the vector"
        ):
            getattr(payload, name)


@pytest.mark.parametrize(("count", "size"), [(2, 8 * 5 * 10), (None, 0)])
def test_what_the_server_keeps_has_to_fit_into_memory(
    count: int | None, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One vector of 10 values for each of 5 clients, and nothing where all are always asked."""
    policy = {"kind": "full"} if count is None else {"kind": "uniform", "count": count}
    plan = load(small(wire={"down": link("top-k", "ef21")}, participation=policy))
    scenario, findings = plan.variants[0].scenario, Findings(plan.variants[0])
    assert vector_memory(scenario, 5, 10) == size
    monkeypatch.setenv("FEDSIM_MEMORY", "0.3 kB")
    check_held(scenario, 5, 10, findings)
    assert [fault.key for fault in findings.faults] == ["wire.down.error_feedback"] * bool(size)
    assert all("5 clients" in fault.message for fault in findings.faults)
    assert all("would take 0.4 kB of memory" in fault.message for fault in findings.faults)


@pytest.mark.filterwarnings("ignore::fedsim.TheoryWarning")
def test_a_sample_that_is_sent_changes_of_its_own_is_priced_again(tmp_path: Path) -> None:
    one = blocks("a sample", fleet=[{"count": 4, "device": "pi-4", "radio": "wifi"}])
    fedsim.run(one, out=tmp_path / "was")
    fedsim.reprice(tmp_path / "was", ["fleet.0.radio=lte"], tmp_path / "now")
    other = [{"count": 4, "device": "pi-4", "radio": "lte"}]
    fedsim.run(one | {"fleet": other}, out=tmp_path / "again")
    logs = [
        read_run(next((tmp_path / name).rglob("events.parquet")).parent, "events")
        for name in ("now", "again")
    ]
    assert logs[0].equals(logs[1])
    assert logs[0]["event"].eq("sampled").sum() == 30
