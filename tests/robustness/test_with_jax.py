"""Worlds priced with arrays of JAX: the same prices as with NumPy, and one sentence without JAX."""

import sys
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedsim
from fedsim.errors import DataError
from fedsim.repricing.history import Original
from fedsim.robustness.fleets import Lanes
from fedsim.robustness.pricing import priced_at
from fedsim.robustness.sharing import ends
from tests.repricing.prices import small
from tests.robustness.test_timeline import NETWORKS, STAGED, STAGED_FLEET, Stepped, in_si
from tests.tiers import examples

CLOSE = 1e-12
PAIR: dict[str, Any] = {"chb": {}, "gd": {"algorithm": "gd"}}

numbers = st.floats(0.1, 10.0)
transfers = st.lists(st.tuples(st.floats(0.0, 5.0), numbers, numbers), min_size=5, max_size=5)


@pytest.mark.needs("jax")
@pytest.mark.parametrize(("network", "count"), [("open", 5), ("narrow", 2)])
def test_prices_are_those_of_numpy(network: str, count: int, tmp_path: Path) -> None:
    """Of radios of all stages and of a user's own, over a shared link, of all clients or some."""
    changes: dict[str, Any] = {"participation": {"kind": "uniform", "count": count}}
    source = small("fedavg", rounds=6, fleet=STAGED_FLEET, network=NETWORKS[network], **changes)
    made = fedsim.run(source, out=tmp_path / "run", blocks=[Stepped])
    original, world = Original.of(made.runs[0], (Stepped,)), in_si(STAGED)
    ours = priced_at(range(1, 7), original, world, 3)
    theirs = priced_at(range(1, 7), original, world, 3, "jax")
    for name in ours._fields:
        one, other = getattr(ours, name), getattr(theirs, name)
        np.testing.assert_allclose(one, other, rtol=CLOSE, err_msg=name)


@pytest.mark.needs("jax")
@examples(60)
@given(transfers, st.lists(numbers, min_size=3, max_size=3))
def test_a_link_is_shared_as_compiled_code_shares_it(
    rows: list[tuple[float, float, float]], speeds: list[float]
) -> None:
    """Worlds differ in capacity, and in when each transfer begins."""
    begins, bits, caps = (np.array(each)[:, None] for each in zip(*rows, strict=True))
    worlds = np.array(speeds)
    began, own = begins * worlds, caps * np.ones(len(worlds))
    known = ends(began, bits, own, worlds)
    with pytest.importorskip("jax").enable_x64(True):
        found = np.asarray(share()(own, worlds, began, bits))
    np.testing.assert_allclose(found, known, rtol=1e-11)


@cache
def share() -> Any:
    """Return what shares a link, compiled once: of caps, capacities, begins and bits."""
    module = import_module("fedsim.robustness.jax_exchange")

    def ends_of(caps: Any, capacity: Any, began: Any, bits: Any) -> Any:
        lanes = Lanes(caps, 0 * caps, 0 * caps, 0 * caps, capacity, contended=True)
        return module._share(lanes, began, bits)

    return import_module("jax").jit(ends_of)


@pytest.mark.needs("jax")
def test_a_study_is_judged_alike(tmp_path: Path) -> None:
    made = fedsim.run(
        small(rounds=3, variants={"chb": {}, "gd": {"algorithm": "gd"}}), out=tmp_path / "run"
    )
    target = f"gap={made.summary['gap'].max() * 1.01}"
    ours = fedsim.robust(made.folder, target=target, worlds=64)
    theirs = fedsim.robust(made.folder, target=target, worlds=64, arrays="jax")
    columns = ["ratio", "ratio_mid", "probability"]
    one, other = ours.verdicts[columns], theirs.verdicts[columns]
    np.testing.assert_allclose(one.to_numpy(float), other.to_numpy(float), rtol=1e-9)


def test_what_is_no_library_of_arrays_is_refused(tmp_path: Path) -> None:
    made = fedsim.run(small(rounds=1), out=tmp_path / "run")
    with pytest.raises(DataError, match="got 'torch'; expected numpy or jax"):
        fedsim.robust(made.folder, arrays="torch")  # type: ignore[arg-type]


def test_without_jax_one_sentence_says_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = fedsim.run(small(rounds=2, variants=PAIR), out=tmp_path / "run")
    monkeypatch.setitem(sys.modules, "jax", None)
    monkeypatch.delitem(sys.modules, "fedsim.robustness.jax_exchange", raising=False)
    wanted = r"takes JAX, which is not installed here: pip install '\.\[jax\]'"
    with pytest.raises(DataError, match=wanted):
        fedsim.robust(made.folder, target="gap=1e9", arrays="jax")
