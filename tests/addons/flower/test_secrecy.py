"""Flower's SecAgg+ as an independent count of what secure aggregation sends.

A round of Flower's workflow runs inside fedsim. It has the messages of fedsim's own `secagg+`, with
as many keys, shares and coordinates in them; only the length of each differs.
"""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from flwr.app import Context, Message
from flwr.client import ClientApp, NumPyClient
from flwr.client.mod import secaggplus_mod
from flwr.common.serde import message_to_proto
from flwr.server import LegacyContext, ServerConfig
from flwr.server.strategy import FedAvg
from flwr.server.workflow import DefaultWorkflow, SecAggPlusWorkflow
from flwr.serverapp import Grid

from fedsim.protocol.secrecy.agreement import Agreement
from fedsim.protocol.secrecy.blocks import SecAggPlus
from fedsim.protocol.secrecy.costs import Bits
from tests.addons.flower.test_server_apps import run

CLIENTS, SIZE = 6, 1000
PAGE = Path(__file__).parents[3] / "docs/howto/secure-aggregation.md"

KEY, SHARE_OF_KEY, SHARE_OF_SEED, CIPHERTEXT = 215, 324, 52, 612
"""Bytes of Flower's parts: a public key of secp384r1 in PEM; a share of the private key, whose PEM
of 306 bytes is shared in 20 blocks of 16 bytes after 4 bytes of a number; a share of a seed of 32
bytes, in 3 blocks; and both with 20 bytes of names, encrypted by Fernet and in base 64."""


class Still(NumPyClient):
    """A client that moves a little."""

    def get_parameters(self, config: Any) -> list[Any]:
        return [np.zeros(SIZE)]

    def fit(self, parameters: list[Any], config: Any) -> tuple[list[Any], int, dict[str, Any]]:
        return [parameters[0] + 0.5], 10, {}


class Recorder:
    """A grid that keeps the messages to the first client, and its replies, by exchange."""

    def __init__(self, grid: Grid, kept: list[tuple[Message, Message]]) -> None:
        self._grid, self._kept = grid, kept

    def __getattr__(self, name: str) -> Any:
        return getattr(self._grid, name)

    def send_and_receive(self, messages: Iterable[Message], **options: Any) -> list[Message]:
        """Exchange messages, and keep those of the lowest number."""
        sent = list(messages)
        replies: list[Message] = list(self._grid.send_and_receive(sent, **options))
        first = min(one.metadata.dst_node_id for one in sent)
        (down,) = [one for one in sent if one.metadata.dst_node_id == first]
        (up,) = [one for one in replies if one.metadata.src_node_id == first]
        self._kept.append((down, up))
        return replies


def size(message: Message) -> int:
    """Return the bytes of a message in Flower's encoding."""
    return len(message_to_proto(message).SerializeToString())


def parts(message: Message) -> dict[int, int]:
    """Return how often values of each length, in bytes, are in a message."""
    lengths: dict[int, int] = {}
    for record in message.content.config_records.values():
        for value in record.values():
            for one in value if isinstance(value, list) else [value]:
                if isinstance(one, bytes):
                    lengths[len(one)] = lengths.get(len(one), 0) + 1
    return lengths


@pytest.fixture(scope="module")
def flower() -> tuple[list[tuple[Message, Message]], Any]:
    """Return the exchanges of one round of Flower's SecAgg+ with the first client, and the run."""
    kept: list[tuple[Message, Message]] = []
    secure = SecAggPlusWorkflow(num_shares=CLIENTS, reconstruction_threshold=4)

    def main(grid: Grid, context: Context) -> None:
        kept.clear()  # it is called once more, for the initial model
        strategy = FedAvg(fraction_evaluate=0.0)
        own = LegacyContext(context, ServerConfig(num_rounds=1), strategy)
        DefaultWorkflow(fit_workflow=secure)(cast("Grid", Recorder(grid, kept)), own)
        context.state["kept"] = own.state.array_records["parameters"]

    clients = ClientApp(client_fn=lambda _: Still().to_client(), mods=[secaggplus_mod])
    result = run(main, clients, stop={"rounds": 1})
    return kept[-4:], result


