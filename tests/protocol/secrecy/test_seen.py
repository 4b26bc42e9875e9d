"""What a server, and clients that collude with it, see of a client's vector."""

from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import chisquare

from fedsim.core.errors import Failed
from fedsim.core.ports import ClientId
from fedsim.protocol.secrecy import masks, shamir
from fedsim.protocol.secrecy.blocks import LightSecAgg, SecAgg, SecAggPlus, Secrecy
from fedsim.protocol.secrecy.coded import powers, solve
from fedsim.protocol.secrecy.pairwise import SigningSecrets
from tests.protocol.secrecy.cohorts import Cohort

pytestmark = pytest.mark.needs("secrecy")

BLOCKS = [
    SecAgg(bits=6),
    SecAggPlus(bits=6, neighbours=2),
    LightSecAgg(bits=6, threshold=0.8, colluding=0.4),
]
ALL: set[ClientId] = set(range(5))


def whole(block: Secrecy, coordinates: int, seed: int) -> Cohort:
    cohort = Cohort(block, sorted(ALL), coordinates, seed)
    cohort.share(ALL)
    return cohort


@pytest.mark.slow
@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.kind)
def test_masked_vectors_are_uniform(block: Secrecy) -> None:
    """Over coordinates, and at one coordinate over seeds, whatever the vector is: here zero."""
    cohort = whole(block, 20_000, 1)
    modulus = cohort.scheme.code.modulus
    cohort.integers = dict.fromkeys(ALL, np.zeros(20_000, np.int64))
    for client in (0, 3):
        seen = np.bincount(cohort.masked(client), minlength=modulus)
        assert len(seen) == modulus
        assert chisquare(seen).pvalue > 1e-3
    over_seeds = []
    for seed in range(400):
        one = whole(block, 1, seed)
        over_seeds.append(int(one.secrets[2].mask(np.array([5]))[0]))
    counts, _ = np.histogram(over_seeds, bins=np.linspace(0, modulus, 9))
    # The bins of a prime differ by one value in 40 at most.
    sizes = [np.ceil(b) - np.ceil(a) for a, b in pairwise(np.linspace(0, modulus, 9))]
    assert chisquare(counts, np.array(sizes) * 400 / modulus).pvalue > 1e-3


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.kind)
def test_the_difference_of_two_masked_vectors_is_uniform(block: Secrecy) -> None:
    cohort = whole(block, 20_000, 2)
    code = cohort.scheme.code
    seen = np.bincount(code.reduce(cohort.masked(1) - cohort.masked(4)), minlength=code.modulus)
    assert chisquare(seen).pvalue > 1e-3


def test_shares_below_the_threshold_fit_every_secret() -> None:
    """t - 1 shares of a secret are shares of any other secret, too."""
    held = dict(zip([1, 2, 3], shamir.shares(12345, [77, 99, 1234], [1, 2, 3]), strict=True))
    for other in (0, 1, 2**254 + 3):
        # The one polynomial of degree 3 through the three shares, and another secret at 0.
        fourth = shamir.PRIME - 5
        weights = shamir.secret_of({**held, 4: fourth}) - shamir.secret_of({**held, 4: 0})
        share = (other - shamir.secret_of({**held, 4: 0})) * pow(weights, -1, shamir.PRIME)
        assert shamir.secret_of({**held, 4: share * fourth % shamir.PRIME}) == other


def test_a_server_with_too_few_colluding_clients_has_no_mask_of_a_client() -> None:
    """Four of five shares are needed, and three clients tell the server all that they hold."""
    cohort = whole(SecAgg(threshold=0.8, bits=8), 50, 3)
    victim, others = 0, [2, 3, 4]
    assert cohort.scheme.needed == 4
    sent, code = cohort.masked(victim), cohort.scheme.code
    # They know their masks with the victim; its own, and that with client 1, they only guess.
    left = sent
    for other in others:
        told = cohort.secrets[other]
        key = masks.agree(told._masking, cohort.keys[victim][1], masks.MASKING)  # type: ignore[attr-defined]
        left = left - masks.mask(key, 50, code.modulus_bits)
    for included in (ALL, ALL - {victim}):  # shares of its seed, or of its key
        told_shares = {v + 1: cohort.secrets[v].reveal(included)[victim] for v in others}
        guessed = shamir.secret_of(told_shares)
        right = cohort.secrets[victim]
        assert guessed not in (right._seed, right._masking)  # type: ignore[attr-defined]
    mask = masks.mask(masks.seed_key(guessed), 50, code.modulus_bits)
    assert code.centre(code.reduce(left - mask)).tolist() != cohort.plain({victim})
    assert np.abs(code.centre(code.reduce(left - mask))).max() > code.largest


