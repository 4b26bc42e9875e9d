"""References: of methods and compressors by their `source`, of constants by their citations.

A source is one text with its publications, "Authors: Title, Venue Year, detail", separated by
semicolons; parts of another form, such as remarks, name no publication.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from fedsim.algorithms import ALGORITHMS
from fedsim.core.blocks.presets import Citation, Presettable
from fedsim.core.extras import VERSION
from fedsim.physics.devices import DEVICE_KINDS
from fedsim.physics.radios import RADIO_KINDS
from fedsim.results.analysis.latex import latex_text
from fedsim.wire import COMPRESSORS
from fedsim.wire.feedback import PACKERS

SIMULATOR = "fedsim"
"""The citation key of fedsim."""

_SOURCE = re.compile(
    r"(?P<authors>[^:;]+): (?P<title>.+?)"
    r"(?:, (?:(?P<venue>[A-Z][^,]*?) )?(?P<year>(?:1[89]|20)\d\d)(?:, .*)?)?"
)
_FEEDBACKS: Mapping[str, object] = dict(PACKERS.items())

_WORDS = re.compile(r"[A-Za-z]+")
_SKIPPED = {"a", "an", "the", "on", "of", "for", "in", "can", "to"}
_JOURNALS = ("Trans.", "J.", "Journal", "Algorithms", "Sensors", "Nature", "Electronics")


class Publication(NamedTuple):
    """A publication.

    Attributes:
        authors: separated by commas; a name of several words is one organisation's.
        title: the title.
        venue: the journal or conference; empty if unknown.
        year: as text; empty if unknown.
        note: a DOI or an address.
    """

    authors: str
    title: str
    venue: str = ""
    year: str = ""
    note: str = ""

    @property
    def key(self) -> str:
        """The citation key: first author, year, first word of the title."""
        first = re.split(r", | et al", self.authors)[0].split(" ")[-1]
        words = [
            each for each in _WORDS.findall(_ascii(self.title)) if each.lower() not in _SKIPPED
        ]
        name = "".join(_WORDS.findall(_ascii(first)))
        return f"{name}{self.year}{words[0] if words else ''}".lower()

    def bibtex(self) -> str:
        """Return its BibTeX entry."""
        fields = {"author": self._authors, "title": f"{{{latex_text(self.title)}}}"}
        journal = any(each in self.venue for each in _JOURNALS)
        kind = "misc"
        if self.venue and self.year and not self.note:
            kind = "article" if journal else "inproceedings"
            fields["journal" if journal else "booktitle"] = latex_text(self.venue)
        elif self.venue:
            fields["howpublished"] = latex_text(self.venue)
        fields |= {"year": self.year, "note": _addresses(self.note)}
        lines = (f"  {name} = {{{value}}}" for name, value in fields.items() if value)
        return f"@{kind}{{{self.key},\n" + ",\n".join(lines) + "\n}\n"

    @property
    def _authors(self) -> str:
        names, others = re.subn(r" et al\.?$", "", self.authors)
        parts = [name for name in names.split(", ") if name]
        single = len(parts) == 1 and " " in parts[0]
        written = [f"{{{latex_text(each)}}}" if single else latex_text(each) for each in parts]
        return " and ".join([*written, *(["others"] if others else [])])


def references_in(source: str) -> list[Publication]:
    """Return the publications that a source names.

    >>> (item,) = references_in("Li et al.: FedProx: a Title, with Commas, MLSys 2020, algorithm 2")
    >>> item.title, item.venue, item.year, item.key
    ('FedProx: a Title, with Commas', 'MLSys', '2020', 'li2020fedprox')
    """
    found = (_SOURCE.fullmatch(part.strip()) for part in source.split(";"))
    return [
        Publication(**{k: v or "" for k, v in each.groupdict().items()}) for each in found if each
    ]


def reference_of(citation: Citation) -> Publication:
    """Return the publication of a citation of `fedsim.physics.sources`."""
    venue, _, note = citation.where.partition(", doi ")
    note = f"doi {note}" if note else ""
    if not note and ("/" in venue or re.search(r"\w\.(com|org|eu|edu)\b", venue)):
        venue, note = "", venue
    return Publication(citation.authors, citation.title, venue, str(citation.year), note)


# What a scenario uses.


def of_algorithm(block: Mapping[str, Any]) -> list[Publication]:
    """Return the publications of a method."""
    return _of(ALGORITHMS.own.get(str(block["kind"])))


def of_wire(way: Mapping[str, Any]) -> list[Publication]:
    """Return the publications of the compressor of one direction and of its error feedback."""
    kind = str(way["compressor"]["kind"])
    own = [] if kind == "identity" else _of(COMPRESSORS.own.get(kind))
    return [*own, *_of(_FEEDBACKS.get(str(way["error_feedback"])))]


def of_constants(block: Mapping[str, Any], part: str) -> list[Publication]:
    """Return the sources of a device's or radio's constants that equal its preset.

    Args:
        block: the block in a recorded scenario; values that differ from the preset are left out.
        part: "device" or "radio".
    """
    registry = DEVICE_KINDS if part == "device" else RADIO_KINDS
    model = registry.own.get(str(block["kind"]))
    if model is None or not issubclass(model, Presettable) or block["kind"] not in model.presets:
        return []
    preset = model.presets[str(block["kind"])]
    return unique(
        reference_of(doubt.source)
        for name, doubt in preset.doubts.items()
        if str(block.get(name)) == str(preset.values.get(name))
    )


def simulator() -> str:
    """Return the entry of the simulator itself."""
    return (
        f"@misc{{{SIMULATOR},\n  author = {{{{The fedsim developers}}}},\n"
        "  title = {{fedsim: an event-driven network simulator for communication-efficient"
        f" federated optimisation}}}},\n  note = {{Version {latex_text(VERSION)}}}\n}}\n"
    )


def unique(references: Iterable[Publication]) -> list[Publication]:
    """Return publications in order, without duplicates."""
    return list({each.key: each for each in references}.values())


def bibtex(references: Iterable[Publication]) -> str:
    """Return the file of references: the simulator, then publications by their keys."""
    entries = sorted(unique(references), key=lambda each: each.key)
    return "\n".join([simulator(), *(each.bibtex() for each in entries)])


def _of(model: object) -> list[Publication]:
    source = getattr(model, "source", "")
    return references_in(source) if isinstance(source, str) else []


def _ascii(text: str) -> str:
    return unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()


def _addresses(text: str) -> str:
    """Return a note in LaTeX, with line breaks allowed in addresses and DOIs."""
    return " ".join(_address_parts(text))


def _address_parts(text: str) -> Iterator[str]:
    for word in text.split():
        bare = word.rstrip(";,")
        if "/" in bare:
            yield rf"\url{{{bare}}}{word[len(bare) :]}"
        else:
            yield latex_text(word)
