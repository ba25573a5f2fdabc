"""Descriptions known by their content, and hostile ones refused, in bounded time, without a word to the terminal."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from elaunch.errors import TopologyError
from elaunch.topology.files import markup
from elaunch.topology.files.reading import LARGEST, parse, read
from tests.unit.topology.files.test_hwloc_xml import VERSION_1
from tests.unit.topology.files.test_nccl_xml import SMALL
from tests.unit.topology.files.test_nvidia_smi import TABS

HWLOC = VERSION_1.format("").encode()


def refused(path: Path) -> str:
    """The one line that is said of a file that cannot be read."""
    with pytest.raises(TopologyError) as caught:
        read(path)
    text = str(caught.value)
    assert text.isprintable()
    assert text.startswith(str(path.parent))
    return text.removeprefix(f"{path}: ")


@pytest.mark.parametrize(
    ("content", "source"), [(SMALL, "nccl-xml"), (HWLOC, "hwloc-xml"), (TABS.encode(), "nvidia-smi")]
)
@pytest.mark.parametrize("lead", [b"", b"\n \n", b"\xef\xbb\xbf"])
def test_the_content_tells_the_format(tmp_path: Path, content: bytes, source: str, lead: bytes) -> None:
    (tmp_path / "machine.txt").write_bytes(lead + content.lstrip())
    assert read(tmp_path / "machine.txt").source == source


def test_what_cannot_be_opened_is_refused(tmp_path: Path) -> None:
    assert refused(tmp_path / "absent") == "cannot be read (No such file or directory)"
    os.mkfifo(tmp_path / "pipe")
    assert refused(tmp_path / "pipe").startswith("found no regular file; expected NCCL or hwloc XML")
    (tmp_path / "empty").write_bytes(b" \n")
    assert refused(tmp_path / "empty").startswith("found an empty file; expected NCCL or hwloc XML")
    (tmp_path / "folder").mkdir()
    assert refused(tmp_path / "folder") == "found no folder 'sys'; expected a captured sysfs tree"
    assert refused(Path("/dev/null")).startswith("found no regular file")


def test_a_name_with_escape_codes_does_not_reach_the_terminal(tmp_path: Path) -> None:
    with pytest.raises(TopologyError) as caught:
        read(tmp_path / "a\x1b[31m\nb")
    assert r"a\x1b[31m\x0ab: cannot be read" in str(caught.value)


BOMB = "".join(f'<!ENTITY e{n + 1} "{10 * f"&e{n};"}">' for n in range(25))
ENTITIES = f'<!DOCTYPE system [<!ENTITY e0 "aaaaaaaaaa">{BOMB}]><system version="1">&e25;</system>'
EXTERNAL = '<!DOCTYPE system [<!ENTITY x SYSTEM "file:///etc/passwd">]><system version="1">&x;</system>'
DEEP = "<system>" + "<cpu>" * 100_000
MANY = "<system>" + "<cpu/>" * (markup.MOST_ELEMENTS + 1) + "</system>"
LONG = f'<system version="{"1" * (markup.LONGEST_ATTRIBUTE + 1)}"/>'
WIDE = "<system " + " ".join(f"a{n}='1'" for n in range(100)) + "/>"
CODES = '<system version="1"><cpu numaid="\x9b31m\u202e&#10;."/></system>'


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (ENTITIES, "line 1: found a document type with declarations of its own; expected none"),
        (EXTERNAL, "line 1: found a document type with declarations of its own; expected none"),
        ("\n<system>&undefined;</system>", "line 2: found a fault (undefined entity); expected well-formed XML"),
        (DEEP, "line 1: found elements 65 deep; expected no more than 64"),
        (MANY, "line 1: found more than 100000 elements; expected a description of one machine"),
        (LONG, "line 1: found 32769 characters in 'version'; expected at most 32768"),
        (WIDE, "line 1: found 100 attributes in 'system'; expected at most 64"),
        (CODES, r"line 1: numaid of 'cpu' is '\x9b31m\x202e\x0a.'; expected a whole number"),
        ("<graphs version='1'/>", "line 1: found the element 'graphs'; expected 'system' (NCCL) or 'topology' (hwloc)"),
        ("<", "line 1: found a fault (unclosed token); expected well-formed XML"),
        ("<system>\x00</system>", "line 1: found a fault (not well-formed (invalid token)); expected well-formed XML"),
        (
            "<?xml version='1.0' encoding='no'?><system/>",
            "line 1: found an encoding that cannot be read; expected UTF-8",
        ),
        (
            "<?xml version='1.0' encoding='utf-7'?><system/>",
            "line 1: found an encoding that cannot be read; expected UTF-8",
        ),
    ],
    ids=lambda value: repr(value[:20]),
)
def test_hostile_and_damaged_xml_is_refused_with_its_line(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "machine.xml").write_text(content, encoding="utf-8")
    assert refused(tmp_path / "machine.xml").startswith(message)


def test_a_document_type_that_names_a_file_is_passed_over() -> None:
    assert parse(b'<!DOCTYPE topology SYSTEM "file:///etc/passwd">' + HWLOC.partition(b">")[2]).source == "hwloc-xml"


@pytest.mark.parametrize("line", [b"<cpu numaid='0'/>\n", b"GPU0\tGPU1\n", b"\x1b[", b"\n", b"CPU   "])
def test_a_huge_file_is_refused_at_once(tmp_path: Path, line: bytes) -> None:
    with (tmp_path / "huge").open("wb") as file:
        file.write(b"<system>\n")
        file.truncate(50 << 20)
    assert refused(tmp_path / "huge") == "found more than 8 MiB; expected the description of one machine"
    (tmp_path / "large").write_bytes(line * (LARGEST // len(line)))
    assert "expected" in refused(tmp_path / "large")
