"""What the folder of a run tells in words: what its data are called, and what a JSON file lacks."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from fedsim.core.errors import DataError
from fedsim.core.table_columns import higher_is_better
from fedsim.results.record.folder import SCENARIO
from fedsim.results.record.manifest import check_kinds
from fedsim.results.record.scenarios import Note, data_of, once, read_text, sign
from tests.tiers import every


@every(
    ("data", "called"),
    [
        ({"kind": "catalogue", "name": "mnist"}, "mnist"),
        ({"kind": "csv", "path": "somewhere/mine.csv"}, "mine.csv"),
        ({"kind": "tong"}, "tong"),
        (None, "quadratic"),  # clients that have data of their own
    ],
)
def test_data_are_called_by_their_name_or_file_or_kind(
    data: dict[str, Any] | None, called: str
) -> None:
    assert data_of({"problem": {"data": data, "loss": {"kind": "quadratic"}}}) == called


class Told(BaseModel):
    rounds: int
    reason: str


def test_all_that_a_file_does_not_tell_is_named() -> None:
    with pytest.raises(DataError, match="it lacks rounds, reason"):
        check_kinds(Told, {}, Path("summary.json"))
    with pytest.raises(DataError, match=r"it lacks reason\b"):
        check_kinds(Told, {"rounds": "many"}, Path("summary.json"))


def test_a_value_of_the_wrong_kind_is_shown() -> None:
    with pytest.raises(DataError, match="rounds: got 'many'; "):
        check_kinds(Told, {"rounds": "many", "reason": ""}, Path("summary.json"))


@every("word", ["accuracy", "acc", "precision", "recall", "f1", "auc", "r2", "score", "iou"])
def test_figures_of_a_users_own_that_are_good_where_they_are_high(word: str) -> None:
    assert higher_is_better(word)
    assert higher_is_better(f"eval_{word}")
    assert higher_is_better(f"eval-{word}")
    assert not higher_is_better(f"{word}_loss")


def test_a_scenario_of_a_run_that_has_not_ended_is_held_against_its_own_hash(
    tmp_path: Path,
) -> None:
    (tmp_path / SCENARIO).write_text(sign("seeds: 1\n"), encoding="utf-8")
    assert read_text(tmp_path).startswith("seeds: 1\n")
    changed = sign("seeds: 1\n").replace("seeds: 1", "seeds: 2")
    (tmp_path / SCENARIO).write_text(changed, encoding="utf-8")
    with pytest.raises(DataError, match="does not match its hash"):
        read_text(tmp_path)


def test_a_finding_of_many_seeds_is_one_note_per_variant() -> None:
    texts = ["3 were late", "4 were late", "3 were late"]
    notes = [
        Note(f"{variant}, seed {seed}", "fleet", text)
        for variant in ("base", "gd")
        for seed, text in enumerate(texts, 1)
    ]
    assert once([*notes, Note("gd, seed 1", "seeds", "alike")]) == [
        Note("base", "fleet", "3 to 4 were late (over 3 seeds)"),
        Note("gd", "fleet", "3 to 4 were late (over 3 seeds)"),
        Note("gd, seed 1", "seeds", "alike"),
    ]


def test_notes_that_differ_in_more_than_counts_are_that_of_the_first_seed() -> None:
    texts = ["client-1 left after 1,200 rounds", "client-2 left after 900 rounds"]
    notes = [Note(f"base, seed {seed}", "fleet", text) for seed, text in enumerate(texts, 1)]
    (note,) = once(notes)
    assert note == Note("base, seed 1", "fleet", f"{texts[0]} (likewise in 1 more seed)")
    (same,) = once(
        [note._replace(text=note.text.replace("client-2", "client-1")) for note in notes]
    )
    assert same.text == "client-1 left after 900 to 1,200 rounds (over 2 seeds)"


def test_two_findings_of_one_run_with_one_key_stay_two() -> None:
    notes = [
        Note(f"base, seed {seed}", "fleet", text) for seed in (1, 2) for text in ("one", "other")
    ]
    assert [note.text for note in once(notes)] == [
        "one (likewise in 1 more seed)",
        "other (likewise in 1 more seed)",
    ]


def test_a_printed_note_is_whole_so_that_what_to_do_is_not_cut() -> None:
    text = f"runs/x holds runs with other values; {'x' * 200}; they move into .earlier"
    assert [note.text for note in once([Note("base, seed 1", "runs", text)])] == [text]


def test_a_quiet_command_prints_what_changes_the_meaning_of_a_result() -> None:
    keys = ("objective", "clients", "rounds", "fleet", "stop.rounds", "participation.deadline")
    notes = [Note("base, seed 1", key, "text") for key in keys]
    assert [note.key for note in once(notes, needed=True)] == [*keys[:4]]
