"""Print what changed in a version, for its release; refuse a tag that is no release.

    python .ci/release_notes.py v0.2.0 [ADDRESS]

ADDRESS is that of the repository that is released, which `pyproject.toml` has to name.
"""

import re
import sys
import tomllib
from pathlib import Path

_ROOT = Path(__file__).parents[1]


def notes(tag: str, address: str | None = None) -> str:
    """Return the section of the changelog on the version of a tag, with links that lead anywhere.

    Raises:
        SystemExit: the tag is not the version in the code, the changelog has no dated section
            on it, or the address is not that of the project.
    """
    code = (_ROOT / "fedsim/core/extras.py").read_text(encoding="utf-8")
    version = re.findall(r'^VERSION = "(.*)"$', code, re.MULTILINE)[0]
    if tag != f"v{version}":
        sys.exit(f"the tag is {tag}, and fedsim/core/extras.py has version {version}: v{version}")
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    known = project["urls"]["Repository"]
    if address not in {None, known}:
        sys.exit(f"this is {address}, and pyproject.toml has {known}: run .ci/address {address}")
    text = (_ROOT / "docs/changelog.md").read_text(encoding="utf-8")
    head = rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d\n"
    section = re.search(rf"{head}(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    if section is None:
        sys.exit(f"docs/changelog.md has no section '## [{version}] - YYYY-MM-DD'")
    there = f"]({known}/blob/{tag}/docs/"
    return re.sub(r"\]\((?!https?:)", there, section[1]).replace("docs/../", "").strip()


if __name__ == "__main__":
    print(notes(*sys.argv[1:]))
