"""``elaunch controller``: a process that leads jobs, and is no node of any."""

from __future__ import annotations

import argparse
import os
import resource
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

from elaunch.agent.options import EtcdAccess
from elaunch.cli.endpoints import parse_endpoint, parse_endpoints
from elaunch.cli.parser import Values
from elaunch.cli.rendezvous_conf import parse_access, parse_ttl
from elaunch.cli.security import resolve_security
from elaunch.cli.serving_flags import SECURITY, WEB
from elaunch.controller.access import Security
from elaunch.errors import UsageError
from elaunch.rendezvous.addresses import own_address, owns
from elaunch.web.options import WebOptions, parse_web

T = TypeVar("T")
DEFAULT_ETCD_PORT = 2379
_LOOPBACK = "127.0.0.1"
_PATIENCE = 30.0  # seconds that etcd gets for its first answer
NODES = 16_384  # streams that it takes, where its limit on open files can be raised that far
_LEVELS = ("debug", "info", "warning", "error")


@dataclass(frozen=True, slots=True)
class ControllerOptions:
    """``host`` and ``port`` are where to listen (port 0: a free one), ``address`` how agents reach this host."""

    etcd: tuple[str, ...]
    access: EtcdAccess
    host: str
    port: int
    address: str
    lease_ttl: int
    security: Security
    log_level: str
    web: WebOptions | None = None
    otel: bool = False


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"controller: {message.removeprefix('argument ')}")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="elaunch controller",
        description="Lead the jobs that meet in an etcd. Run two or three: one leads each job, the others stand by.",
        epilog="SIGTERM and SIGINT end it; another controller, or an agent of each job, leads then. See"
        " docs/high-availability.md.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--etcd", required=True, metavar="HOST:PORT[,...]", help=f"the members of the etcd (port {DEFAULT_ETCD_PORT})")
    add("--etcd-conf", default="", metavar="K=V,...", help="how to speak to it: the access keys of --rdzv-conf")
    add("--listen", metavar="HOST:PORT", help=f"where agents connect (default: {_LOOPBACK} and a free port)")
    add("--local-addr", metavar="ADDRESS", help="the address under which agents reach this host (default: found out)")
    add("--lease-ttl", default="5", metavar="SECONDS", help="another leads when this one was silent for so long (5)")
    for flag in SECURITY:
        variable = flag.own_variable
        text = f"{flag.help}{f' (or {variable})' if variable else ''}"
        add("--" + flag.dest.replace("_", "-"), metavar=flag.metavar, help=text)
    for flag in WEB:
        action: dict[str, Any] = {"action": "store_true"} if flag.kind == "flag" else {"metavar": flag.metavar}
        add("--" + flag.dest.replace("_", "-"), help=_of_controller(flag.help), **action)
    add("--log-level", default="info", choices=_LEVELS, help="(info)")
    return parser


def parse(arguments: Sequence[str], environ: Mapping[str, str]) -> ControllerOptions:
    """Raises UsageError."""
    given = _parser().parse_args(arguments)
    endpoints = _checked("--etcd", given.etcd, lambda text: parse_endpoints(text, DEFAULT_ETCD_PORT))
    if not endpoints:
        raise UsageError("controller: --etcd: expected HOST:PORT[,HOST:PORT...]")
    host, port = _LOOPBACK, 0
    if given.listen is not None:
        at = _checked("--listen", given.listen, lambda text: parse_endpoint(text, 0))
        host, port = at.host, at.port
    elif not all(owns(endpoint.host) for endpoint in endpoints):
        raise UsageError(
            f"controller: the etcd is on other hosts, and agents there cannot reach {_LOOPBACK}: give"
            " --listen=HOST:PORT, the address of this host in the job's network (or 0.0.0.0) and a port"
        )
    return ControllerOptions(
        etcd=tuple(map(str, endpoints)),
        access=_checked("--etcd-conf", given.etcd_conf, lambda text: parse_access(text, environ)),
        host=host,
        port=port,
        address=given.local_addr or _reachable(host, endpoints[0].host, endpoints[0].port),
        lease_ttl=_checked("--lease-ttl", given.lease_ttl, parse_ttl),
        security=_security(given, environ),
        log_level=given.log_level,
        web=_web(given, environ),
        otel=_otel(given, environ),
    )


