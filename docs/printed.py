"""Run the commands of pages, and write what they print now: `python docs/printed.py [PAGE...]`.

It is for a block of text that follows a block of commands (`sh`), such as in howto/slow-devices.md.
A part of the text begins at the line of the output that begins with the same three words, and has
as many lines as before; a line of three dots separates parts. Read the page afterwards: its
sentences quote these figures.
"""

import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

DOCS = Path(__file__).parent
BLOCK = re.compile(r"(^```sh\n(.*?)^```\n+```text\n)(.*?)(^```$)", re.DOTALL | re.MULTILINE)


def output(commands: str) -> list[str]:
    """Return the lines that commands print in an empty folder, without blank ones."""
    with tempfile.TemporaryDirectory() as folder:
        printed = ""
        for command in commands.splitlines():
            done = subprocess.run(  # noqa: S603 - the pages are ours
                [sys.executable, "-m", *shlex.split(command)],
                cwd=folder,
                env=os.environ | {"COLUMNS": "100"},
                stdout=subprocess.PIPE,
                text=True,
                check=True,
            )
            printed += done.stdout
    return [line.rstrip() for line in printed.splitlines() if line.strip()]


def renewed(shown: str, lines: list[str]) -> str:
    """Return a block of text with the lines that are printed now."""
    parts = []
    for part in re.split(r"^\.\.\.\n", shown, flags=re.MULTILINE):
        old = part.splitlines()
        first = next(line for line in old if line.strip()).split()[:3]
        at = next(place for place, line in enumerate(lines) if line.split()[:3] == first)
        wanted = sum(bool(line.strip()) for line in old)
        new = iter(lines[at : at + wanted])
        parts.append("".join(f"{next(new) if line.strip() else ''}\n" for line in old))
        lines = lines[at + wanted :]
    return "...\n".join(parts)


def main() -> None:
    """Renew the pages that are named, or all."""
    pages = [Path(name).resolve() for name in sys.argv[1:]] or sorted(DOCS.rglob("*.md"))
    for page in pages:
        text = page.read_text(encoding="utf-8")
        new = BLOCK.sub(
            lambda found: found[1] + renewed(found[3], output(found[2])) + found[4], text
        )
        if new != text:
            page.write_text(new, encoding="utf-8")
            print(page.relative_to(DOCS))  # noqa: T201 - a command


if __name__ == "__main__":
    main()
