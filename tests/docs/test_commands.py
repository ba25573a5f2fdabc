"""Every command that the pages show is run, as it stands there; the few that cannot be are read by the real parser."""

from __future__ import annotations

import argparse
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator

import pytest

from elaunch.cli.commands import COMMANDS
from elaunch.cli.parser import build_parser, split_command
from tests.docs import blocks
from tests.docs.blocks import ROOT, Block
from tests.docs.sessions import READ, SESSIONS
from tests.docs.terminal import Terminal, script
from tests.etcd.servers import start_single

LONGEST = list(SESSIONS)[-1]
_SAID = re.compile(r"(?<!`)`elaunch ([^`]+)`(?!`)")
TORCHLESS = {"PET_START": "exec"}


def scripts() -> tuple[dict[str, str], list[Block]]:
    """Each session's script, and the blocks that are in none."""
    found, taken = blocks.shell_blocks(), set[Block]()
    made = {name: script(session, found, taken) for name, session in SESSIONS.items()}
    return made, [block for block in found if block not in taken]


@pytest.fixture(scope="module")
def terminals(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Terminal]]:
    """The sessions. The longest is begun at once, and its test is the last: the others go on beside it."""
    member = start_single(tmp_path_factory.mktemp("etcd"))
    begun: dict[str, Terminal] = {}
    try:
        for name, text in scripts()[0].items():
            folder = tmp_path_factory.mktemp(re.sub(r"\W", "-", name))
            environment = {"ETCD": member.endpoint, **({} if SESSIONS[name].torch else TORCHLESS)}
            begun[name] = Terminal(folder, text, environment)
        begun[LONGEST].start()
        yield begun
    finally:
        for terminal in begun.values():
            terminal.close()
        member.kill()


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", SESSIONS)
def test_a_session_of_a_reader(terminals: dict[str, Terminal], name: str) -> None:
    if name == "trio" and not shutil.which("etcdctl"):
        pytest.skip("there is no etcdctl")
    terminal = terminals[name]
    if not terminal.begun:
        terminal.start()
    said = terminal.finish()
    left = terminal.close(within=60)
    assert not left, f"left running: {left}\n{said}"


def test_every_block_is_run_or_read() -> None:
    kept = {(block.page, first) for block in scripts()[1] for (page, first) in READ if _is(block, page, first)}
    new = [b for b in scripts()[1] if not any(_is(b, page, first) for page, first in READ)]
    assert not new, "\n".join(f"{b.page}:{b.line}: in no session of tests/docs/sessions.py: {b.first}" for b in new)
    assert kept == set(READ), f"these are not there any more: {set(READ) - kept}"


def _is(block: Block, page: str, first: str) -> bool:
    return block.page == page and block.first.startswith(first)


@pytest.mark.parametrize(("page", "first"), READ)
def test_what_is_only_read_is_right_as_far_as_it_goes(page: str, first: str) -> None:
    (block,) = [b for b in scripts()[1] if _is(b, page, first)]
    subprocess.run(["bash", "-n"], input=block.script, text=True, check=True)
    for line in block.script.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if "elaunch" in words:
            parse(words[words.index("elaunch") + 1 :])
        if words and words[0] == "make":
            subprocess.run(["make", "--dry-run", *words[1:]], cwd=ROOT, check=True, capture_output=True)


def parse(words: list[str]) -> None:
    """Have the parser of the command read the words. Raises ElaunchError or SystemExit for what it does not take."""
    words = [word for word in words if word != "..."]
    if words and words[0] in COMMANDS:
        parsers = COMMANDS[words[0]].parsers()
        key = " ".join(words[:2]) if " ".join(words[:2]) in parsers else words[0]
        parser = parsers[key]
        for action in parser._actions:
            action.required = False  # "..." stands for what is required
        parser.parse_args(words[len(key.split()) :])
        return
    own, _ = split_command(build_parser(), words)
    build_parser().parse_args(own)


def test_no_command_stands_outside_of_a_block_that_is_run() -> None:
    """An indented block, or one that says no language, would not be found."""
    wrong = []
    for page in blocks.pages():
        name = page.relative_to(ROOT).as_posix()
        for block in blocks.blocks(page):
            if block.language in (blocks.SHELL, blocks.CONSOLE, *blocks.OF_OTHERS):
                continue
            wrong += [f"{name}:{block.line}: {line}" for line in block.text.splitlines() if blocks.COMMAND.match(line)]
        indented = ((n, line) for n, line in blocks.outside(page) if line.startswith("    "))
        wrong += [f"{name}:{n}: {line}" for n, line in indented if blocks.COMMAND.match(line.strip())]
    assert not wrong, "\n".join(wrong)


def test_commands_within_sentences_have_options_that_exist() -> None:
    wrong = []
    for page in blocks.pages():
        name = page.relative_to(ROOT).as_posix()
        for number, line in blocks.outside(page):
            for said in (s.split(" | ")[0] for s in _SAID.findall(line)):
                words = re.split(r"[\s|\[\]]+", said.replace("\\|", "|"))
                known = options(words[0])
                asked = [word.split("=")[0] for word in words if re.match(r"-{1,2}[a-z]", word)]
                wrong += [f"{name}:{number}: {said}: there is no {word}" for word in asked if word not in known]
    assert not wrong, "\n".join(wrong)


def options(command: str) -> set[str]:
    """The options of a command; of those that start jobs elsewhere, and where none is named, those of a job as well."""
    parsers = list(COMMANDS[command].parsers().values()) if command in COMMANDS else []
    if command in ("ssh", "slurm", "kubernetes") or not parsers:
        parsers.append(build_parser())
    while inner := [p for parser in parsers for p in _inner(parser) if p not in parsers]:
        parsers += inner
    return {text for parser in parsers for action in parser._actions for text in action.option_strings}


def _inner(parser: argparse.ArgumentParser) -> list[argparse.ArgumentParser]:
    nested = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    return [inner for action in nested for inner in action.choices.values()]
