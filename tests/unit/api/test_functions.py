"""Functions as bytes: what comes out in another process does what the function did here."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from elaunch.api.functions import packed, preparation
from elaunch.errors import UsageError
from tests.e2e.spawning import ROOT, environment

_OTHER = (
    "import sys, pickle, json, multiprocessing.spawn as s; data = sys.stdin.buffer.read();"
    "head, body = data.split(b'\\n', 1); s.prepare(json.loads(head));"
    "function, args = pickle.loads(body); print(json.dumps(function(*args)))"
)
FACTOR = 3


def elsewhere(call: bytes) -> Any:
    """What the call returns in a process of its own."""
    given = json.dumps(preparation(call)).encode() + b"\n" + call
    done = subprocess.run(
        [sys.executable, "-c", _OTHER], input=given, capture_output=True, env=environment(), cwd=ROOT, timeout=60
    )
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


def times(number: int) -> int:
    return FACTOR * number


def closures() -> list[tuple[Callable[..., Any], tuple[Any, ...], Any]]:
    offset = 10

    def shifted(number: int, *, more: int = 1) -> int:
        return times(number) + offset + more

    def factorial(number: int) -> int:
        return number * factorial(number - 1) if number else 1

    return [
        (times, (2,), 6),
        (lambda number=5: number + FACTOR, (), 8),
        (shifted, (1,), 14),
        (factorial, (5,), 120),
        (lambda function: function(2), (shifted,), 17),
        (lambda: json.dumps([offset]), (), "[10]"),
        (len, ("abc",), 3),
    ]


@pytest.mark.parametrize("number", range(7))
def test_named_functions_lambdas_and_closures_do_the_same_elsewhere(number: int) -> None:
    function, args, result = closures()[number]
    assert elsewhere(packed(function, args)) == result


_NOTEBOOK = """
import json, sys, math
from elaunch.api.functions import packed, preparation

scale = {"by": 2}

def inner(x):
    return math.floor(x) * scale["by"]

def outer(x):
    return [inner(y) for y in [x]] + [count(3)]

def count(n):
    return n and 1 + count(n - 1)

call = packed(outer, (4.5,))
sys.stdout.buffer.write(json.dumps(preparation(call)).encode() + b"\\n" + call)
"""


@pytest.mark.parametrize("as_file", [False, True])
def test_functions_of_a_prompt_or_of_the_main_file_take_along_what_they_use(tmp_path: Path, as_file: bool) -> None:
    script = tmp_path / "script.py"
    script.write_text(_NOTEBOOK)
    how = [str(script)] if as_file else ["-c", _NOTEBOOK]
    made = subprocess.run([sys.executable, *how], capture_output=True, env=environment(), timeout=60, check=True)
    done = subprocess.run(
        [sys.executable, "-c", _OTHER], input=made.stdout, capture_output=True, env=environment(), timeout=60
    )
    assert (done.stdout, done.stderr) == (b"[8, 3]\n", b"")


def test_what_cannot_be_handed_over_is_named() -> None:
    lock = threading.Lock()

    def held() -> bool:
        return lock.locked()

    with pytest.raises(UsageError, match=r"held or one of its arguments cannot be handed to the ranks: .*lock"):
        packed(held, ())
    with pytest.raises(UsageError, match="times or one of its arguments"):
        packed(times, (lock,))


def test_a_class_of_a_prompt_is_refused_with_what_to_do() -> None:
    text = (
        "from elaunch.api.functions import packed\nclass C: pass\n"
        "try: packed(lambda: C(), ())\nexcept Exception as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, env=environment(), timeout=60)
    assert "class C is a notebook's; put it into a module" in done.stdout, done.stderr
