"""Pickles of others: plain values are read, and nothing that anybody writes into one is run."""

import os
import pickle
import pickletools
import struct
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.core.errors import DataError
from fedsim.physics.formats import pickles
from fedsim.physics.formats.pickles import loads_plain
from tests.guarded import FAULT, Tried, in_process

PATH = Path("trace.pickle")

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**500), 2**500) | st.floats(allow_nan=False)
    | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(st.text(max_size=3) | st.integers(), inner, max_size=4),
    max_leaves=20,
)  # fmt: skip


@given(PLAIN, st.integers(0, pickle.HIGHEST_PROTOCOL))
def test_plain_values_are_read_as_they_were_written(value: Any, protocol: int) -> None:
    assert loads_plain(pickle.dumps(value, protocol), PATH, "trace") == value


class Calls:
    """Something whose pickle calls what it likes."""

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> tuple[Any, ...]:
        return self.call


MARKER = "fedsim-pickle-was-here"


def marked() -> bool:
    return Path(MARKER).exists() or MARKER in os.environ


TOUCH = f"touch {MARKER}"


def deep(opening: bytes, times: int, closing: bytes) -> bytes:
    return b"\x80\x04" + opening * times + closing * (times - 1) + b"."


def doubling(times: int) -> bytes:
    """Return a pickle of lists that have the one before twice each."""
    step = b"".join(b"]\x94" + b"(h%ch%c" % (i - 1, i - 1) + b"e" for i in range(1, times))
    return b"\x80\x04]\x94" + step + b"."


ATTACKS: dict[str, tuple[bytes, str]] = {
    "a call": (pickle.dumps(Calls(os.system, TOUCH)), "STACK_GLOBAL would import"),
    "an old call": (pickle.dumps(Calls(os.system, TOUCH), 0), "GLOBAL would import posix system"),
    "a call within": (pickle.dumps({1: {"active": Calls(eval, "1")}}, 2), "GLOBAL"),
    "INST": (b"(S'" + TOUCH.encode() + b"'\nios\nsystem\n.", "INST would import and call os"),
    "OBJ": (b"(cos\nsystem\nS'x'\no.", "GLOBAL"),
    "NEWOBJ": (b"\x80\x02}}\x81.", "NEWOBJ is more than a plain value"),
    "NEWOBJ_EX": (b"\x80\x04}}}\x92.", "NEWOBJ_EX"),
    "REDUCE": (b"}}R.", "REDUCE"),
    "BUILD": (b"}}b.", "BUILD"),
    "EXT1": (b"\x80\x02\x82\x01.", "EXT1"),
    "EXT4": (b"\x80\x02\x84\x01\x00\x00\x00.", "EXT4"),
    "PERSID": (b"Pevil\n.", "PERSID"),
    "BINPERSID": (b"}Q.", "BINPERSID"),
    "a buffer": (b"\x80\x05\x97.", "NEXT_BUFFER"),
    "bytes": (pickle.dumps(b"abc"), "SHORT_BINBYTES"),
    "a set": (pickle.dumps({1, 2}), "EMPTY_SET"),
    "an array": (pickle.dumps(np.zeros(3)), "GLOBAL"),
    "a tuple in a tuple": (b"\x80\x02)" + b"\x85" * 10**6 + b"}s.", "TUPLE"),
    "a long text announced": (b"\x80\x04\x8d" + struct.pack("<Q", 2**62) + b"abc.", "no whole"),
    "a long number announced": (b"\x80\x02\x8b" + struct.pack("<i", 2**30) + b"\x01.", "no whole"),
    "a number of less than nothing": (b"\x80\x02\x8b" + struct.pack("<i", -1) + b"\x01.", "no"),
    "a long number": (pickle.dumps(1 << 10**6), "of 1000001 bits; up to 512 are accepted"),
    "a long number in digits": (b"L" + b"9" * 4000 + b"L\n.", "bits; up to 512"),
    "a place far out": (b"\x80\x02}r\xff\xff\xff\x7f.", "the memo's place 2147483647"),
    "a place in digits": (b"}p99999999999\n.", "the memo's place 99999999999"),
    "deep marks": (b"(" * 10**5 + b"l" * 10**5 + b".", "byte 50: .*up to 50"),
    "deep lists": (deep(b"]", 10**5, b"a"), "up to 50"),
    "a list in itself": (b"\x80\x04]\x94h\x00a.", "far more values|up to 50"),
    "lists that double": (doubling(60), "far more values"),
    "a key that is a list": (b"}]}s.", "no whole pickle"),
    "nothing": (b"", "no whole pickle"),
    "a stop alone": (b".", "no whole pickle"),
    "text": (b"id,active\n1,2\n", "no whole pickle|instruction"),
    "cut off": (pickle.dumps({1: [1, 2, 3]})[:-1], "no whole pickle"),
    "a protocol to come": (b"\x80\xff}.", "no whole pickle"),
}  # fmt: skip


