"""A hook of MkDocs: pages are written so that they read well in a repository, too.

There an anchor is a tag in front of its heading, and links in tables lead to files.
"""

import re
from posixpath import dirname, join, relpath
from typing import Any

_ANCHOR = re.compile(r'^<a id="([^"]+)"></a>\n+(#+ .*)$', re.MULTILINE)
_LINK = re.compile(r'href="([\w/.-]+)\.md(#[^"]*)?"')


def on_page_markdown(markdown: str, page: Any, **_: object) -> str:  # noqa: ANN401 - MkDocs' own
    """Give headings their anchors, and links in HTML the addresses of pages."""
    source, address = page.file.src_uri, page.url

    def led(found: re.Match[str]) -> str:
        target = join(dirname(source), found[1])
        return f'href="{relpath(target, address or ".")}/{found[2] or ""}"'

    return _LINK.sub(led, _ANCHOR.sub(r"\2 { #\1 }", markdown))
