"""The command as a process, and what it prints."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import sys
import types
from pathlib import Path

import pytest
import structlog

from elaunch.agent.options import LaunchOptions
from elaunch.agent.outcome import Outcome, RankFailure
from elaunch.cli import output
from elaunch.cli.flags import FLAGS
from elaunch.cli.main import main
from elaunch.cli.report import render
from elaunch.errors import JoinTimeoutError, UsageError


def elaunch(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PET_")}
    return subprocess.run(
        [sys.executable, "-m", "elaunch", *arguments],
        capture_output=True,
        text=True,
        env=clean | environ,
        timeout=60,
    )


@pytest.mark.parametrize(
    ("arguments", "environ", "part"),
    [
        ([], {}, "elaunch --help"),
        (["--standalone"], {}, "no script given"),
        (["/no/such.py"], {}, "/no/such.py: no such file"),
        (["--nnodes=x", __file__], {}, "--nnodes=x"),
        ([__file__], {"PET_MAX_RESTARTS": "x"}, "PET_MAX_RESTARTS=x"),
        ([__file__], {"ELAUNCH_LOG_LEVEL": "x"}, "ELAUNCH_LOG_LEVEL=x"),
    ],
)
def test_bad_input_exits_2_with_one_line(arguments: list[str], environ: dict[str, str], part: str) -> None:
    done = elaunch(*arguments, **environ)
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("elaunch: error: ")
    assert part in done.stderr


def test_help_and_version() -> None:
    shown = elaunch("--help")
    assert shown.returncode == 0
    assert "--rdzv-endpoint" in shown.stdout
    assert "--rdzv_endpoint" not in shown.stdout
    version = elaunch("--version")
    assert (version.returncode, version.stdout.split()[0]) == (0, "elaunch")


def test_nothing_heavy_is_imported_before_the_input_is_known_to_be_good(script: str) -> None:
    program = """
import os, sys
from elaunch.cli.main import main
from elaunch.cli.options import parse