def test_nothing_is_imported_even_where_the_instructions_were_not_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pickles, "_walk", lambda *_: 1)
    with pytest.raises(DataError, match=r"it would import posix\.system"):
        loads_plain(pickle.dumps({"a": os.system}), PATH, "trace")
    with pytest.raises(DataError, match="refers to 'evil', outside of the file"):
        loads_plain(b"Pevil\n.", PATH, "trace")


def test_a_list_in_many_places_is_refused_before_it_is_laid_out() -> None:
    count = 2000
    content = b"\x80\x04]\x94(" + b"K\x01" * count + b"e0](" + b"h\x00" * count + b"e."
    tracemalloc.start()
    try:
        with pytest.raises(DataError, match="far more values"):
            loads_plain(content, PATH, "trace")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8 * count**2 / 4  # a place takes 8 bytes


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_is_refused_in_words(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    content, words = ATTACKS[name]
    with pytest.raises(DataError, match=words) as caught:
        loads_plain(content, PATH, "trace")
    assert len(str(caught.value)) < 500
    assert not marked()


def test_what_a_pickle_would_make_is_held_against_the_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("FEDSIM_MEMORY", "1 MB")
    with pytest.raises(DataError, match=r"would take .* of memory"):
        loads_plain(pickle.dumps([[]] + [[i] for i in range(5000)]), PATH, "trace")


PARTS = tuple(
    [op.code.encode("latin-1") for op in pickletools.opcodes]
    + [content for content, _ in ATTACKS.values() if len(content) < 300]
    + [
        b"cos\nsystem\n",
        b"c__builtin__\neval\n",
        b"\x8c\x02os\x8c\x06system\x93",
        b"(ios\nsystem\n",
    ]
    + [struct.pack("<Q", 2**62), struct.pack("<i", -1), struct.pack("<I", 2**31), b"\xff" * 8]
    + [b"S'x'\n", b"(", b"h\x00", b"2", b"0", b"\x94", b"}", b"]", b"I1\n"]
)


def sound(rng: np.random.Generator) -> bytes:
    """Return a pickle as FedScale's are, by any protocol."""
    clients = {
        int(each): {
            "active": np.sort(rng.integers(0, 999, 3)).tolist(),
            "inactive": np.sort(rng.integers(999, 1999, 3)).tolist(),
            "finish_time": 2000,
            "computation": float(rng.random()),
            "model": "phone",
        }
        for each in range(int(rng.integers(1, 5)))
    }
    return pickle.dumps(clients, int(rng.integers(pickle.HIGHEST_PROTOCOL + 1)))


def damaged(content: bytes, rng: np.random.Generator) -> bytes:
    """Return what is left of a pickle after some changes, of a byte, a part, or its end."""
    for _ in range(int(rng.integers(1, 6))):
        place = int(rng.integers(len(content) + 1))
        new = PARTS[int(rng.integers(len(PARTS)))]
        match int(rng.integers(5)):
            case 0:
                content = content[:place] + new + content[place:]
            case 1:
                content = content[:place] + new + content[place + len(new) :]
            case 2:
                content = content[:place] + bytes([int(rng.integers(256))]) + content[place + 1 :]
            case 3:
                content = content[: max(place, 1)]
            case _:
                content = content[:place] + content[place + int(rng.integers(1, 9)) :]
    return content


class Hostile:
    """Plays hundred hostile pickles at a time: random instructions, and sound ones damaged."""

    def __call__(self, number: int) -> list[Tried]:
        rng = np.random.default_rng([number, 6])
        return [self._tried(self._drawn(rng)) for _ in range(100)]

    @staticmethod
    def _drawn(rng: np.random.Generator) -> bytes:
        if rng.random() < 0.2:
            picked = rng.integers(len(PARTS), size=int(rng.integers(1, 40)))
            return b"".join(PARTS[each] for each in picked) + b"."
        return damaged(sound(rng), rng)

    @staticmethod
    def _tried(content: bytes) -> Tried:
        try:
            value = loads_plain(content, PATH, "trace")
        except DataError as error:
            told = len(str(error)) < 500 and not marked()
            return Tried("pickle", "refused" if told else FAULT, repr(content))
        except Exception as error:
            return Tried("pickle", FAULT, f"{error!r} {content!r}")
        plain = isinstance(value, dict | list | str | int | float | None) and not marked()
        return Tried("pickle", "read" if plain else FAULT, repr(content))


@pytest.mark.slow
def test_ten_thousand_hostile_files_are_read_as_plain_values_or_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    tried = [each for _, each in in_process(Hostile(), range(100))]
    assert [each.text for each in tried if each.outcome == FAULT] == []
    outcomes = [each.outcome for each in tried]
    assert len(outcomes) == 10_000
    assert outcomes.count("read") > 300
    assert outcomes.count("refused") > 3000
    assert not marked()
