"""Where the nodes of a job meet: backend, endpoints, the job's name, the node's rank."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from elaunch.agent.options import Backend, Endpoint
from elaunch.cli.endpoints import parse_endpoint, parse_endpoints
from elaunch.cli.parser import Values
from elaunch.cli.settings import checked
from elaunch.errors import UsageError
from elaunch.rendezvous.addresses import no_loopback

DEFAULT_PORTS: dict[Backend, int] = {"etcd": 2379, "c10d": 29400, "static": 29500}
_NO_ID = "none"


@dataclass(frozen=True, slots=True)
class Meeting:
    """How a node finds the others. ``standalone`` needs no endpoint: nobody else is to come.

    ``owns_rank`` says that ``node_rank`` was asked for, so that no other node may have it.
    """

    job: str
    backend: Backend
    endpoints: tuple[Endpoint, ...]
    standalone: bool
    node_rank: int
    owns_rank: bool
    warnings: tuple[str, ...]


def resolve_meeting(values: Values, max_nodes: int, conf_rank: int | None) -> Meeting:
    """Raises UsageError where the nodes could not find each other."""
    backend = _backend(values)
    endpoints = _endpoints(values, backend)
    standalone = _standalone(values, backend, endpoints, max_nodes)
    rank, rank_warning = _node_rank(values, backend, max_nodes, conf_rank, standalone)
    job, job_warning = _job(values, backend, max_nodes)
    warnings = [*rank_warning, *job_warning]
    if (standalone or max_nodes == 1) and not values["local_addr"] and (why := no_loopback()):
        raise UsageError(f"the loopback interface is down ({why}), and ranks meet on it: ip link set lo up")
    if standalone:
        ignored = [name for name in ("rdzv_backend", "rdzv_endpoint") if values.given(name) and values["standalone"]]
        warnings += [f"--{name.replace('_', '-')} is ignored with --standalone" for name in ignored]
        return Meeting(job, "c10d", (), True, rank, False, tuple(warnings))
    owns_rank = rank >= 0 and (values.given("node_rank") or conf_rank is not None)
    return Meeting(job, backend, endpoints, False, rank, owns_rank, tuple(warnings))


def _backend(values: Values) -> Backend:
    name: str = values["rdzv_backend"]
    if name == "etcd":
        return "etcd"
    if name == "c10d":
        return "c10d"
    if name == "static":
        return "static"
    if name == "etcd-v2":
        raise values.error("rdzv_backend", "etcd's v2 interface is gone from etcd; use etcd")
    raise values.error("rdzv_backend", "expected etcd, c10d or static")


def _endpoints(values: Values, backend: Backend) -> tuple[Endpoint, ...]:
    """The given endpoints, else the backend's default."""
    endpoints = checked(values, "rdzv_endpoint", parse_endpoints, DEFAULT_PORTS[backend])
    if endpoints:
        return endpoints
    if backend == "static":
        return (_master(values),)
    return (Endpoint("localhost", DEFAULT_PORTS[backend]),)


def _master(values: Values) -> Endpoint:
    port = DEFAULT_PORTS["static"] if values["master_port"] is None else values["master_port"]
    if not 0 <= port <= 65535:
        raise values.error("master_port", "expected a port from 0 to 65535")
    host = checked(values, "master_addr", parse_endpoint, port).host
    return Endpoint(host, port)


def _standalone(values: Values, backend: Backend, endpoints: tuple[Endpoint, ...], max_nodes: int) -> bool:
    if values["standalone"]:
        if max_nodes > 1:
            raise values.error("nnodes", "--standalone is for one node; leave it out, or ask for one node")
        return True
    if any(endpoint.port == 0 for endpoint in endpoints):
        dest = "rdzv_endpoint" if values["rdzv_endpoint"] else "master_port"
        if max_nodes > 1 or backend == "etcd":
            raise values.error(dest, "port 0, any free one, cannot be found by other nodes; give a port")
        return True
    asked = values["rdzv_endpoint"] or (backend == "static" and values["master_port"] is not None)
    return max_nodes == 1 and backend != "etcd" and not asked


def _node_rank(
    values: Values, backend: Backend, max_nodes: int, conf_rank: int | None, standalone: bool
) -> tuple[int, tuple[str, ...]]:
    rank: int = values["node_rank"]
    if rank < 0:
        raise values.error("node_rank", "expected 0 or more")
    if backend != "static" or standalone:
        ignored = rank != 0 and not standalone
        return -1, (f"--node-rank={rank} counts for the static backend only",) if ignored else ()
    if conf_rank is not None and not values.given("node_rank"):
        rank = conf_rank
    if rank >= max_nodes:
        raise values.error("node_rank", f"expected a rank below the {max_nodes} of --nnodes")
    return rank, ()


def _job(values: Values, backend: Backend, max_nodes: int) -> tuple[str, tuple[str, ...]]:
    job: str = values["rdzv_id"]
    if not job.strip() or not job.isprintable():
        raise values.error("rdzv_id", "expected a name")
    if job != _NO_ID:
        return job, ()
    if max_nodes == 1:
        return str(uuid.uuid4()), ()
    if backend == "static":
        return job, ()
    return job, (f"no --rdzv-id was given: this job is called '{_NO_ID}', and two such jobs would meet",)
