"""Update the generated parts of the documentation: `python docs/write.py`.

With --check nothing is written: what is out of date is named, and ends it with an error.
"""

import sys
from pathlib import Path

from making.pages import written
from making.picture import house
from making.reference import reference_pages
from making.stages import stages

DOCS = Path(__file__).parent


def texts() -> dict[Path, str]:
    """Return every file that is generated, at least in part, as it should be."""
    pages = {path: path.read_text(encoding="utf-8") for path in sorted(DOCS.rglob("*.md"))}
    generated = {path: written(page) for path, page in pages.items() if "<!-- generated: " in page}
    drawn = {DOCS / "house.svg": house(), DOCS / "stages.svg": stages()}
    return {**generated, **drawn, **reference_pages()}


def main() -> None:
    """Write them, or list those that are out of date."""
    stale = []
    for path, text in texts().items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            stale.append(path.relative_to(DOCS).as_posix())
            if "--check" not in sys.argv:
                path.write_text(text, encoding="utf-8")
    if stale and "--check" in sys.argv:
        sys.exit(f"out of date: {', '.join(stale)}; python docs/write.py writes them")


if __name__ == "__main__":
    main()
