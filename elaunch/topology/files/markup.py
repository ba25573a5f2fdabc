"""XML as a tree, within bounds: no entities, no document types of the file's own, nothing deep, endless or huge."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NoReturn
from xml.parsers import expat

from elaunch.errors import TopologyError
from elaunch.topology.files.wording import defect, quoted

DEEPEST = 64
MOST_ELEMENTS = 100_000
MOST_ATTRIBUTES = 64
LONGEST_ATTRIBUTE = 32_768
"""Characters: the mask of the largest set of CPUs that is accepted fits."""


@dataclass(slots=True)
class Element:
    """An element with its attributes, children, text and the line that it begins on."""

    tag: str
    attributes: dict[str, str]
    line: int
    children: list[Element] = field(default_factory=list)
    text: str = ""

    def all(self, tag: str) -> list[Element]:
        return [child for child in self.children if child.tag == tag]

    def get(self, attribute: str) -> str:
        """The attribute without surrounding blanks, empty where it is missing."""
        return self.attributes.get(attribute, "").strip()


def parse(data: bytes) -> Element:
    """The root element. Raises TopologyError, with the line, for what is not well-formed or beyond the bounds.

    A document type that only names a file (hwloc's) is passed over and never fetched.
    """
    start = len(data) - len(data.lstrip())
    builder = _Builder(first_line=data[:start].count(b"\n"))
    try:
        builder.parser.Parse(data[start:], True)
    except expat.ExpatError as error:
        what = expat.ErrorString(error.code) or "unknown"
        raise defect(
            error.lineno + builder.first_line, f"found a fault ({what})", "expected well-formed XML"
        ) from error
    except (LookupError, ValueError) as error:  # an encoding that Python does not know, or cannot map
        raise TopologyError("line 1: found an encoding that cannot be read; expected UTF-8") from error
    assert builder.root is not None  # expat refuses a document without an element
    return builder.root


class _Builder:
    def __init__(self, first_line: int) -> None:
        self.first_line = first_line
        self.root: Element | None = None
        self._open: list[Element] = []
        self._count = 0
        self.parser = expat.ParserCreate()
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._text
        self.parser.StartDoctypeDeclHandler = self._doctype
        self.parser.EntityDeclHandler = self._entity

    @property
    def _line(self) -> int:
        return self.parser.CurrentLineNumber + self.first_line

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        self._count += 1
        if self._count > MOST_ELEMENTS:
            self._refuse(f"found more than {MOST_ELEMENTS} elements", "expected a description of one machine")
        if len(self._open) >= DEEPEST:
            self._refuse(f"found elements {DEEPEST + 1} deep", f"expected no more than {DEEPEST}")
        if len(attributes) > MOST_ATTRIBUTES:
            self._refuse(f"found {len(attributes)} attributes in {quoted(tag)}", f"expected at most {MOST_ATTRIBUTES}")
        for name, value in attributes.items():
            if len(value) > LONGEST_ATTRIBUTE:
                self._refuse(
                    f"found {len(value)} characters in {quoted(name)}", f"expected at most {LONGEST_ATTRIBUTE}"
                )
        element = Element(tag, attributes, self._line)
        if self._open:
            self._open[-1].children.append(element)
        else:
            self.root = element
        self._open.append(element)

    def _end(self, tag: str) -> None:
        self._open.pop()

    def _text(self, text: str) -> None:
        if text.strip() and len(self._open[-1].text) <= LONGEST_ATTRIBUTE:
            self._open[-1].text += text

    def _doctype(self, name: str, system: str | None, public: str | None, has_internal_subset: int) -> None:
        if has_internal_subset:
            self._refuse("found a document type with declarations of its own", "expected none")

    def _entity(self, name: str, *rest: object) -> None:
        self._refuse(f"found a declaration of the entity {quoted(name)}", "expected none")

    def _refuse(self, found: str, expected: str) -> NoReturn:
        raise defect(self._line, found, expected)
