"""Counts of clipped vectors: what a run says of a clip that has changed its training."""

import re
from typing import Any

import numpy as np
import pytest

import fedsim
from fedsim.protocol.aggregation import Aggregator, CentredClipping
from fedsim.protocol.clip_counts import ClipCounts
from tests.protocol.test_aggregation import replies
from tests.runs import small

FEDAVG = {"kind": "fedavg", "step_size": 0.001, "local_steps": 3}


def notes(**changes: Any) -> list[str]:
    """Return the notes on a clip of one round of federated averaging."""
    result = fedsim.run(small(algorithm=FEDAVG, stop={"rounds": 1}, **changes))
    return [note.text for note in result.notes if "shortened" in note.text]


def test_counts_are_those_of_the_norms() -> None:
    norms = np.random.default_rng(1).lognormal(0, 2, 1001)
    counts = ClipCounts(0.7)
    for part in np.array_split(norms, 13):
        counts.add(part)
    longer = norms[norms > 0.7]
    assert (counts.vectors, counts.shortened) == (1001, len(longer))
    assert counts.largest == longer.max()
    assert counts.median == pytest.approx(np.median(longer), rel=0.02)
    assert longer.max() <= counts.sufficient <= 1.11 * longer.max()


@pytest.mark.parametrize("length", [1.0, 1.0 + 1e-12, 0.0, np.nan])
def test_a_vector_within_the_clip_up_to_rounding_is_not_shortened(length: float) -> None:
    counts = ClipCounts(1.0)
    counts.add(length)
    assert (counts.vectors, counts.shortened, counts.share) == (1, 0, 0.0)


def test_a_norm_that_is_infinite_counts_and_has_no_part_in_the_advice() -> None:
    counts = ClipCounts(1.0)
    counts.add(np.array([np.inf, 3.0]))
    assert (counts.shortened, counts.largest, counts.sufficient) == (2, 3.0, 3.0)


def test_a_clip_of_secure_aggregation_that_shortens_is_a_note_and_the_advised_one_is_none() -> None:
    (text,) = notes(secrecy={"kind": "secagg", "clip": 1e-3})
    assert "0.001 shortened 100 % of 5 vectors" in text
    advised = float(re.search(r"a clip of (\S+) keeps", text)[1])  # type: ignore[index]
    assert notes(secrecy={"kind": "secagg", "clip": advised}) == []
    assert len(notes(secrecy={"kind": "secagg", "clip": 0.8 * advised})) == 1


@pytest.mark.needs("privacy")
def test_a_clip_of_privacy_is_a_note_if_it_shortens_more_than_half() -> None:
    (text,) = notes(privacy={"clip": 1e-3, "noise": 1})
    assert "0.001 shortened 100 % of 5 vectors" in text
    assert notes(privacy={"clip": 1e6, "noise": 1}) == []
    assert notes(privacy={"clip": {"kind": "adaptive", "start": 1e-3}, "noise": 0.1}) == []


def test_a_radius_of_centred_clipping_that_shortens_is_a_note_and_the_advised_one_is_none() -> None:
    def clipping(radius: float, **more: Any) -> list[str]:
        return notes(aggregation={"kind": "centred-clipping", "radius": radius, **more})

    (text,) = clipping(1e-3)
    assert "0.001 shortened 100 % of 5 vectors" in text
    advised = float(re.search(r"a radius of (\S+) keeps", text)[1])  # type: ignore[index]
    assert clipping(advised) == []
    assert len(clipping(0.8 * advised)) == 1
    assert clipping(1e-3, before=["bucketing"]) == []  # means of replies are clipped


def test_the_vectors_that_centred_clipping_shortens_are_differences_to_its_last_result() -> None:
    rng = np.random.default_rng(3)
    aggregator = Aggregator(CentredClipping(radius=1.0), lambda: rng)
    lengths, last = list[float](), np.zeros(4)
    for _ in range(3):
        rows = rng.normal(size=(5, 4))
        lengths += np.linalg.norm(rows - last, axis=1).tolist()
        last = aggregator.sum(replies(rows), "x", np.full(5, 0.2))
    counts = aggregator.tally.clipped
    assert counts is not None
    assert counts.vectors == 15
    assert counts.shortened == sum(length > 1 for length in lengths)
    assert counts.largest == pytest.approx(max(lengths), rel=1e-12)
