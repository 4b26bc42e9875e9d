"""Texts of YAML, changed letter by letter and line by line."""

from collections.abc import Callable

import numpy as np

TOKENS = (
    *("&a ", "*a", "<<: *a", "!!python/object:os.system ", "!!binary aGk=", "!!set ", "!!omap "),
    *(
        "!!float ",
        "!!int ",
        "!!timestamp ",
        "!x ",
        "!<tag:x> ",
        "? ",
        "- ",
        ": ",
        "\t",
        "\x85",
        "\u2028",
    ),
    *("{", "}", "[", "]", ",", "---\n", "...\n", "%YAML 2.0\n---\n", "%TAG ! x\n---\n", '"', "'"),
    *(
        "|",
        ">",
        "|2-\n",
        "\ufeff",
        "\0",
        "\x07",
        "@",
        "`",
        "#",
        " #",
        "0o17",
        "1:30",
        ".nan",
        "-.inf",
    ),
    *(".inf", "1e999", "0x", "+", "~", "\\x", '"\\ud800"', '"\\U00110000"', "\r", "\r\n", "\u202e"),
    *("[" * 300, "{a: " * 300, "- " * 300, "9" * 5000, "a" * 3000, "\n" * 300, "&a [*a, *a]"),
)


def _token(text: str, rng: np.random.Generator) -> str:
    place = int(rng.integers(len(text) + 1))
    return text[:place] + TOKENS[int(rng.integers(len(TOKENS)))] + text[place:]


def _value(text: str, rng: np.random.Generator) -> str:
    """Put a token where a value begins or ends."""
    lines = text.split("\n")
    number = int(rng.integers(len(lines)))
    key, colon, value = lines[number].partition(": ")
    token = TOKENS[int(rng.integers(len(TOKENS)))]
    lines[number] = f"{key}{colon}{token}{value if rng.random() < 0.7 else ''}"
    return "\n".join(lines)


def _letter(text: str, rng: np.random.Generator) -> str:
    place = int(rng.integers(len(text)))
    return text[:place] + chr(int(rng.integers(32, 127))) + text[place + 1 :]


def _gone(text: str, rng: np.random.Generator) -> str:
    place = int(rng.integers(len(text)))
    return text[:place] + text[place + int(rng.integers(1, 9)) :]


def _line_gone(text: str, rng: np.random.Generator) -> str:
    lines = text.split("\n")
    del lines[int(rng.integers(len(lines)))]
    return "\n".join(lines)


def _line_twice(text: str, rng: np.random.Generator) -> str:
    lines = text.split("\n")
    line = lines[int(rng.integers(len(lines)))]
    lines.insert(int(rng.integers(len(lines))), line)
    return "\n".join(lines)


def _indented(text: str, rng: np.random.Generator) -> str:
    lines = text.split("\n")
    number = int(rng.integers(len(lines)))
    lines[number] = " " * int(rng.integers(1, 5)) + lines[number]
    return "\n".join(lines)


def _cut(text: str, rng: np.random.Generator) -> str:
    return text[: int(rng.integers(len(text)))]


def _laughs(text: str, rng: np.random.Generator) -> str:
    """Add a value that stands for many by its aliases."""
    wide, deep = int(rng.integers(2, 12)), int(rng.integers(2, 14))
    lines = ["x0: &x0 [1, 2]"]
    lines += [f"x{i}: &x{i} [{', '.join([f'*x{i - 1}'] * wide)}]" for i in range(1, deep)]
    return "\n".join([*lines, text]) if rng.random() < 0.5 else f"{text}\n" + "\n".join(lines)


_ALL: tuple[Callable[[str, np.random.Generator], str], ...] = (
    *[_token] * 3,
    *[_value] * 4,
    *[_letter] * 2,
    _gone,
    _line_gone,
    _line_twice,
    _indented,
    _cut,
    _laughs,
)


def changed(text: str, rng: np.random.Generator) -> bytes:
    """Return a text with one change, or a few, some of which leave it no UTF-8."""
    for _ in range(int(rng.choice([1, 1, 1, 2, 5]))):
        text = _ALL[int(rng.integers(len(_ALL)))](text or "a", rng)
    content = bytearray(text.encode("utf-8", "surrogatepass"))
    if content and rng.random() < 0.05:
        content[int(rng.integers(len(content)))] = int(rng.integers(128, 256))
    return bytes(content)
