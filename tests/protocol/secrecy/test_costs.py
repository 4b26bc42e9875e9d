"""Bits of a client's messages against the printed figures of the papers."""

import re
from math import ceil, log2

import numpy as np
import pytest

from fedsim.protocol.secrecy.agreement import Agreement
from fedsim.protocol.secrecy.blocks import LightSecAgg, SecAgg, SecAggPlus, Secrecy
from fedsim.protocol.secrecy.coded import Coded
from fedsim.protocol.secrecy.costs import Bits
from fedsim.protocol.secrecy.scheme import Scheme
from tests.conftest import ROOT


def scheme(block: Secrecy, clients: int, coordinates: int) -> Scheme:
    known = Agreement(
        block=block,
        method="fedavg",
        coordinates=coordinates,
        rng=lambda *_: np.random.default_rng(0),
    )
    return known.scheme_among(range(clients), 1)


def bits(block: Secrecy, clients: int, coordinates: int) -> Bits:
    one = scheme(block, clients, coordinates)
    return one.bits(min(one.graph.degree, clients - 1), coordinates)


@pytest.mark.parametrize(
    ("clients", "coordinates", "whole", "times", "printed"),
    [(2**10, 2**20, 29_096_960, 1.7343, 1.73), (2**14, 2**24, 532_675_584, 1.9844, 1.98)],
)
def test_secagg_takes_what_bonawitz_et_al_print(
    clients: int, coordinates: int, whole: int, times: float, printed: float
) -> None:
    """CCS 2017, abstract: 1.73 times for 2^10 users, 1.98 for 2^14."""
    seen = bits(SecAgg(), clients, coordinates)
    n, vector = clients, coordinates * ceil(log2(clients * (2**16 - 1) + 1))
    assert seen.vector == vector
    assert seen.up + seen.down == 2 * n * 256 + (5 * n - 4) * 256 + vector == whole
    assert seen.up == 2 * 256 + (3 * n - 2) * 256 + vector
    assert (seen.up + seen.down) / (16 * coordinates) == pytest.approx(times, abs=5e-5)
    assert (seen.up + seen.down) / (16 * coordinates) == pytest.approx(printed, abs=5e-3)


@pytest.mark.parametrize("degree", [4, 50])
def test_secagg_plus_takes_the_same_among_neighbours(degree: int) -> None:
    """n is replaced by the size of a neighbourhood, to which its client belongs."""
    seen = bits(SecAggPlus(neighbours=degree), 1000, 5000)
    n, vector = degree + 1, 5000 * ceil(log2(1000 * (2**16 - 1) + 1))
    assert seen.up + seen.down == 2 * n * 256 + (5 * n - 4) * 256 + vector
    assert bits(SecAggPlus(neighbours=2000), 1000, 5000) == bits(SecAgg(), 1000, 5000)


def test_lightsecagg_takes_six_models_before_its_recovery() -> None:
    """MLSys 2022, table 1: m (1 + N/(U - T)), with T = N/2 and U = 0.7 N; m/(U - T) after it.

    The paper counts the part of the mask that a client keeps.
    """
    clients, coordinates = 200, 40_000
    one = scheme(LightSecAgg(threshold=0.7), clients, coordinates)
    assert isinstance(one, Coded)
    assert (one.colluding, one.needed) == (100, 140)
    seen, symbol = bits(LightSecAgg(threshold=0.7), clients, coordinates), one.code.modulus_bits
    kept = seen.unmasking
    assert kept == coordinates // 40 * symbol
    assert seen.vector + seen.shares_up + kept == 6 * coordinates * symbol


def test_the_consistency_check_takes_signatures_of_keys_and_of_a_list() -> None:
    """512 bits each (RFC 8032): its own two, and two of each other client."""
    seen, plain = bits(SecAgg(consistency=True), 100, 500), bits(SecAgg(), 100, 500)
    assert seen.up - plain.up == 2 * 512
    assert seen.down - plain.down == 2 * 99 * 512
    signed, unsigned = (scheme(block, 100, 500) for block in (SecAgg(consistency=True), SecAgg()))
    assert signed.begin_work - unsigned.begin_work == 87_548
    verified = signed.share_work(99, 500) - unsigned.share_work(99, 500)
    assert verified == pytest.approx(99 * 273_364)


def test_framing_is_apart() -> None:
    """A nonce of 96 bits, a tag of 128 and a name of 32 for each encrypted share."""
    seen = bits(SecAgg(), 10, 100)
    assert seen.framing_up == seen.framing_down == 9 * (96 + 128 + 32)


def test_the_page_has_the_server_s_operations() -> None:
    text = (ROOT / "docs/explanation/charged.md").read_text(encoding="utf-8")
    plus, light = SecAggPlus(neighbours=50), LightSecAgg(threshold=0.7)
    cases: list[tuple[Secrecy, float]] = [(SecAgg(), 0.0), (SecAgg(), 0.05)]
    cases += [(plus, 0.0), (plus, 0.05), (light, 0.0)]
    for clients in (100, 1_000, 10_000):
        works = (server_work(block, leaving, clients, 10**6) for block, leaving in cases)
        cells = " | ".join(written(work) for work in works)
        assert f"| {clients:,} | {cells} |" in text
    small = (written(server_work(light, 0.0, clients, 1_000)) for clients in (100, 1_000, 10_000))
    assert ", ".join(small) in text


def test_the_page_has_the_bytes_of_shares_that_the_server_holds() -> None:
    text = (ROOT / "docs/explanation/charged.md").read_text(encoding="utf-8").replace("\n", " ")
    for block in (SecAgg(), SecAggPlus(neighbours=50), LightSecAgg(threshold=0.7)):
        sizes = (100, 1_000, 10_000)
        few, some, many = (written(n * bits(block, n, 10**6).shares_up / 8) for n in sizes)
        assert re.search(rf"{few}, {some} and {many}( bytes)? with `{re.escape(block.kind)}`", text)


def server_work(block: Secrecy, leaving: float, clients: int, coordinates: int) -> float:
    """Return the server's operations in a round in which a share of the clients leaves."""
    shared = set(range(clients))
    included = set(range(round(leaving * clients), clients))
    work = scheme(block, clients, coordinates).server_work(included, shared, coordinates)
    return work + len(included) * coordinates  # the sum of the masked vectors


def written(operations: float) -> str:
    return f"{operations:.1e}".replace("e+0", "e").replace("e+", "e")
