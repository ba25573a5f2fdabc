"""What faulthandler wrote is read back."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from elaunch.agent.stack_dump import Frame, call_site, main_stack, stacks

DUMP = """main thread 0x00007f87551bbb80
Thread 0x00007f8735b296c0 (most recent call first):
  File "/x/elaunch/worker/progress.py", line 75 in _run

Thread 0x00007f87551bbb80 [MainThread] (most recent call first):
  File "/usr/lib/python3.11/re/__init__.py", line 166 in match
  File "/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", line 3252 in all_reduce
  File "/home/me/train.py", line 75 in main
  File "/home/me/train.py", line 80 in <module>

Current thread 0x00007f0000000000 (most recent call first):
  <no Python frame>
"""


def test_the_main_thread_is_found_and_the_users_line_in_it() -> None:
    frames = main_stack(DUMP)
    assert frames[0] == Frame("/usr/lib/python3.11/re/__init__.py", 166, "match")
    assert len(frames) == 4
    assert call_site(frames) == "train.py:75 in main"
    assert stacks(DUMP)["0x00007f0000000000"] == ()


def test_the_last_of_several_dumps_counts() -> None:
    later = DUMP.split("\n", 1)[1].replace("line 75 in main", "line 76 in main")
    assert call_site(main_stack(DUMP + later)) == "train.py:76 in main"


def test_without_a_frame_of_the_users_the_innermost_is_told() -> None:
    assert call_site([Frame("/usr/lib/python3.11/re/__init__.py", 1, "match")]) == "__init__.py:1 in match"
    assert call_site([]) == ""


@settings(deadline=None)
@given(st.text() | st.lists(st.sampled_from([*DUMP.splitlines(), "...", ""])).map("\n".join))
def test_anything_can_stand_in_the_file(text: str) -> None:
    call_site(main_stack(text))