def ours() -> Bits:
    block = SecAggPlus(neighbours=2 * CLIENTS)
    known = Agreement(
        block=block,
        method="fedavg",
        coordinates=SIZE + 1,
        rng=lambda *_: np.random.default_rng(0),
        factors=np.ones(CLIENTS),
    )
    return known.scheme_among(range(CLIENTS), 1).bits(CLIENTS - 1, SIZE + 1)


def test_flower_sends_as_many_keys_shares_and_coordinates(flower: Any) -> None:
    """Each of our messages is this count times our length; Flower returns a client its own keys."""
    (_, keys), (known, shares), (forwarded, vector), (_, unmasking) = flower[0]
    bits = ours()
    assert parts(keys) == {KEY: 2}
    assert bits.keys_up == 2 * 256
    assert parts(known) == {KEY: 2 * CLIENTS}
    assert bits.keys_down == 2 * (CLIENTS - 1) * 256
    assert parts(shares) == parts(forwarded) == {CIPHERTEXT: CLIENTS - 1}
    assert bits.shares_up == bits.shares_down == 2 * (CLIENTS - 1) * 256
    # Arrays of NumPy: 128 bytes of a head, and 8 for each coordinate; the weight comes first.
    assert parts(vector) == {128 + 8: 1, 128 + 8 * SIZE: 1}
    assert bits.vector == (SIZE + 1) * 19  # 6 (2^16 - 1) + 1 has 19 bits
    assert parts(unmasking) == {SHARE_OF_SEED: CLIENTS}
    assert bits.unmasking == CLIENTS * 256


def test_lengths_of_flower_s_parts_follow_from_its_formats() -> None:
    """Fernet: version, time, vector, padding to 16 bytes and a code, in base 64."""
    plain = 20 + SHARE_OF_SEED + SHARE_OF_KEY
    padded = 16 * (plain // 16 + 1)
    assert 4 * (1 + 8 + 16 + padded + 32 + 2) // 3 // 4 * 4 == CIPHERTEXT
    assert SHARE_OF_KEY == 4 + 16 * (306 // 16 + 1)
    assert SHARE_OF_SEED == 4 + 16 * (32 // 16 + 1)


def test_what_fedsim_charges_is_what_flower_sends(flower: Any) -> None:
    """The events have the bytes of its messages, with the metadata of one on its way."""
    exchanges, result = flower
    events = result.events[result.events["node"] == "client-0"]
    for event, place in (("receive", 0), ("send", 1)):
        charged = events[events["event"] == event]["payload_bits"].to_numpy()[-4:] / 8
        sent = [size(pair[place]) for pair in exchanges]
        assert ((charged - sent >= 0) & (charged - sent < 32)).all()


def test_the_page_has_both_counts(flower: Any) -> None:
    (_, keys), (known, shares), (_, vector), (_, unmasking) = flower[0]
    bits = ours()
    rows = {
        "its public keys": (bits.keys_up, keys),
        "keys of others": (bits.keys_down, known),
        "encrypted shares": (bits.shares_up + bits.framing_up, shares),
        "masked vector": (bits.vector, vector),
        "shares for the unmasking": (bits.unmasking, unmasking),
    }
    page = PAGE.read_text(encoding="utf-8")
    for name, (counted, message) in rows.items():
        inside = sum(length * count for length, count in parts(message).items())
        # Names of keys and numbers of nodes have a length that is drawn.
        row = re.search(rf"\| {name} \| ([\d,]+) \| ([\d,]+) \| ([\d,]+) \|", page)
        assert row is not None, name
        printed = [int(cell.replace(",", "")) for cell in row.groups()]
        assert printed[:2] == [-(-counted // 8), inside], name
        assert printed[2] == pytest.approx(size(message), abs=30), name
