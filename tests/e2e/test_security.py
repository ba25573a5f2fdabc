"""Jobs with certificates and tokens: who gets in, who does not, and where no secret may be seen."""

from __future__ import annotations

import asyncio
import secrets
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from elaunch.controller.access import Security
from elaunch.controller.client import open_channel
from elaunch.controller.messages import METHOD, job_mark
from elaunch.rendezvous.endpoints import Credentials
from elaunch.rendezvous.etcd import EtcdStore
from elaunch.rendezvous.keys import JobKeys
from elaunch.rendezvous.records import Leader, decode
from elaunch.rendezvous.tls import NAME, Tls
from tests.e2e.conftest import MakeJob
from tests.e2e.harness import PROGRAMS, Job, wait_until
from tests.e2e.operating import elaunch
from tests.etcd.servers import Member, etcdctl, free_port, make_certificates

pytestmark = [pytest.mark.slow, pytest.mark.torch]

PROGRAM = (str(PROGRAMS / "told.py"), "wait")
SECURE = ("--start=exec", "--rdzv-backend=c10d", "--max-restarts=2")


def token_file(path: Path, **tokens: str) -> Path:
    path.write_text("".join(f"{role} {token}\n" for role, token in tokens.items()))
    path.chmod(0o600)
    return path


def leader_of(job_id: str, endpoint: str, credentials: Credentials | None = None, deadline: float = 20.0) -> Leader:
    async def read() -> Leader:
        store = EtcdStore([endpoint], credentials=credentials, deadline=deadline)
        try:
            found = await store.get(JobKeys(job_id).leader)
            assert found is not None
            return decode(Leader, found.value)
        finally:
            await store.close()

    return asyncio.run(read())


def attach(address: str, job_id: str, token: str | None, security: Security) -> grpc.StatusCode:
    """How a stream ends that says nothing but that it ends; OK where it was let in."""

    async def call() -> grpc.StatusCode:
        metadata = [("elaunch-job", job_mark(job_id))] + ([("elaunch-token", token)] if token else [])
        async with open_channel(address, security) as channel:
            stream: Any = channel.stream_stream(METHOD)(iter(()), metadata=metadata, timeout=30)
            with suppress(grpc.aio.AioRpcError):
                async for _ in stream:
                    pass
            return await stream.code()

    return asyncio.run(call())


def everything_said(job: Job) -> Iterator[tuple[str, bytes]]:
    """Command lines of all processes of the job, environments of its ranks, and every file that it wrote."""
    ranks = {e["pid"] for e in job.events("start")}
    assert ranks
    for process in job.living():
        with suppress(FileNotFoundError, ProcessLookupError):  # it was none of those that stay
            yield f"command line of {process.pid}", Path(f"/proc/{process.pid}/cmdline").read_bytes()
        if process.pid in ranks:
            yield f"environment of {process.pid}", Path(f"/proc/{process.pid}/environ").read_bytes()
    for event in job.events("start"):
        yield "environment as the rank sees it", repr(event["env"]).encode()
    for path in [*job.out.parent.rglob("*.log"), *job.out.rglob("*.jsonl"), *job.out.rglob("*.err")]:
        yield str(path), path.read_bytes()


def test_mutual_tls_and_tokens_close_every_port(job: MakeJob, tmp_path: Path) -> None:
    certificates, strangers = make_certificates(tmp_path / "a", NAME), make_certificates(tmp_path / "b", NAME)
    ours = Tls(certificates.cert, certificates.key, certificates.ca)
    tokens = {role: secrets.token_hex(16) for role in ("agent", "operator")}
    path = token_file(tmp_path / "tokens", **tokens)
    endpoint = f"127.0.0.1:{free_port()}"
    tls = (f"--tls-cert={ours.cert}", f"--tls-key={ours.key}", f"--tls-ca={ours.ca}")
    closed = job("--nnodes=2", f"--rdzv-endpoint={endpoint}", "--rdzv-id=closed", *SECURE, *tls, program=PROGRAM)
    agents = [closed.agent(f"--token-file={path}"), closed.agent(ELAUNCH_TOKEN_FILE=str(path))]
    wait_until("both ranks", lambda: len(closed.events("start", generation=1)) == 2)

    inside = Credentials(ours.ca, ours.cert, ours.key, server_name=NAME)
    leader = leader_of("closed", endpoint, inside)
    for outside in (None, Credentials(ours.ca, server_name=NAME), Credentials(ours.ca, strangers.cert, strangers.key)):
        with pytest.raises(Exception, match="did not answer"):
            leader_of("closed", endpoint, outside, 1.0)
    known = Security(ours)
    assert attach(leader.address, "closed", tokens["agent"], Security()) is grpc.StatusCode.UNAVAILABLE
    stranger = Security(Tls(strangers.cert, strangers.key, ours.ca))
    assert attach(leader.address, "closed", tokens["agent"], stranger) is grpc.StatusCode.UNAVAILABLE
    for wrong in (None, "wrong" * 5, leader.token):
        assert attach(leader.address, "closed", wrong, known) is grpc.StatusCode.UNAUTHENTICATED
    assert attach(leader.address, "closed", tokens["operator"], known) is grpc.StatusCode.PERMISSION_DENIED
    assert attach(leader.address, "closed", tokens["agent"], known) is grpc.StatusCode.OK

    said = list(everything_said(closed))
    closed.finish()
    assert [a.wait() for a in agents] == [0, 0], closed.outputs()
    for where, text in [*said, *((str(a.log), a.log.read_bytes()) for a in agents)]:
        for secret in (*tokens.values(), leader.token):
            assert secret.encode() not in text, where
    assert "refused (" in closed.outputs()
    assert "reason=wrong token" in closed.outputs()
    assert "ssl_transport_security" not in closed.outputs(), "a port scan could fill the log"


