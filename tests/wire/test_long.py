"""Long vectors, which are held as they are sent, are the payloads of any other vector."""

import gc

import numpy as np
import pytest

from fedsim.ports import DENSE
from fedsim.wire import encode
from fedsim.wire.formats import ValueFormat
from fedsim.wire.payloads.dense import Dense, LongDense, natural

LENGTH = 70_001


@pytest.mark.parametrize("form", list(ValueFormat))
@pytest.mark.filterwarnings("ignore:overflow encountered")
def test_it_is_the_payload_of_all_its_values(form: ValueFormat) -> None:
    vector = np.random.default_rng(1).standard_normal(LENGTH)
    vector[:4] = np.inf, np.nan, 1e300, -0.0
    found, expected = natural(vector, DENSE, form), Dense.of(vector, form)
    assert isinstance(found, LongDense) == (form is not ValueFormat.FLOAT64)
    assert found.values.tobytes() == expected.values.tobytes()
    assert not found.values.flags.writeable
    assert found.bits == expected.bits
    assert encode(found) == encode(expected)


@pytest.mark.parametrize("length", [3, LENGTH])
def test_what_nothing_changes_is_not_copied(length: int) -> None:
    vector = np.arange(length) / 3
    view = vector.view()
    view.flags.writeable = False  # but the vector may change
    for given in (vector, view):
        found = natural(given, DENSE, ValueFormat.FLOAT64).values
        assert not np.shares_memory(found, vector)
        assert not found.flags.writeable
    vector.flags.writeable = False
    assert natural(vector, DENSE, ValueFormat.FLOAT64).values is vector
    assert ValueFormat.FLOAT32.round(vector) is not vector


def test_readers_share_what_is_kept_only_as_long_as_one_of_them_holds_it() -> None:
    payload = natural(np.arange(LENGTH) / 3, DENSE, ValueFormat.FLOAT32)
    first = payload.values
    assert payload.values is first
    copy = first.copy()
    del first
    gc.collect()
    held = [each for each in vars(payload).values() if isinstance(each, np.ndarray)]
    assert sum(each.nbytes for each in held) == 4 * LENGTH
    np.testing.assert_array_equal(payload.values, copy)
