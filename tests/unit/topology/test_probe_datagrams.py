"""The datagrams of a probe: nobody without its secret is answered, and no answer is longer than its question."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elaunch.topology.probe.datagram import LEAST, answer, mark_of, probe_of, question, read_answer

SECRET, NONCE = b"of the job", b"12345678"


@given(st.integers(0, 9000), st.text(st.characters(codec="utf-8"), max_size=20))
def test_an_answer_says_where_the_question_came_in_and_is_no_longer(size: int, name: str) -> None:
    asked = question("probe", SECRET, NONCE, size)
    assert len(asked) == max(size, LEAST)
    assert probe_of(asked) == mark_of("probe")
    reply = answer(asked, SECRET, name)
    assert reply is not None
    assert len(reply) <= len(asked)
    told = read_answer(reply, "probe", SECRET)
    assert told is not None
    assert (told.nonce, told.size) == (NONCE, len(asked))
    assert name.encode()[:15].decode(errors="replace") == told.arrived


@given(st.integers(0, LEAST - 1), st.integers(1, 255))
def test_a_byte_that_was_changed_is_refused(place: int, change: int) -> None:
    asked = bytearray(question("probe", SECRET, NONCE))
    reply = answer(bytes(asked), SECRET, "nic0")
    assert reply is not None
    asked[place] ^= change
    assert answer(bytes(asked), SECRET, "nic0") is None
    forged = bytearray(reply)
    forged[place] ^= change
    assert read_answer(bytes(forged), "probe", SECRET) is None


@pytest.mark.parametrize("secret", [b"", b"another"])
def test_another_secret_is_refused(secret: bytes) -> None:
    asked = question("probe", SECRET, NONCE)
    assert answer(asked, secret, "nic0") is None
    reply = answer(asked, SECRET, "nic0")
    assert reply is not None
    assert read_answer(reply, "probe", secret) is None
    assert read_answer(reply, "another probe", SECRET) is None
    assert read_answer(asked, "probe", SECRET) is None


@given(st.binary(max_size=200))
def test_whatever_comes_is_no_question(data: bytes) -> None:
    assert answer(data, SECRET, "nic0") is None
    assert read_answer(data, "probe", SECRET) is None
