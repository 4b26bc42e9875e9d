"""Figures as files: formats, fonts, and the errors of both."""

from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory
from typing import Any

from matplotlib import rc_context, rcParams
from matplotlib.figure import Figure

from fedsim.core.atomic import write_whole
from fedsim.core.errors import DataError

FORMATS: Mapping[str, Mapping[str, Any]] = {
    "png": {"metadata": {"Software": None}, "dpi": 150},
    "svg": {"metadata": {"Date": None}},
    "pdf": {"metadata": {"Creator": None, "Producer": None, "CreationDate": None}},
    "pgf": {},
}
"""matplotlib's options by file ending; they make the bytes of a file reproducible."""

_LETTERS = r"\catcode`\&=12\catcode`\#=12\catcode`\~=12\relax"
"""TeX code that makes these characters plain letters in a PGF figure, as in other formats.
matplotlib passes them to TeX, in which a name such as "A & B" is an error."""

_OWN = r"\def\mathdefault#1{#1}\catcode`\_=\active\def_{\ifmmode\sb\else\_\fi}"
"""Further TeX code for a PGF figure, which matplotlib expects in the document."""

_TEX = ("pdflatex", "xelatex", "lualatex")
"""Programs that measure texts of a PGF figure; the first installed one is used."""


def save(figure: Figure, path: Path) -> None:
    """Write a figure in the format of the path's ending, without a date; see `FORMATS`.

    Fonts are embedded in a PDF as outlines (Type 42), which publishers accept.

    Args:
        figure: of matplotlib.
        path: the file to write, which ends in .png, .svg, .pdf or .pgf.

    Raises:
        DataError: the ending is unknown, or PGF is requested and TeX is not installed.
        OutputError: it cannot be written.

    Example:
        >>> drawn = fedsim.results.analysis.progress(result.rounds, {"gd": "GD"}, "gap")
    >>> save(drawn, out / "gap.pdf")
        >>> (out / "gap.pdf").exists()
        True
    """
    ending = check_format(path.suffix.removeprefix("."), path.name)
    if ending == "pgf":
        _save_pgf(figure, path)
        return
    image = BytesIO()
    settings: Any = {"svg.hashsalt": path.name, "pdf.fonttype": 42, "ps.fonttype": 42}
    with rc_context(settings):  # without a salt, the names of an SVG's parts are drawn
        figure.savefig(image, format=ending, **FORMATS[ending])
    write_whole(path, image.getvalue())


def _save_pgf(figure: Figure, path: Path) -> None:
    """Write a PGF figure, and beside it the PNG of each map in it, such as NAME-img0.png.

    Raises:
        DataError: TeX cannot typeset a text of the figure.
        OutputError: a file cannot be written.
    """
    # Imported here: it loads PDF fonts, which takes 0.2 s, for PGF files only.
    from matplotlib.backends.backend_pgf import LatexError

    settings: Any = {"pgf.texsystem": next(filter(which, _TEX)), "pgf.rcfonts": False}
    settings["pgf.preamble"] = rf"{rcParams['pgf.preamble']}\AtBeginDocument{{{_LETTERS}}}"
    with rc_context(settings), TemporaryDirectory() as folder:
        try:
            figure.savefig(Path(folder) / path.name, format="pgf")
        except (LatexError, ValueError) as error:  # matplotlib raises either
            text = f"TeX cannot typeset a text of the figure: {str(error).splitlines()[0]}"
            raise DataError("formats", text) from None
        begin, own_lines = b"\\begingroup%\n", f"{_OWN}{_LETTERS}%\n".encode()
        for file in sorted(Path(folder).iterdir()):
            content = file.read_bytes()
            if file.name == path.name:
                content = content.replace(begin, begin + own_lines, 1)
            write_whole(path.with_name(file.name), content)


def check_format(ending: str, given: str) -> str:
    """Return the format of a figure in lower case.

    Args:
        ending: of a file, without its dot.
        given: the user's text, for the error.

    Raises:
        DataError: there is no such format, or PGF is requested and TeX is not installed.
    """
    ending = ending.lower()
    if ending not in FORMATS:
        text = f"got {given!r}; expected one of the formats {', '.join(FORMATS)}"
        raise DataError("formats", text)
    if ending == "pgf" and not any(map(which, _TEX)):
        text = f"a PGF figure is typeset by TeX, and there is no {', '.join(_TEX)} here"
        raise DataError("formats", f"{text}: install TeX Live, or ask for pdf")
    return ending
