"""Fine-tuning by adapters: the laws of FedIT and FLoRA, and the study in a reduced form."""

import sys
from collections import defaultdict
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import fedsim
import fedsim.torch
from tests.scripts import script

low_rank = script("adapters/low_rank")
sys.modules["low_rank"] = low_rank  # as it is where the script is run
study = script("adapters/fine_tuning")

LAYERS = [[64, 64], [64], [10, 64], [10]]
ADAPTERS = {"layers": LAYERS, "rank": 2, "alpha": 6.0}
WIDE = 32 * 2 * (64 + 64 + 10 + 64)
"""Bits of the factors of rank 2 in float32."""


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))


def scenario(kind: str, module: Any = network, **more: Any) -> dict[str, Any]:
    X, y, held_out = study.rows()
    X, y = X[held_out], y[held_out]
    return {
        "problem": fedsim.torch.problem(
            module, data=(X, y), split={"kind": "iid"}, numbers="float64"
        ),
        "algorithm": {"kind": kind, "step_size": 0.1, "local_steps": 3, **ADAPTERS},
        "wire": {"values": "float64"},
        "fleet": [{"count": 6, "device": "pi-4", "radio": "wifi"}],
        "stop": {"rounds": 8},
        "seeds": 1,
    } | more


class Watched(low_rank.FLoRA):  # type: ignore[misc, name-defined]
    """FLoRA under observation."""

    kind: Literal["watched"] = "watched"

    def stacked(self, each: Any) -> Any:
        stack = super().stacked(each)
        for i, (left, right) in enumerate(stack):
            due = sum(weight * own[i][0] @ own[i][1] for weight, own in each)
            assert np.allclose(left @ right, due, rtol=1e-12, atol=1e-12)
        STACKS.append(len(each))
        return stack

    def way(self, server: Any, w: Any, told: Any, since: int) -> Any:
        SERVERS[server.round] = w
        way = super().way(server, w, told, since)
        WAYS[type(way).__name__] += 1
        return way

    async def trained(self, client: Any, w: Any, factors: Any) -> Any:
        assert np.allclose(w, SERVERS[client.round], rtol=1e-12, atol=1e-14)
        assert len(client.state) <= 2
        return await super().trained(client, w, factors)


STACKS: list[int] = []
SERVERS: dict[int, Any] = {}
WAYS: dict[str, int] = defaultdict(int)


@pytest.mark.parametrize(
    "world",
    [
        {},
        {"participation": {"kind": "uniform", "count": 2}},
    ],
    ids=["all", "some"],
)
def test_what_floras_clients_hold_is_what_the_server_has(world: dict[str, Any]) -> None:
    """The stacked update is the weighted sum of products, and who missed rounds catches up."""
    for kept in (STACKS, SERVERS, WAYS):
        kept.clear()
    result = fedsim.run(scenario("watched", **world), blocks=[Watched])
    assert result.summary["status"].tolist() == ["done"], result.summary["reason"].tolist()
    assert STACKS
    assert WAYS["Stacks"] > 0
    assert (WAYS["Whole"] > 0) == bool(world)  # in place of stacks that are longer


def test_floras_downlink_grows_with_those_who_reply_and_its_uplink_does_not() -> None:
    sent = {}
    for count in (1, 2, 4):
        blocks = scenario("flora", wire={"values": "float32"}, stop={"rounds": 2})
        blocks["fleet"] = [{"count": count}]
        events = fedsim.run(blocks, blocks=[low_rank.FLoRA]).events
        second = events[(events["event"] == "send") & (events["round"] == 2)]
        bits = second.groupby("message", observed=True)["payload_bits"].max()
        sent[count] = bits["stacks"], bits["adapters"]
    one, two, four = (sent[count][0] for count in (1, 2, 4))
    assert (two - one, four - two) == (WIDE, 2 * WIDE)
    assert len({up for _, up in sent.values()}) == 1
    assert 0 <= sent[1][1] - WIDE < 200


class Adapted(nn.Module):
    """A layer whose base is frozen, and its adapter."""

    def __init__(self, base: nn.Linear, left: Tensor, right: Tensor) -> None:
        super().__init__()
        self.base = base.requires_grad_(requires_grad=False)
        self.left, self.right = nn.Parameter(left), nn.Parameter(right)

    def forward(self, rows: Tensor) -> Tensor:
        found: Tensor = self.base(rows) + 3.0 * rows @ self.right.T @ self.left.T
        return found


def test_fedit_is_federated_averaging_of_a_module_whose_base_is_frozen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    torch.manual_seed(0)
    first, last = nn.Linear(64, 64), nn.Linear(64, 10)
    rng = np.random.default_rng(0)
    shapes = [((64, 2), (2, 64)), ((10, 2), (2, 64))]
    drawn = [tuple(rng.normal(size=n).astype(np.float32) / 8 for n in pair) for pair in shapes]
    monkeypatch.setattr(low_rank.LowRank, "drawn", lambda *_: drawn)
    factors = [[torch.tensor(each) for each in pair] for pair in drawn]
    module = nn.Sequential(Adapted(first, *factors[0]), nn.ReLU(), Adapted(last, *factors[1]))
    averaged = {"kind": "fedavg", "step_size": 0.1, "local_steps": 3}
    frozen = fedsim.run(scenario("fedavg", module, algorithm=averaged))
    torch.manual_seed(0)
    fedit = fedsim.run(scenario("fedit", network()), blocks=[low_rank.FedIT])
    assert frozen.summary["dimension"][0] == WIDE / 32
    assert fedit.rounds["objective"].nunique() == 9
    # FedIT's own adapters begin as zero, so that its start is the module; those drawn here do not.
    of_averages, of_fedit = (run.rounds.query("round > 0") for run in (frozen, fedit))
    assert np.allclose(of_averages["objective"], of_fedit["objective"], rtol=1e-6)
    assert np.array_equal(of_averages["bits_up"], of_fedit["bits_up"])


@pytest.mark.slow
def test_the_study_in_a_reduced_form(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    result = study.tuned(pretraining=5, rounds=3)
    assert set(result.summary["status"]) == {"done"}
    monkeypatch.setattr(study, "tuned", lambda _: result)
    monkeypatch.setattr(study, "FIGURE", tmp_path / "figure.png")
    monkeypatch.setattr(study, "COSTS", tmp_path / "costs.csv")
    monkeypatch.setattr(sys, "argv", ["fine_tuning"])
    study.main()
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")
    shown = capsys.readouterr().out
    assert all(name in shown for name in study.METHODS.values())
    assert (Path(study.__file__).parent / "fine_tuning.csv").exists()