assert main([]) == main(["--nnodes=x", sys.argv[1]]) == 2
parse(["--nproc-per-node=auto", sys.argv[1]], os.environ)
print(sorted({"torch", "grpc", "google", "asyncio", "structlog", "tenacity"} & sys.modules.keys()))
"""
    done = subprocess.run([sys.executable, "-c", program, script], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr


FAILURE = RankFailure("n1", 5, 1, 77, 3, 1_700_000_000.25, "/logs/error.json", "ValueError: x", "Traceback\n  boom")


def with_agent(monkeypatch: pytest.MonkeyPatch, answer: Outcome | BaseException) -> None:
    """Stand in for the agent, which has tests of its own."""

    async def run_agent(_: LaunchOptions) -> Outcome:
        if isinstance(answer, BaseException):
            raise answer
        return answer

    module = types.ModuleType("elaunch.agent.agent")
    module.run_agent = run_agent  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "elaunch.agent.agent", module)


@pytest.mark.parametrize(
    ("answer", "exit_code", "printed"),
    [
        (Outcome(0, "succeeded", "all ranks ended with 0", "succeeded"), 0, ""),
        (Outcome(3, "rank_failed", "rank 5 failed", "failed", (FAILURE,)), 3, "FAILED"),
        (Outcome(143, "signal", "stopped by SIGTERM", "stopped"), 143, "elaunch: error: stopped by SIGTERM"),
        (JoinTimeoutError("1 of 2 nodes\ncame"), 75, "elaunch: error: 1 of 2 nodes came"),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_exit_codes(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    script: str,
    answer: Outcome | BaseException,
    exit_code: int,
    printed: str,
) -> None:
    with_agent(monkeypatch, answer)
    assert main([script]) == exit_code
    shown = capsys.readouterr().err
    assert printed in shown if printed else shown == ""


def test_report_names_the_first_failure_by_time() -> None:
    later = RankFailure("n0", 0, 0, 70, -9, FAILURE.time + 0.5, "", "", "")
    text = render("train.py", (later, FAILURE))
    root = text.split("Root Cause (first observed failure):")[1]
    assert "train.py FAILED" in text
    assert "rank      : 5 (local_rank: 1)" in root
    assert "exitcode  : 3 (pid: 77)" in root
    assert "traceback : Traceback\n    boom" in root
    assert "exitcode  : -9 (pid: 70) (SIGKILL)" in text
    assert "Signal 9 (SIGKILL) received by PID 70" in text
    assert "error_file: <N/A>" in text


def test_report_of_one_and_of_a_thousand() -> None:
    assert "<NO_OTHER_FAILURES>" in render("train.py", (FAILURE,))
    many = [RankFailure("n", rank, 0, 1, 1, FAILURE.time + rank, "", "", "") for rank in range(1000)]
    text = render("train.py", many, shown=3)
    assert "... and 996 more ranks" in text
    assert len(text.splitlines()) < 50


def test_report_of_more_ranks_than_are_known() -> None:
    some = [RankFailure("n", rank, 0, 1, 1, FAILURE.time + rank, "", "", "") for rank in range(64)]
    text = render("train.py", some, failed=4096)
    assert "  ... and 4079 more ranks" in text
    first = text.rindex("rank      : 0 ")
    assert text.index("more ranks") < text.index("Root Cause") < first, "the first error is the last thing that is read"


def test_log_lines_for_people_and_for_collectors() -> None:
    person, collector = io.StringIO(), io.StringIO()
    log = output.configure("info", "console", person, job="j")
    output.bind(node="n1", generation=2)
    log.debug("unseen")
    log.warning("node_lost", text="no heartbeat", password="hunter2", store_token="t0ken")
    log = output.configure("debug", "json", collector, job="j")
    log.debug("plan", generation=3)
    structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()
    line = person.getvalue()
    assert "warning: node_lost: no heartbeat (generation=2 node=n1 password=*** store_token=***)" in line
    assert "unseen" not in line
    assert "hunter2" not in line
    record = json.loads(collector.getvalue())
    assert (record["event"], record["job"], record["generation"]) == ("plan", "j", 3)


class _Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_short_coloured_lines_and_all_else_json() -> None:
    screen, file = _Screen(), io.StringIO()
    for target in (screen, file):
        log = output.configure("info", output.AUTO, target, job="j")
        log.warning("node_lost", text="no heartbeat")
        log.info("rank_started", rank=3)
    structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()
    (line,) = screen.getvalue().splitlines()
    assert re.fullmatch(r"elaunch \d\d:\d\d:\d\d \x1b\[33mwarning\x1b\[0m: node_lost: no heartbeat", line)
    assert [json.loads(line)["event"] for line in file.getvalue().splitlines()] == ["node_lost", "rank_started"]


def test_an_unknown_log_format_is_refused() -> None:
    with pytest.raises(UsageError, match="console or json"):
        output.configure("info", "xml")


def test_the_help_is_not_wider_than_a_terminal() -> None:
    assert max(map(len, elaunch("--help", COLUMNS="80").stdout.splitlines())) <= 80


def test_docs_name_every_option() -> None:
    text = (Path(__file__).parents[3] / "docs/cli.md").read_text()
    assert [flag.spellings[-1] for flag in FLAGS.values() if f"`--{flag.dest.replace('_', '-')}" not in text] == []


def test_a_standalone_job_without_a_loopback_interface_is_refused(script: str) -> None:
    alone = ["unshare", "-n"]
    if shutil.which("unshare") is None or subprocess.run([*alone, "true"], capture_output=True).returncode:
        pytest.skip("no network namespace can be made here")
    done = subprocess.run(
        [*alone, sys.executable, "-m", "elaunch", "--standalone", script], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("elaunch: error: the loopback interface is down (Network is unreachable)")