def _web(given: argparse.Namespace, environ: Mapping[str, str]) -> WebOptions | None:
    if not given.web:
        if given.web_actions:
            raise UsageError("controller: --web-actions is for --web, which is not given")
        return None
    text = given.web_names or environ.get("ELAUNCH_WEB_NAMES", "")
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    return _checked("--web", given.web, lambda where: parse_web(where, given.web_actions, names))


def _otel(given: argparse.Namespace, environ: Mapping[str, str]) -> bool:
    if given.otel:
        from elaunch.metrics.traces import check_traces

        check_traces(environ)
    return bool(given.otel)


def _of_controller(text: str) -> str:
    """An option's help where no node, but a controller serves."""
    text = text.replace("the job's page and /metrics while this node leads", "a page of all jobs, and /metrics")
    return text.replace(" while this node leads", "")


def _security(given: argparse.Namespace, environ: Mapping[str, str]) -> Security:
    """From options and the variables that all commands share. Raises UsageError."""
    values = {flag.dest: getattr(given, flag.dest) or environ.get(flag.own_variable or "") for flag in SECURITY}
    return resolve_security(Values(values, {}, {}, ()))


def _checked(option: str, text: str, convert: Callable[[str], T]) -> T:
    try:
        return convert(text)
    except ValueError as error:
        raise UsageError(f"controller: {option}={text}: {error}") from None


def _reachable(host: str, etcd_host: str, etcd_port: int) -> str:
    """Where others find a server that listens on ``host``: there, or where etcd sees this machine."""
    if host not in ("0.0.0.0", "::"):
        return host
    try:
        return own_address(etcd_host, etcd_port)
    except OSError as error:
        raise UsageError(f"controller: no way to {etcd_host} from here ({error}); give --local-addr") from None


def parsers() -> dict[str, argparse.ArgumentParser]:
    """Its one parser."""
    return {"controller": _parser()}


def run(arguments: Sequence[str], environ: Mapping[str, str]) -> int:
    """Lead jobs until a signal ends it. Raises ElaunchError."""
    options = parse(arguments, environ)
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # else gRPC writes a line for each handshake that fails
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # each node of each job is a connection

    import asyncio

    from elaunch.cli import output

    output.configure(options.log_level, environ.get(output.FORMAT_VARIABLE, output.AUTO))
    asyncio.run(_serve(options))
    return 0


async def _serve(options: ControllerOptions) -> None:
    import asyncio

    import structlog

    from elaunch.agent.store import open_store
    from elaunch.clock import SystemClock
    from elaunch.controller.dedicated import Dedicated
    from elaunch.controller.server import ControlServer
    from elaunch.controller.service import Service
    from elaunch.metrics.traces import Traces
    from elaunch.rendezvous import addresses
    from elaunch.rendezvous.waiting import cancelled

    structlog.get_logger().info("connecting", etcd=",".join(options.etcd), patience=_PATIENCE)
    store = open_store(options.etcd, options.access)
    clock = SystemClock()
    server = ControlServer(options.security, NODES)
    pages: asyncio.Task[None] | None = None
    traces: Traces | None = None
    try:
        await store.check(timeout=_PATIENCE)
        port = await server.start(options.host, options.port)
        address = addresses.join(options.address, port)
        if options.otel:
            traces = Traces(os.environ)
            server.recovered = traces.recovered
        url = ""
        if options.web is not None:
            from elaunch.web.serving import serve

            url = options.web.url(options.address, options.security.tls is not None)
            pages = asyncio.create_task(serve(options.web, store, server, clock, address=options.address))
        service = Service(os.environ)
        dedicated = Dedicated(store, server, address, options.lease_ttl, clock, url, service.ready)
        leading = asyncio.ensure_future(dedicated.run())
        loop = asyncio.get_running_loop()
        for signum in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(signum, leading.cancel)
        async with service.living():
            await asyncio.wait({leading})
        if not leading.cancelled():
            leading.result()
    finally:
        await cancelled(pages)
        if traces is not None:
            await asyncio.to_thread(traces.close)
        await server.stop()
        await store.close()