def test_a_node_with_another_token_file_is_told_so(job: MakeJob, etcd: str, tmp_path: Path) -> None:
    right = token_file(tmp_path / "right", agent=secrets.token_hex(16))
    wrong = token_file(tmp_path / "wrong", agent=secrets.token_hex(16))
    two = job(
        *("--nnodes=1:2", "--rdzv-backend=etcd", f"--rdzv-endpoint={etcd}", "--rdzv-id=tokens", "--start=exec"),
        "--rdzv-conf=last_call_timeout=1",
        program=PROGRAM,
    )  # fmt: skip
    first = two.agent(f"--token-file={right}")
    wait_until("the first rank", lambda: two.events("start", generation=1))
    other = two.agent(f"--token-file={wrong}")
    assert other.wait() == 77
    assert "error: the leader at" in other.output()
    assert "the token is wrong (see --token-file)" in other.output()
    none = two.agent()
    assert none.wait() == 2
    assert "security (--tls-cert, --tls-ca, --token-file) is '' here and 'tokens' in the job" in none.output()
    two.finish()
    assert first.wait() == 0, first.output()


def test_operating_takes_an_operators_token(job: MakeJob, etcd: str, tmp_path: Path) -> None:
    tokens = {role: secrets.token_hex(16) for role in ("agent", "operator", "viewer")}
    files = {role: token_file(tmp_path / role, **{role: token}) for role, token in tokens.items()}
    stranger = token_file(tmp_path / "stranger", operator=secrets.token_hex(16))
    one = job(
        *("--rdzv-backend=etcd", f"--rdzv-endpoint={etcd}", "--rdzv-id=sealed", "--start=exec"),
        f"--token-file={token_file(tmp_path / 'all', **tokens)}",
        program=PROGRAM,
    )
    agent = one.agent()
    wait_until("the rank", lambda: one.events("start", generation=1))
    where = ("sealed", f"--rdzv-endpoint={etcd}")
    for shown in ((), (f"--token-file={stranger}",)):
        refused = elaunch("abort", *where, *shown)
        assert refused.code == 77
        assert "does not come with an operator's token of this job (see --token-file)" in refused.err
        assert "token" in elaunch("status", *where, *shown).out, "what etcd has is shown, and why there is no more"
    viewer = elaunch("abort", *where, f"--token-file={files['viewer']}")
    assert (viewer.code, viewer.err) == (2, "elaunch: error: the token file has no token of the role operator\n")
    assert elaunch("status", *where, "--json", f"--token-file={files['viewer']}").document["nodes"]
    done = elaunch("restart", *where, ELAUNCH_TOKEN_FILE=str(files["operator"]))
    assert done.code == 0, done.err
    wait_until("the next generation", lambda: one.events("start", generation=2))
    assert one.events("start", generation=3) == []
    one.finish()
    assert agent.wait() == 0, agent.output()
    assert "reason=command without seal" in agent.output()
    assert not any(token in agent.output() for token in tokens.values())


@pytest.mark.parametrize("way", ["standalone", "endpoint", "etcd"])
def test_nothing_of_a_single_host_job_is_reached_from_outside(job: MakeJob, etcd: str, way: str) -> None:
    options = {
        "standalone": ("--standalone",),
        "endpoint": ("--rdzv-backend=c10d", f"--rdzv-endpoint=localhost:{free_port()}"),
        "etcd": ("--rdzv-backend=etcd", f"--rdzv-endpoint={etcd}", "--rdzv-id=single"),
    }
    one = job("--start=exec", *options[way], program=PROGRAM)
    agent = one.agent()
    wait_until("the rank", lambda: one.events("start"))
    found = [where for ports in one.listening().values() for where in ports]
    assert len(found) >= 2, found
    assert {host for host, _ in found} <= {"127.0.0.1", "::1"}
    one.finish()
    assert agent.wait() == 0, agent.output()


def test_an_etcd_password_is_seen_nowhere(job: MakeJob, own_etcd: Member, tmp_path: Path) -> None:
    """From a file for one agent, from the environment for the other. A killed one still gives its lease back."""
    password = secrets.token_hex(8)
    for words in ("user add root:" + password, "user grant-role root root", "auth enable"):
        ctl = [etcdctl(), f"--endpoints={own_etcd.endpoint}", *words.split()]
        subprocess.run(ctl, check=True, capture_output=True, timeout=30, env={"ETCDCTL_API": "3"})
    file = tmp_path / "password"
    file.write_text(password + "\n")
    two = job(
        *("--nnodes=1:2", "--rdzv-backend=etcd", f"--rdzv-endpoint={own_etcd.endpoint}", "--rdzv-id=password"),
        *("--start=exec", "--log-level=debug"),
        program=PROGRAM,
    )
    two.env["ELAUNCH_RUNTIME_DIR"] = str(tmp_path / "run")
    agents = [
        two.agent(f"--rdzv-conf=lease_ttl=60,user=root,password_file={file}"),
        two.agent("--rdzv-conf=lease_ttl=60,user=root", ELAUNCH_ETCD_PASSWORD=password),
    ]
    wait_until("both ranks", lambda: len(two.events("start", generation=1)) == 2)
    said = list(everything_said(two))
    status = ("status", "password", "--json")  # it reads that file too
    wait_until("it runs", lambda: elaunch(*status, **two.env).document["phase"] == "running")
    agents[0].kill()
    wait_until("the other goes on, before the lease of 60 s could end", lambda: two.events("start", generation=2), 35.0)
    two.finish()
    agents[0].wait()
    assert agents[1].wait() == 0, two.outputs()
    for where, text in [*said, *((str(a.log), a.log.read_bytes()) for a in agents)]:
        assert password.encode() not in text, where
