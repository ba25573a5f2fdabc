"""Error files, good and bad, and the copy for who started the launcher."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from elaunch.agent.failures import Failure, copy_root_cause, failure, signal_name

ENDED = 1_700_000_000.75


def read(path: Path | None, exit_code: int = 1) -> Failure:
    return failure(rank=3, local_rank=1, host="h", pid=42, exit_code=exit_code, time=ENDED, error_file=path)


def recorded(timestamp: Any) -> str:
    extra = {"py_callstack": "Traceback ...\nValueError: bad", "timestamp": timestamp}
    return json.dumps({"message": {"message": "ValueError: bad", "extraInfo": extra}})


def test_what_record_wrote_is_read(tmp_path: Path) -> None:
    path = tmp_path / "error.json"
    path.write_text(recorded("1700000000"))
    got = read(path)
    assert (got.message, got.traceback) == ("ValueError: bad", "Traceback ...\nValueError: bad")
    assert (got.time, got.error_file) == (ENDED, str(path))


@pytest.mark.parametrize(
    ("told", "moment"),
    [
        ("1699999990", 1699999990.999),  # took ten seconds to end after the error
        ("1699999990.25", 1699999990.25),
        ("1700009999", ENDED),  # a clock that cannot be
        ("soon", ENDED),
        (None, ENDED),
        ("nan", ENDED),
        ("-1", ENDED),
    ],
)
def test_the_time_is_as_fine_as_it_can_be(told: Any, moment: float, tmp_path: Path) -> None:
    path = tmp_path / "error.json"
    path.write_text(recorded(told))
    assert read(path).time == moment


def test_a_message_may_be_plain(tmp_path: Path) -> None:
    path = tmp_path / "error.json"
    path.write_text('{"message": "it broke", "timestamp": 1699999999.5}')
    got = read(path)
    assert (got.message, got.time) == ("it broke", 1699999999.5)


@pytest.mark.parametrize(
    "text", ['{"message": {"mess', "no json", "[1]", '{"other": 1}', "[" * 100_000, '"\\ud800"', "\x00\xff"]
)
def test_a_bad_file_is_quoted(text: str, tmp_path: Path) -> None:
    path = tmp_path / "error.json"
    path.write_text(text, errors="surrogatepass")
    assert text[:10] in read(path).message


def test_odd_shapes_do_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "error.json"
    for message in ({"message": 3, "extraInfo": []}, {"extraInfo": {"py_callstack": 5}}, [1, 2], None):
        path.write_text(json.dumps({"message": message}))
        assert read(path).message


def test_a_huge_file_is_cut(tmp_path: Path) -> None:
    path = tmp_path / "error.json"
    extra = {"py_callstack": "x" * 1_000_000 + "the end", "timestamp": "1"}
    path.write_text(json.dumps({"message": {"message": "m" * 1_000_000, "extraInfo": extra}}))
    got = read(path)
    assert len(got.message) < 70_000
    assert len(got.traceback) < 70_000
    assert got.traceback.endswith("the end")


def test_without_a_file_the_exit_speaks(tmp_path: Path) -> None:
    assert read(None, -9).message == "Signal 9 (SIGKILL) received by PID 42"
    assert read(tmp_path / "missing", -11).signal_name == "SIGSEGV"
    assert read(tmp_path, 1).message.startswith("To enable traceback see")
    assert read(tmp_path, 1).error_file == ""


def test_signals_without_a_name() -> None:
    assert signal_name(77) == "signal 77"


def test_the_root_cause_is_copied_with_its_code(tmp_path: Path) -> None:
    path, copy = tmp_path / "error.json", tmp_path / "reply.json"
    path.write_text(recorded("1700000000"))
    copy.write_text("old")
    copy_root_cause(read(path, 3), copy)
    data = json.loads(copy.read_text())
    assert data["message"]["errorCode"] == 3
    assert data["message"]["message"] == "ValueError: bad"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["error.json", "reply.json"]


def test_a_root_cause_without_a_file_is_told_too(tmp_path: Path) -> None:
    copy_root_cause(read(None, -9), tmp_path / "reply.json")
    data = json.loads((tmp_path / "reply.json").read_text())["message"]
    assert (data["message"], data["errorCode"]) == ("Signal 9 (SIGKILL) received by PID 42", -9)
    assert data["extraInfo"]["timestamp"] == "1700000000"
