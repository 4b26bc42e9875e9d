"""Every compressor and every loss passes the checks; one that breaks a promise does not."""

from typing import ClassVar, Literal

import numpy as np
import pytest

from fedsim.conformance import check_compressor, check_loss
from fedsim.ports import Array
from fedsim.problems import Loss, Squared
from fedsim.problems.losses import Rows, State
from fedsim.wire import Compressor, Contract, RandK, Sparse, TopK, ValueFormat
from tests.problems.examples import CONVEX, NETWORKS, named
from tests.wire.compressors import ALL


@pytest.mark.parametrize("name", ALL)
def test_every_compressor_keeps_its_promises(name: str) -> None:
    table = check_compressor(ALL[name], draws=400)
    assert (table["outcome"] == "kept").all(), table[["check", "reason"]].to_string()


@pytest.mark.parametrize("loss", [*CONVEX, *NETWORKS], ids=named)
def test_every_loss_keeps_its_promises(loss: Loss) -> None:
    table = check_loss(loss)
    assert (table["outcome"] == "kept").all(), table[["check", "reason"]].to_string()


class Biased(RandK):
    """Forgets to multiply with d/k, and says that it is unbiased all the same."""

    def compress(self, vector: Array, rng: np.random.Generator, form: ValueFormat) -> Sparse:
        kept = np.sort(rng.choice(vector.size, self.size(vector.size), replace=False))
        return Sparse.at(kept, vector, form)


class Boasting(TopK):
    """Promises more than the k largest coordinates can give."""

    def contract(self, dimension: int) -> Contract:
        return Contract("contractive", 0.9)


class Unrepeatable(Compressor):
    """Draws from a stream of its own."""

    source: ClassVar[str] = "nobody"
    law: ClassVar[str] = "exact, by its word"
    kind: Literal["unrepeatable"] = "unrepeatable"

    def compress(self, vector: Array, rng: np.random.Generator, form: ValueFormat) -> Sparse:
        own = np.random.default_rng()
        return Sparse.at(np.arange(vector.size), vector + own.standard_normal(vector.size), form)

    def contract(self, dimension: int) -> Contract:
        return Contract("exact")


@pytest.mark.parametrize(
    ("compressor", "promise"),
    [
        (Biased(fraction=0.3), "the contract holds"),
        (Boasting(fraction=0.3), "the contract holds"),
        (Unrepeatable(), "the same stream sends the same"),
        (Unrepeatable(), "the contract holds"),
    ],
    ids=lambda value: value if isinstance(value, str) else value.kind,
)
def test_a_compressor_that_breaks_a_promise_is_found(compressor: Compressor, promise: str) -> None:
    table = check_compressor(compressor, draws=400).set_index("check")
    assert table["outcome"][promise] == "broken"
    assert table["reason"][promise]


class Steep(Squared):
    """Its gradient is twice that of its value."""

    def gradient(self, rows: Rows, w: Array, state: State) -> Array:
        return 2 * super().gradient(rows, w, state)


def test_a_loss_that_breaks_a_promise_is_found() -> None:
    table = check_loss(Steep(scale="sum")).set_index("check")
    broken = table.index[table["outcome"] == "broken"].tolist()
    assert "the gradient is that of differences of the value" in broken
    assert "the mean over all minibatches is the whole" not in broken
