"""LEAF's JSON: users and their rows, numbers or texts, and what is not of that form."""

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedsim.core.errors import DataError
from fedsim.problems import Groups, Samples
from fedsim.problems.data import Leaf
from fedsim.problems.data.leaf import CHARACTERS

IMAGES: dict[str, Any] = {
    "users": ["f2", "f1"],
    "num_samples": [2, 1],
    "user_data": {
        "f2": {"x": [[0.0, 0.25, 1.0], [1, 1, 0]], "y": [61, 3]},
        "f1": {"x": [[0.5, 0.5, 0.5]], "y": [7]},
    },
}
PLAY: dict[str, Any] = {
    "users": ["HAMLET"],
    "num_samples": [2],
    "user_data": {"HAMLET": {"x": ["To be", "o be,"], "y": [",", " "], "raw": "ignored"}},
}


def read(folder: Path, tree: Any = None, **keys: Any) -> Samples:
    if tree is not None:
        content = tree if isinstance(tree, str) else json.dumps(tree)
        (folder / "all_data.json").write_text(content)
    source = Leaf.model_validate({"path": folder.name, **keys})
    return source.plain(folder.parent, np.random.default_rng(0))


def test_rows_come_user_by_user_and_clients_are_numbered_by_name(tmp_path: Path) -> None:
    samples = read(tmp_path, IMAGES)
    assert samples.X.tolist() == [[0, 0.25, 1], [1, 1, 0], [0.5, 0.5, 0.5]]
    assert samples.y.tolist() == [61, 3, 7]
    assert samples.client is not None
    assert samples.client.tolist() == [1, 1, 0]
    parts = Groups().assign(samples, 2, np.random.default_rng(0))
    assert [part.tolist() for part in parts] == [[2], [0, 1]]


def test_a_folder_is_read_file_by_file_and_a_file_by_itself(tmp_path: Path) -> None:
    (tmp_path / "all_data_1.json").write_text(json.dumps(IMAGES))
    more = {"users": ["a"], "num_samples": [1], "user_data": {"a": {"x": [[9, 9, 9]], "y": [1]}}}
    (tmp_path / "all_data_0.json").write_text(json.dumps(more))
    (tmp_path / "notes.txt").write_text("no JSON")
    samples = read(tmp_path)
    assert samples.y.tolist() == [1, 61, 3, 7]
    assert samples.client is not None
    assert samples.client.tolist() == [0, 2, 2, 1]
    packed = tmp_path / "one.json.gz"
    packed.write_bytes(gzip.compress(json.dumps(more).encode()))
    assert read(packed).rows == 1


def test_texts_are_the_numbers_of_leafs_characters(tmp_path: Path) -> None:
    assert len(CHARACTERS) == len(set(CHARACTERS)) == 80
    assert [CHARACTERS[number] for number in (0, 1, 25, 53, 79)] == ["\n", " ", "A", "a", "}"]
    samples = read(tmp_path, PLAY)
    assert samples.X.dtype == np.uint8
    assert ["".join(CHARACTERS[n] for n in row) for row in samples.X] == ["To be", "o be,"]
    assert [CHARACTERS[int(n)] for n in samples.y] == [",", " "]


def test_characters_may_be_ones_own(tmp_path: Path) -> None:
    tree = {"users": ["a"], "user_data": {"a": {"x": ["aé"], "y": ["é"]}}}
    with pytest.raises(DataError, match=r"user 'a', row 1: 'é' is none of the 80 characters"):
        read(tmp_path, tree)
    assert read(tmp_path, tree, characters="éa").X.tolist() == [[1, 0]]


def test_a_user_without_rows_is_no_client(tmp_path: Path) -> None:
    data = {**IMAGES["user_data"], "e": {"x": [], "y": []}}
    tree = {"users": ["e", "f1"], "num_samples": [0, 1], "user_data": data}
    assert read(tmp_path, tree).y.tolist() == [7]


def user(**own: Any) -> dict[str, Any]:
    return {"users": ["u"], "user_data": {"u": own}}


@pytest.mark.parametrize(
    ("tree", "told"),
    [
        (json.dumps(IMAGES)[:60], ["is no JSON, or it is cut off", "all_data.json"]),
        ("[" * 100_000, ["is no JSON"]),
        ([1], ["users is missing", "LEAF's form"]),
        ({"users": ["u"]}, ["user_data is missing"]),
        ({"users": 3, "user_data": {}}, ["users is 3"]),
        ({"users": ["u"], "user_data": {"v": {}}}, ["user_data of user 'u' is missing"]),
        (user(x=[[1]]), ["y of user 'u' is missing"]),
        (user(x=[[1], [2]], y=[1]), ["user 'u' has 2 rows in x, 1 labels in y"]),
        ({**IMAGES, "num_samples": [5, 1]}, ["user 'f2' has 2 rows", "5 in num_samples"]),
        (user(x=[[1, 2], [3]], y=[0, 1]), ["user 'u', row 2: x has the shape (1,)", "(2,)"]),
        (user(x=[[1], ["cat.jpg"]], y=[0, 1]), ["row 2: x is ['cat.jpg']"]),
        (user(x=[[1], [2]], y=[0, [1]]), ["row 2: y is [1]"]),
        (user(x=[[1], [2]], y=[0, "b"]), ["row 2: y is 'b'"]),
        (user(x=["abc", "ab"], y=["d", "c"]), ["row 2: a text of 2 characters", "first has 3"]),
        (user(x=["abc"], y=["de"]), ["label 'de'"]),
        (user(x=["0.jpg"], y=[1]), ["row 1: x is '0.jpg'"]),
        (user(x=[], y=[]), ["no user has a row"]),
        ({"users": [], "user_data": {}}, ["no user has a row"]),
    ],
)
def test_what_is_not_of_leafs_form_is_named(tree: Any, told: list[str], tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        read(tmp_path, tree)
    assert caught.value.key == "data.path"
    assert all(each in str(caught.value) for each in told), str(caught.value)


def test_users_with_rows_of_other_lengths_are_named(tmp_path: Path) -> None:
    data = {"a": {"x": [[1, 2]], "y": [0]}, "b": {"x": [[1]], "y": [0]}}
    with pytest.raises(DataError, match="user 'b' has 1 numbers per row, but that of 'a' 2"):
        read(tmp_path, {"users": ["a", "b"], "user_data": data})


def test_a_folder_of_folders_says_which_there_are(tmp_path: Path) -> None:
    (tmp_path / "train").mkdir()
    (tmp_path / "test").mkdir()
    with pytest.raises(DataError, match=r"no file that ends in \.json; it has the folders test, t"):
        read(tmp_path)
    with pytest.raises(DataError, match="cannot read"):
        read(tmp_path / "gone")


def test_what_would_not_fit_into_memory_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FEDSIM_MEMORY", "1 kB")
    with pytest.raises(DataError, match=r"all_data\.json: the first .* would take"):
        read(tmp_path, IMAGES)
