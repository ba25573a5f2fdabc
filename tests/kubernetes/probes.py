"""Probes that act: a command in the container, an HTTP request to the pod, a connection to one of its ports."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import aiohttp

from tests.kubernetes.containers import Process

Object = Mapping[str, Any]


async def watch(probe: Object, look: Callable[[], Any], verdict: Callable[[bool, str], bool]) -> None:
    """Look again and again, and tell ``verdict`` whenever enough looks in a row agree, until it says to stop.

    ``verdict`` gets whether the probe passes, and what it said.
    """
    await asyncio.sleep(probe.get("initialDelaySeconds", 0))
    passed = failed = 0
    while True:
        fine, said = await look()
        passed, failed = (passed + 1, 0) if fine else (0, failed + 1)
        enough = passed >= probe.get("successThreshold", 1) or failed >= probe.get("failureThreshold", 3)
        if enough and verdict(fine, said):
            return
        await asyncio.sleep(probe.get("periodSeconds", 10))


async def look(probe: Object, process: Process, container: Object, address: str) -> tuple[bool, str]:
    """One look: whether all is well, and what was said."""
    seconds = float(probe.get("timeoutSeconds", 1))
    if command := probe.get("exec"):
        code, said = await process.execute(command["command"], seconds)
        return code == 0, said.strip() or f"exit code {code}"
    if get := probe.get("httpGet"):
        return await http_get(get, container, address, seconds)
    if tcp := probe.get("tcpSocket"):
        return await _connect(tcp.get("host") or address, port_number(tcp["port"], container), seconds)
    return False, f"probes of this kind are not known here: {dict(probe)}"


async def http_get(get: Object, container: Object, address: str, seconds: float) -> tuple[bool, str]:
    host, port = get.get("host") or address, port_number(get["port"], container)
    url = f"{get.get('scheme', 'HTTP').lower()}://{host}:{port}{get.get('path', '/')}"
    headers = {header["name"]: header["value"] for header in get.get("httpHeaders") or ()}
    try:
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(seconds)) as session,
            session.get(url, headers=headers, ssl=False, allow_redirects=False) as answer,
        ):
            return 200 <= answer.status < 400, f"HTTP probe: {url} answered {answer.status}"
    except (aiohttp.ClientError, asyncio.TimeoutError) as error:
        return False, f"HTTP probe: {url}: {error!r}"


def port_number(port: int | str, container: Object) -> int:
    """A port by its number or by its name."""
    if isinstance(port, int) or port.isdigit():
        return int(port)
    return int(next(p["containerPort"] for p in container.get("ports") or () if p.get("name") == port))


async def _connect(host: str, port: int, seconds: float) -> tuple[bool, str]:
    try:
        _, writer = await asyncio.wait_for(asyncio.open_connection(host, port), seconds)
    except (OSError, asyncio.TimeoutError) as error:
        return False, f"TCP probe: {host}:{port}: {error!r}"
    writer.close()
    return True, "connected"
