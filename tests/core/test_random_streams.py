"""Streams that are made together are those that are made one by one."""

from collections.abc import Callable
from copy import deepcopy
from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedsim
from fedsim.core import streams
from fedsim.core.errors import WorkDurationError
from fedsim.core.ports import Array, Work
from fedsim.core.streams import EntityStreams, Streams, drawing, stream
from fedsim.physics.slowdowns import Slowdown
from fedsim.sim.arrays.client import ArrayClient

SEEDS = st.one_of(
    st.integers(0, 2**200), st.sampled_from([0, 2**32 - 1, 2**32, 2**128 - 1, 2**128, 2**160])
)


def draws(rng: np.random.Generator) -> list[float]:
    return [rng.random(), rng.standard_normal(), int(rng.integers(99)), *rng.random(3).tolist()]


@given(SEEDS, st.lists(st.integers(0, 2**40), min_size=1, max_size=40), st.text(max_size=9))
def test_streams_made_together_are_those_made_one_by_one(
    seed: int, numbers: list[int], purpose: str
) -> None:
    together = Streams(seed).of_entities(purpose, numbers)
    for number, rng in zip(numbers, together, strict=True):
        assert draws(rng) == draws(stream(seed, purpose, number))


def test_they_spawn_and_seed_others_as_those_do() -> None:
    together, alone = Streams(5).of_entities("client", range(20))[19], stream(5, "client", 19)
    own, other = (rng.bit_generator.seed_seq for rng in (together, alone))
    assert own is not None
    assert type(own) is not type(other)
    for words, dtype in ((4, np.uint64), (4, np.uint32), (7, np.uint64)):
        assert (own.generate_state(words, dtype) == other.generate_state(words, dtype)).all()
    for _ in range(2):  # the second time, further ones
        assert [draws(rng) for rng in together.spawn(2)] == [draws(rng) for rng in alone.spawn(2)]
    copied = deepcopy(together)
    assert draws(copied) == draws(together) == draws(alone)


def test_words_that_are_not_numpys_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "_mix_seeds", lambda _, keys: np.ones((keys.shape[1], 4), int))
    together = Streams(3).of_entities("client", range(20))
    assert [draws(rng) for rng in together] == [draws(stream(3, "client", n)) for n in range(20)]


def test_streams_made_together_are_watched_as_others_are() -> None:
    with drawing() as drawn:
        made = Streams(3).of_entities("client", range(20))
        assert not drawn()
        made[-1].random()
        assert drawn()


def test_an_entity_has_one_stream_however_it_is_asked_for() -> None:
    own = EntityStreams(Streams(3), "client", 50)
    alone = own.of(7)
    many = own.of_many([*range(40), 7])
    assert many[7] is alone is many[40] is own.of(7)
    assert many[8] is own.of(8)
    addresses = own.addresses(np.array([8, 45, 7]), id)
    assert addresses.tolist() == [id(own.of(number)) for number in (8, 45, 7)]


class Backwards(Slowdown):
    """Some tasks would end before they begin."""

    kind: Literal["backwards"] = "backwards"

    def draw(self, rng: np.random.Generator) -> float:
        return -1.0 if rng.random() < 0.004 else 1.0 + rng.random()


def watched(drawn: list[int], draw: Callable[..., Array]) -> Callable[..., Array]:
    """Note of how many clients times are drawn together."""

    def noting(client: ArrayClient, work: Work, streams: list[np.random.Generator]) -> Array:
        drawn.append(len(streams))
        return draw(client, work, streams)

    return noting


def test_a_duration_that_cannot_be_is_refused_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = {
        "problem": {
            "loss": {"kind": "squared"},
            "data": {"kind": "sklearn", "name": "breast-cancer", "preprocess": ["standardise"]},
            "split": {
                "kind": "contiguous",
                "remainder": "drop",
            },  # all are alike, and drawn at once
        },
        "algorithm": {"kind": "fedavg", "step_size": 1e-4, "local_steps": 3},
        "fleet": [
            {
                "count": 20,
                "device": {"kind": "phone-mid", "slowdown": {"kind": "backwards"}},
                "radio": "lte",
            }
        ],
        "stop": {"rounds": 50},
    }
    drawn, messages = list[int](), list[str]()
    monkeypatch.setattr(ArrayClient, "drawn_seconds", watched(drawn, ArrayClient.drawn_seconds))
    for rounds in ("arrays", "events"):
        monkeypatch.setenv("FEDSIM_ROUNDS", rounds)
        with pytest.raises(WorkDurationError, match="the factors of its slowdown back") as refusal:
            fedsim.run(scenario, blocks=[Backwards])
        messages.append(str(refusal.value))
    assert messages[0] == messages[1]
    assert drawn
    assert set(drawn) == {20}
