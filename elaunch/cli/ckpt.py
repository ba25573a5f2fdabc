"""``elaunch ckpt``: look after the checkpoints in a directory."""

from __future__ import annotations

import argparse
import dataclasses
import io
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from elaunch.checkpoint.exporting import output_file
from elaunch.checkpoint.records import contents, removing, selection, survey, verifying
from elaunch.checkpoint.records.catalog import Catalog
from elaunch.checkpoint.records.directory import Directory, is_run, is_stock, open_directory
from elaunch.checkpoint.storages.failures import as_error
from elaunch.cli import ckpt_documents, ckpt_show
from elaunch.cli.ckpt_flags import parse_ckpt
from elaunch.cli.progress_bar import ProgressBar
from elaunch.errors import CheckpointRefusedError, DamagedCheckpointError, ElaunchError, UsageError

_FORMATS = (".pt", ".pth", ".safetensors")


def run(argv: Sequence[str], environ: Mapping[str, str]) -> int:
    """Run one command, the words after ``ckpt``; the exit code. Raises ElaunchError."""
    arguments = parse_ckpt(argv)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        code = _RUN[arguments.command](arguments)
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # `elaunch ckpt ls | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except ElaunchError as error:
        raise _told(error, arguments) from None
    except OSError as error:
        raise _told(as_error(error), arguments) from error


def _told(error: ElaunchError, arguments: argparse.Namespace) -> ElaunchError:
    if arguments.json:
        _print_json({"error": error.code, "text": str(error), "exit_code": error.exit_code})
    return error


def _ls(arguments: argparse.Namespace) -> int:
    directory = open_directory(arguments.dir)
    storage = directory.storage
    found = survey.look(storage, directory.single) if directory.single else survey.survey(storage)
    if arguments.json:
        _print_json(ckpt_documents.listing(found, storage.url))
    else:
        print(ckpt_show.listing(found, storage.url, time.time()))
    return 0


def _show(arguments: argparse.Namespace) -> int:
    directory = open_directory(arguments.dir)
    name = selection.one(directory, arguments.step)
    where = f"{directory.storage.url}/{name}"
    known = None if is_stock(directory.storage, name) else Catalog(directory.storage).manifest(name)
    if known is not None:
        held = contents.contents(known.entries)
    else:
        held = contents.contents(_with_torch("encoding.stock").entries(directory.storage, name))
    if arguments.json:
        _print_json(ckpt_documents.checkpoint(where, known, held))
    else:
        print(ckpt_show.checkpoint(where, known, held, time.time()))
    return 0


def _verify(arguments: argparse.Namespace) -> int:
    directory = open_directory(arguments.dir)
    wanted = [name for step in arguments.steps for name in selection.named(directory, step)]
    names = list(dict.fromkeys(wanted)) if arguments.steps else selection.all_names(directory)
    codes, told = set(), []
    for name in names:
        verdict, error = _verdict(directory, name)
        if verdict is None and error is None:
            continue  # retention was faster
        done = _marked(directory, verdict, arguments) if verdict is not None else ""
        if error is not None:
            codes.add(error.exit_code)
        elif verdict is not None and verdict.damages:
            codes.add(DamagedCheckpointError.exit_code)
        told.append(ckpt_documents.verdict(name, verdict, error, done))
        if not arguments.json:
            print(ckpt_show.verdict(name, verdict, error, done), flush=True)
    if arguments.json:
        _print_json(told)
    return min(codes, default=0)


def _verdict(directory: Directory, name: str) -> tuple[verifying.Verdict | None, ElaunchError | None]:
    """What became of one: an error says that it could not be found out."""
    storage = directory.storage
    try:
        if is_stock(storage, name):
            where = f"{storage.url}/{name}"
            return None, CheckpointRefusedError(f"{where}: has no sums: torch.distributed.checkpoint itself wrote it")
        with ProgressBar(sys.stderr, name, verifying.bytes_to_read(storage, name)) as bar:
            return verifying.verify(storage, name, bar.advance), None
    except OSError as error:
        return None, as_error(error)


def _marked(directory: Directory, verdict: verifying.Verdict, arguments: argparse.Namespace) -> str:
    """Set it aside, or take its mark away, as was asked for. What was done, in words."""
    catalog = Catalog(directory.storage)
    if not (arguments.mark or arguments.unmark):
        return ""
    if directory.single and not is_run(directory.storage):
        raise UsageError(f"{directory.storage.url}: is no directory of a run; marks are kept there")
    marked = verdict.name in catalog.marks()
    if verdict.damages and arguments.mark and not marked:
        catalog.mark(verdict.name, verdict.damages[0])
        return "set aside"
    if not verdict.damages and arguments.unmark and marked:
        catalog.unmark(verdict.name)
        return "no longer set aside"
    return ""


def _rm(arguments: argparse.Namespace) -> int:
    directory = open_directory(arguments.dir)
    if directory.single:
        raise UsageError(f"{arguments.dir}: is one checkpoint; expected the directory of a run, and a STEP")
    names = list(dict.fromkeys(_only_one(directory, step) for step in arguments.steps))
    if not arguments.yes and not _agreed(names, directory.storage.url):
        raise CheckpointRefusedError("nothing was removed")
    told = []
    for one in removing.remove(directory.storage, names, arguments.force):
        told.append(ckpt_documents.removed(one))
        if not arguments.json:
            print(ckpt_show.removed(one), flush=True)
    if arguments.json:
        _print_json(told)
    return 0


def _only_one(directory: Directory, step: str) -> str:
    names = selection.named(directory, step)
    if len(names) > 1:
        raise UsageError(f"step {step} was saved more than once; name the checkpoint: {', '.join(names)}")
    return names[0]


def _agreed(names: Sequence[str], url: str) -> bool:
    if not sys.stdin.isatty():
        raise UsageError("ckpt rm: give --yes where nobody can be asked")
    print(f"remove {', '.join(names)} from {url}? [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _export(arguments: argparse.Namespace) -> int:
    out = Path(arguments.out)
    if out.suffix not in _FORMATS:
        raise UsageError(f"{arguments.out}: expected a name that ends in {', '.join(_FORMATS)}")
    output_file.check(out, arguments.force)
    directory = open_directory(arguments.dir)
    name = selection.one(directory, arguments.step)
    opened = _with_torch("exporting.export").open_export(directory.storage, name, is_stock(directory.storage, name))
    with ProgressBar(sys.stderr, name, opened.size(arguments.only)) as bar:
        done = opened.write(out, arguments.only, arguments.force, bar.advance)
    if arguments.json:
        _print_json({"file": str(out), "checkpoint": name, **dataclasses.asdict(done)})
    else:
        print(ckpt_show.exported(name, str(out), done.tensors, done.size, done.left_out))
    return 0


def _with_torch(module: str) -> Any:
    """A module of elaunch.checkpoint that imports torch: only what is asked for rarely pays for that, and waits."""
    return import_module(f"elaunch.checkpoint.{module}")


def _print_json(document: Any) -> None:
    print(json.dumps(document), flush=True)


_RUN = {"ls": _ls, "show": _show, "verify": _verify, "rm": _rm, "export": _export}