def test_clients_below_t_hold_uniform_parts_of_a_mask() -> None:
    """Any T combinations of the T random parts are a bijection of them, so they tell nothing."""
    cohort = whole(LightSecAgg(threshold=0.8, colluding=0.4, bits=6), 4, 4)
    scheme, prime = cohort.scheme, cohort.scheme.code.modulus
    colluding = scheme.colluding  # type: ignore[attr-defined]
    assert colluding == 2
    for pair in ([0, 1], [1, 4], [2, 3]):
        rows = powers([client + 1 for client in pair], scheme.needed, prime)[:, -colluding:]
        inverse = solve(rows, np.eye(colluding, dtype=np.int64), prime)
        assert (rows @ inverse % prime == np.eye(colluding)).all()


def test_what_a_client_reveals_is_one_of_two_secrets() -> None:
    """Both would unmask the vector of a client that only seemed to be lost."""
    cohort = whole(SecAgg(threshold=0.6, bits=8), 3, 5)
    told = cohort.secrets[1].reveal({0, 1, 2})
    assert sorted(told) == sorted(ALL)
    assert all(isinstance(share, int) for share in told.values())


def total(cohort: Cohort, speaking: set[ClientId], voting: set[ClientId]) -> int:
    """Return the sum of the votes of some clients, modulo 2^32."""
    votes = [cohort.secrets[v].vote(v, sorted(ALL), speaks=v in speaking) for v in voting]
    return sum(votes) % 2**32


@pytest.mark.parametrize("block", [SecAgg(), LightSecAgg()], ids=lambda block: block.kind)
def test_votes_of_a_group_add_up_to_zero_only_if_all_are_silent(block: Secrecy) -> None:
    """Whoever speaks, and whoever's vote is missing, the sum and each vote are uniform."""
    sums: dict[str, list[int]] = {"one": [], "two": [], "missing": [], "silent client": []}
    for seed in range(60):
        cohort = whole(block, 1, seed)
        assert total(cohort, set(), ALL) == 0
        sums["one"].append(total(cohort, {seed % 5}, ALL))
        sums["two"].append(total(cohort, {1, 4}, ALL))
        sums["missing"].append(total(cohort, set(), ALL - {seed % 5}))
        sums["silent client"].append(total(cohort, set(), {seed % 5}))
    for name, drawn in sums.items():
        counts, _ = np.histogram(drawn, bins=np.linspace(0, 2**32, 5))
        assert chisquare(counts).pvalue > 1e-3, name


def signing(cohort: Cohort, client: ClientId) -> SigningSecrets:
    secrets = cohort.secrets[client]
    assert isinstance(secrets, SigningSecrets)
    return secrets


def test_a_server_that_sends_different_lists_gets_no_shares() -> None:
    """Else it would get shares of the key and of the seed of one client, from different ones."""
    cohort = whole(SecAgg(consistency=True), 3, 6)
    lists = {v: ALL - {0} if v < 3 else ALL for v in (1, 2, 3, 4)}
    signatures = {v: signing(cohort, v).sign(1, one) for v, one in lists.items()}
    with pytest.raises(Failed, match="the signature of the list of client 3 does not fit"):
        signing(cohort, 1).check(1, lists[1], signatures)
    with pytest.raises(Failed, match="sends another list of clients than was signed"):
        signing(cohort, 1).check(1, ALL, signatures)
    old = {v: signing(cohort, v).sign(2, ALL) for v in ALL}
    for v in ALL:
        signing(cohort, v).sign(3, ALL)
    with pytest.raises(Failed, match="does not fit"):
        signing(cohort, 1).check(3, ALL, old)


def test_a_server_that_replaces_keys_gets_no_shares() -> None:
    cohort = Cohort(SecAgg(consistency=True), sorted(ALL), 3, 7)
    encrypting, masking, signature, verifying = cohort.keys[2]
    cohort.keys[2] = [masks.public_key(masks.private_key(np.random.default_rng(0)))]
    cohort.keys[2] += [masking, signature, verifying]
    assert cohort.keys[2][0] != encrypting
    with pytest.raises(Failed, match="the signature of the keys of client 2 does not fit"):
        cohort.share(ALL)
