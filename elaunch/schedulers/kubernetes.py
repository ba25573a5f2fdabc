"""What Kubernetes says in a pod's environment: the job, this pod's place in it, its peers' names. Values only.

``JOB_COMPLETION_INDEX`` and ``HOSTNAME`` are there in every pod of an Indexed Job. The rest is what manifests take from
the downward API: ``ELAUNCH_POD_*`` of ours, ``JOBSET_*`` as JobSet's users call it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

PORT = 29_400  # of the embedded etcd: each pod has an address of its own
GENERATIONS = 100_000  # that one start of a JobSet may number
GRACE = 30.0  # seconds: terminationGracePeriodSeconds, where nothing else is given
_MARGIN = 5.0  # seconds kept of it: for the agent, and for the kubelet's own slowness
_MARGIN_SHARE = 0.2
_ENDPOINTS = 32  # names of pods that are asked for the job's etcd
_MOST = 100_000
_HIGHEST = 2**53
_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_NAME = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_GPU = re.compile(r"(GPU|MIG)-[\w/-]+")


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod that this process runs in; empty and None is what nobody said.

    ``job`` is the name of its Job, JobSet's job or ElasticJob, ``index`` its place among the pods of that, ``pods`` how
    many there are; ``sets`` and ``set`` how many such Jobs a JobSet has, and which of them this is. ``subdomain`` is
    the headless service. ``restarts`` counts how often a JobSet started all anew; ElasticJob's operator tells floor and
    incarnation itself. ``grace`` is the time from SIGTERM to SIGKILL in seconds, ``gpus`` what the device plugin
    gave.
    """

    name: str = ""
    namespace: str = ""
    node: str = ""
    address: str = ""
    job: str = ""
    index: int | None = None
    pods: int | None = None
    set: int = 0
    sets: int = 1
    subdomain: str = ""
    restarts: int | None = None
    grace: float = GRACE
    gpus: int | None = None
    jobset: str = ""
    told_floor: int = 0
    told_incarnation: str = ""

    @property
    def nodes(self) -> int | None:
        """How many pods make the job."""
        return self.pods * self.sets if self.pods is not None else None

    @property
    def id(self) -> str:
        """The job for elaunch, the same for each pod that takes a lost one's place."""
        return f"{self.namespace}.{self.jobset or self.job}" if self.namespace else self.jobset or self.job

    def place(self, nodes: int) -> int:
        """This pod's among all ``nodes`` of the job; -1 where it has none."""
        return -1 if self.index is None else self.set * (nodes // self.sets) + self.index

    @property
    def floor(self) -> int:
        """Above this the generations of this start are numbered: no earlier one came so far."""
        return self.told_floor or (self.restarts or 0) * GENERATIONS

    @property
    def incarnation(self) -> str:
        """The same for all starts of the job; "" where a later start could not be told from an earlier one."""
        return self.told_incarnation or (f"kubernetes:{self.id}" if self.restarts is not None else "")

    @property
    def time_to_leave(self) -> float:
        """Seconds from SIGTERM in which ranks and agent are to have ended."""
        return self.grace - min(_MARGIN, self.grace * _MARGIN_SHARE)

    def endpoints(self, nodes: int, port: int = PORT) -> tuple[str, ...]:
        """``host:port`` of the job's first pods, by names that outlive a pod: of these the etcd of the job is asked.

        The first starts it. Members may move to any, so that more than three are told. None where names are unknown.
        """
        if not self.job or self.index is None:
            return ()
        each = nodes // self.sets
        base = self.job.removesuffix(f"-{self.set}") if self.sets > 1 else self.job
        places = [divmod(place, each) for place in range(min(nodes, _ENDPOINTS))]
        hosts = [f"{f'{base}-{job}' if self.sets > 1 else base}-{pod}" for job, pod in places]
        return tuple(f"{host}.{self.subdomain}:{port}" for host in hosts)


def pod(environ: Mapping[str, str]) -> Pod | None:
    """What ``environ`` says, None outside of a pod. Raises ValueError with variable and value."""
    if not any(environ.get(name) for name in ("KUBERNETES_SERVICE_HOST", "JOB_COMPLETION_INDEX", "ELAUNCH_POD_NAME")):
        return None
    index = _whole(environ, "ELAUNCH_POD_INDEX")
    index = _whole(environ, "JOB_COMPLETION_INDEX") if index is None else index
    host, _, domain = environ.get("HOSTNAME", "").partition(".")
    job = _name(environ, "ELAUNCH_POD_JOB") or _job_of(host, index)
    jobset = _name(environ, "JOBSET_NAME")
    return Pod(
        name=_name(environ, "ELAUNCH_POD_NAME"),
        namespace=_name(environ, "ELAUNCH_POD_NAMESPACE"),
        node=_name(environ, "ELAUNCH_POD_NODE"),
        address=environ.get("ELAUNCH_POD_IP", ""),
        job=job,
        index=index,
        pods=_whole(environ, "ELAUNCH_POD_COUNT", least=1),
        set=_whole(environ, "JOBSET_JOB_INDEX") or 0,
        sets=_whole(environ, "JOBSET_REPLICAS", least=1) or 1,
        subdomain=_name(environ, "ELAUNCH_POD_SUBDOMAIN") or jobset or domain.partition(".")[0] or job,
        restarts=_whole(environ, "JOBSET_RESTART_ATTEMPT"),
        grace=_seconds(environ, "ELAUNCH_GRACE_PERIOD", GRACE),
        gpus=_gpus(environ),
        jobset=jobset,
        told_floor=_whole(environ, "ELAUNCH_POD_FLOOR", most=_HIGHEST) or 0,
        told_incarnation=_name(environ, "ELAUNCH_POD_INCARNATION"),
    )


def siblings(host: str, nodes: int, port: int) -> tuple[str, ...]:
    """``host:port`` of the pods beside the first one, ``host``, whose names differ by their index: ``a-0-0.a``.

    None where its name does not end in 0. So a TrainJob's pods are found though only the first was named.
    """
    first, dot, domain = host.partition(".")
    if not first.endswith("-0"):
        return ()
    names = [f"{first.removesuffix('0')}{index}{dot}{domain}" for index in range(min(nodes, _ENDPOINTS))]
    return tuple(f"{name}:{port}" for name in names)


def _job_of(host: str, index: int | None) -> str:
    """A pod of an Indexed Job is called after it: ``train-3`` is pod 3 of ``train``."""
    end = f"-{index}"
    return host.removesuffix(end) if index is not None and host.endswith(end) else ""


def _gpus(environ: Mapping[str, str]) -> int | None:
    """How many the device plugin gave: it names each. An image that asks for all says only ``all``."""
    listed = environ.get("NVIDIA_VISIBLE_DEVICES", "").split(",")
    return len(listed) if all(_GPU.fullmatch(name) for name in listed) else None


def _name(environ: Mapping[str, str], variable: str) -> str:
    text = environ.get(variable, "")
    if text and (len(text) > 253 or not _NAME.fullmatch(text)):
        raise ValueError(f"{variable}={text[:80]}: expected a name such as Kubernetes gives")
    return text


def _whole(environ: Mapping[str, str], variable: str, *, least: int = 0, most: int = _MOST) -> int | None:
    text = environ.get(variable, "")
    if not text:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) <= 16 and least <= int(text) <= most):
        raise ValueError(f"{variable}={text[:80]}: expected a whole number from {least} to {most}")
    return int(text)


def _seconds(environ: Mapping[str, str], variable: str, default: float) -> float:
    text = environ.get(variable, "")
    if not text:
        return default
    if not re.fullmatch(r"[0-9]{1,7}(\.[0-9]+)?", text):
        raise ValueError(f"{variable}={text[:80]}: expected seconds, as terminationGracePeriodSeconds has them")
    return float(text)
