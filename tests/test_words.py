"""The words and names of fedsim: none of `words.toml` is there more often than its limit.

The limits only go down; `python -m tests.words --lower` lowers them to what there is.
"""

import pytest

from tests import words

RULES = words.rules()

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("folder", RULES["limits"])
def test_no_word_of_the_list_comes_back(folder: str) -> None:
    limits = RULES["limits"][folder]
    more = {
        name: f"{count}, at most {limits.get(name, 0)}; write: {RULES['words'][name]['instead']}"
        for name, count in words.counted(folder).items()
        if count > limits.get(name, 0)
    }
    assert more == {}


def test_functions_are_named_by_verbs_or_nouns() -> None:
    found = words.participles()
    assert len(found) <= RULES["names"]["participles"], "\n".join(found)


def test_one_name_stands_for_one_class() -> None:
    found = words.shared()
    assert len(found) <= RULES["names"]["shared"], found


def test_words_are_counted_in_prose_and_not_in_code(monkeypatch: pytest.MonkeyPatch) -> None:
    page = "Nobody says who, but `who` does.\n\n```python\nwho = 1\n```\n"
    monkeypatch.setattr(words, "texts", lambda _: [words.CODE.sub("", page)])
    assert words.counted("docs")["who"] == 2
