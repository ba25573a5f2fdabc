"""Tokens and roles: who is let in, who is told why not, and what is counted and said of it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from elaunch.controller.access import (
    Access,
    Role,
    Tokens,
    find_tokens,
    operator_token,
    parse_tokens,
    read_token_file,
    token_for,
)
from elaunch.controller.admission import admit
from elaunch.controller.counters import TELL_EVERY, Counters
from elaunch.controller.seals import is_sealed, seal
from elaunch.errors import UsageError

AGENT, OPERATOR, VIEWER = ("agent" * 4, "operator" * 4, "viewer" * 4)
TEXT = f"# of job 7\nagent {AGENT}\n{OPERATOR}\n\nviewer {VIEWER}\n"


def test_which_role_may_do_what() -> None:
    allowed = {(role, needs) for role in Role for needs in Role if role.may(needs)}
    assert allowed == {(r, r) for r in Role} | {(Role.OPERATOR, Role.VIEWER)}


def test_a_token_file_gives_roles() -> None:
    access = parse_tokens(TEXT).access()
    assert [access.role_of(t) for t in (AGENT, OPERATOR, VIEWER)] == [Role.AGENT, Role.OPERATOR, Role.VIEWER]
    for wrong in ("", "x", AGENT[:-1], AGENT + "x", "\udc80", "ä" * 100):
        assert access.role_of(wrong) is None


def test_no_token_shows_in_a_repr() -> None:
    tokens = parse_tokens(TEXT)
    for secret in (AGENT, OPERATOR, VIEWER):
        assert secret not in repr(tokens)
        assert secret not in repr(tokens.access())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "holds no token"),
        ("# nothing\n", "holds no token"),
        ("short\n", "16 ASCII characters"),
        ("admin " + AGENT, "expected agent, operator or viewer"),
        (f"agent {AGENT} more", "expected agent, operator or viewer"),
        ("ä" * 20, "ASCII"),
        (f"agent {AGENT}\nviewer {AGENT}", "twice"),
    ],
)
def test_a_bad_token_file_is_refused_without_showing_it(text: str, expected: str) -> None:
    with pytest.raises(UsageError, match=expected) as error:
        parse_tokens(text)
    assert AGENT not in str(error.value)
    assert "\n" not in str(error.value)


def test_a_token_file_is_its_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.write_text(TEXT)
    for mode in (0o644, 0o640, 0o604, 0o620):
        path.chmod(mode)
        with pytest.raises(UsageError, match="chmod 600"):
            read_token_file(str(path))
    path.chmod(0o600)
    assert read_token_file(str(path)) == find_tokens(None, {"ELAUNCH_TOKEN_FILE": str(path)})
    assert find_tokens(None, {}) is None
    for missing in (tmp_path / "none", tmp_path):
        with pytest.raises(UsageError, match="cannot be read"):
            find_tokens(str(missing), {})
    path.write_bytes(b"\xff\xfe" * 20)
    with pytest.raises(UsageError, match="no text"):
        read_token_file(str(path))


def test_without_a_token_file_the_published_token_is_the_agents_and_makes_the_operators() -> None:
    access = Access().in_term("p" * 32)
    assert access.role_of(token_for(Role.AGENT, None, "p" * 32)) is Role.AGENT
    assert access.role_of(token_for(Role.OPERATOR, None, "p" * 32)) is Role.OPERATOR
    assert access.role_of(operator_token("q" * 32)) is None
    assert Access().role_of("") is None


def test_with_a_token_file_what_etcd_publishes_operates_nothing() -> None:
    tokens = parse_tokens(f"{OPERATOR}\n")
    access = tokens.access().in_term("p" * 32)
    assert access.role_of(operator_token("p" * 32)) is None
    assert access.role_of(token_for(Role.AGENT, tokens, "p" * 32)) is Role.AGENT, "no agent's token is configured"
    assert access.role_of(token_for(Role.VIEWER, tokens, "p" * 32)) is Role.OPERATOR
    own = parse_tokens(TEXT)
    assert own.access().in_term("p" * 32).role_of("p" * 32) is None
    assert token_for(Role.AGENT, own, "p" * 32) == AGENT
    assert token_for(Role.VIEWER, own, "p" * 32) == VIEWER
    with pytest.raises(UsageError, match="no token of the role operator"):
        token_for(Role.OPERATOR, Tokens(((Role.VIEWER, VIEWER),)), "p" * 32)


def test_a_command_is_sealed_by_an_operator_and_for_one_job() -> None:
    tokens = parse_tokens(TEXT)
    access, command = tokens.access(), {"id": "c1", "kind": "restart", "arguments": {"b": 1, "a": "\udc80"}}
    mark = seal(tokens, "job", command)
    assert OPERATOR not in mark
    assert is_sealed(access, "job", dict(reversed(command.items())), mark)
    assert not is_sealed(access, "another", command, mark)
    assert not is_sealed(access, "job", {**command, "kind": "abort"}, mark)
    for wrong in ("", mark[:-1], "\udc80", seal(parse_tokens("x" * 20), "job", command)):
        assert not is_sealed(access, "job", command, wrong)
    assert not is_sealed(parse_tokens("agent " + AGENT).access(), "job", command, mark), "it has no operators"
    assert seal(None, "job", command) == ""
    assert is_sealed(Access(), "job", command, ""), "a job without a token file asks for no seal"
    with pytest.raises(UsageError, match="no token of the role operator"):
        seal(parse_tokens("viewer " + VIEWER), "job", command)


class Now:
    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def wall(self) -> float:
        return self.now


def test_a_flood_of_refusals_is_two_lines_in_ten_seconds() -> None:
    clock, told = Now(), []
    counters = Counters(clock, lambda event, **context: told.append((event, context.get("count"))))
    for i in range(10_000):
        clock.now = i * TELL_EVERY / 5_000
        counters.refuse("wrong token", peer="ipv4:10.0.0.1:1")
    assert counters.snapshot() == {"wrong token": 10_000}
    assert told == [("refused", None), ("refused_more", 5_000)]
    clock.now += TELL_EVERY
    counters.flush("wrong token")
    assert told[2:] == [("refused_more", 4_999)]
    clock.now += TELL_EVERY
    counters.flush("wrong token")
    counters.refuse("wrong token")
    assert told[3:] == [("refused", None)], "after a quiet time it is a first one again"


def test_what_strangers_write_is_one_line_of_the_log() -> None:
    told: list[dict[str, object]] = []
    counters = Counters(Now(), lambda _, **context: told.append(context))
    counters.refuse(
        "malformed", text="a\nelaunch 12:00 info: all is well \x1b[2J" + "x" * 1000, number=7, peer="ipv4:1"
    )
    assert told[0].pop("text") == ("a\\nelaunch 12:00 info: all is well \\x1b[2J" + "x" * 1000)[:200]
    assert told == [{"reason": "malformed", "number": 7, "peer": "ipv4:1"}]


def test_what_a_flood_left_is_told_without_another_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elaunch.controller.counters.TELL_EVERY", 0.05)
    told: list[str] = []

    async def flood() -> None:
        counters = Counters(tell=lambda event, **_: told.append(event))
        for _ in range(3):
            counters.refuse("no token")
        for _ in range(1000):
            if len(told) == 2:
                return
            await asyncio.sleep(0.01)

    asyncio.run(flood())
    assert told == ["refused", "refused_more"]


def _service(access: Access, needs: Role, counters: Counters) -> grpc.GenericRpcHandler:
    async def method(request: bytes, context: Any) -> bytes:
        return (await admit(context, access, needs, counters)).value.encode()

    return grpc.method_handlers_generic_handler("s", {"m": grpc.unary_unary_rpc_method_handler(method)})


@pytest.mark.parametrize(
    ("shown", "outcome"),
    [
        (OPERATOR, "operator"),
        (VIEWER, grpc.StatusCode.PERMISSION_DENIED),
        (AGENT, grpc.StatusCode.PERMISSION_DENIED),
        ("w" * 20, grpc.StatusCode.UNAUTHENTICATED),
        (None, grpc.StatusCode.UNAUTHENTICATED),
    ],
)
def test_a_call_is_let_in_or_told_why_not(shown: str | None, outcome: str | grpc.StatusCode) -> None:
    counters, told = Counters(tell=lambda *_, **__: None), []

    async def call() -> Any:
        server = grpc.aio.server()
        server.add_generic_rpc_handlers((_service(parse_tokens(TEXT).access(), Role.OPERATOR, counters),))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        metadata = () if shown is None else (("elaunch-token", shown),)
        try:
            async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
                return (await channel.unary_unary("/s/m")(b"", metadata=metadata, timeout=10)).decode()
        except grpc.aio.AioRpcError as error:
            told.append(str(error.details()))
            return error.code()
        finally:
            await server.stop(0)

    assert asyncio.run(call()) == outcome
    assert all((shown or "\n") not in text for text in told)
    assert sum(counters.refused.values()) == (0 if outcome == "operator" else 1)
