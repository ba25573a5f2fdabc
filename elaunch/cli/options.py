"""The command line into :class:`LaunchOptions`, or a :class:`UsageError`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from elaunch.agent.options import LaunchOptions
from elaunch.cli import settings
from elaunch.cli.binding import resolve_binding
from elaunch.cli.devices import count_slots
from elaunch.cli.meeting import resolve_meeting
from elaunch.cli.parser import read
from elaunch.cli.program import resolve_preload, resolve_program, resolve_start
from elaunch.cli.recovery import recovery
from elaunch.cli.rendezvous_conf import parse_conf
from elaunch.cli.security import open_etcd, resolve_security
from elaunch.cli.settings import checked
from elaunch.cli.within_kubernetes import within_kubernetes
from elaunch.cli.within_slurm import within_slurm


def parse(argv: Sequence[str], environ: Mapping[str, str]) -> LaunchOptions:
    """What ``argv`` and ``environ`` ask for, checked.

    Raises UsageError, one line that names the option, its value and what was expected; SystemExit(0) after
    ``--help`` and ``--version``.
    """
    values, here, scheduled = within_slurm(read(argv, environ), environ)
    pod_warnings: tuple[str, ...] = ()
    if here is None:
        pod = within_kubernetes(values, environ)
        values, scheduled, pod_warnings = pod.values, pod.scheduled, pod.warnings
    program = resolve_program(values, environ)
    nodes = settings.nodes(values)
    conf, conf_rank = checked(values, "rdzv_conf", parse_conf, environ)
    meeting = resolve_meeting(values, nodes[1], conf_rank)
    start, start_warnings = resolve_start(values, program)
    security = resolve_security(values)
    slots = checked(values, "nproc_per_node", count_slots, environ, here.cpus if here is not None else None)
    binding, binding_warnings = resolve_binding(values, slots, environ)
    return LaunchOptions(
        program=program,
        min_nodes=nodes[0],
        max_nodes=nodes[1],
        slots=slots,
        job=meeting.job,
        backend=meeting.backend,
        endpoints=meeting.endpoints,
        standalone=meeting.standalone,
        conf=conf,
        logs=settings.log_options(values, slots, environ),
        max_restarts=settings.max_restarts(values),
        recovery=recovery(values, nodes),
        monitor_interval=settings.monitor_interval(values),
        start=start,
        start_method=values["start_method"],
        preload=resolve_preload(values, start, environ),
        role=settings.role(values),
        local_addr=settings.local_addr(values),
        node_rank=meeting.node_rank,
        owns_rank=meeting.owns_rank,
        numa_binding=settings.numa_binding(values, environ),
        virtual_local_rank=values["virtual_local_rank"],
        binding=binding,
        allow_asymmetry=values["allow_asymmetry"],
        probe=values["probe"],
        allow_injection=values["allow_injection"],
        start_check=not values["no_start_check"],
        signals=checked(values, "signals_to_handle", settings.parse_signals),
        shutdown_timeout=settings.shutdown_timeout(values, environ),
        notice_signal=settings.notice_signal(values),
        event_log_handler=settings.event_log_handler(values),
        log_level=settings.log_level(values, environ),
        security=security,
        scheduled=scheduled,
        place=settings.place(environ),
        web=settings.web(values),
        warnings=(
            *pod_warnings,
            *meeting.warnings,
            *start_warnings,
            *binding_warnings,
            *open_etcd(security, meeting, nodes[1]),
        ),
        otel=settings.otel(values, environ),
    )
