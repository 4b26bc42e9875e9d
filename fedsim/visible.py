"""Text as it is: what would hide, reorder or restyle what is read, made visible.

Names come from files and folders of anybody's. A character that shows nothing, or turns the
direction of what follows, is shown by its number instead; the terminal, the page and the
figures all go through here.
"""

import unicodedata

_KEPT = "\n\u200c\u200d"
"""Ends of lines, and the joiners that several scripts are written with."""


def visible(text: str) -> str:
    r"""Return a text in which every character can be seen.

    >>> print(visible("a\u202eb\x1b[1m, \u00e9 \u4e2d"))
    a\u202eb\x1b[1m, é 中
    """
    if text.isprintable():
        return text
    return "".join(each if _is_seen(each) else _escaped(each) for each in text)


def _is_seen(character: str) -> bool:
    spaces = unicodedata.category(character) == "Zs"
    return spaces or character in _KEPT or character.isprintable()


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode()
