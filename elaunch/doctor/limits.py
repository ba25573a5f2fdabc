"""Checks of what this host lets a job use: memory, files, CPUs, clock, the driver's settings."""

from __future__ import annotations

from collections.abc import Iterator

from elaunch.doctor.facts import Complaint, Host

LEAST_SHM = 1 << 30  # bytes: a container's 64 MiB are full with the first batch of a DataLoader's workers
LEAST_FILES = 4096
ENOUGH_LOCKED = 1 << 36  # bytes: what RDMA registers is as large as the buffers


def shared_memory(host: Host) -> Iterator[Complaint]:
    advice = "docker run --shm-size=16g, or in Kubernetes an emptyDir with medium: Memory at /dev/shm"
    if host.shm is None:
        yield Complaint("no_shm", "error", "there is no /dev/shm: ranks cannot share memory", advice)
    elif host.shm < LEAST_SHM:
        text = f"/dev/shm has {_size(host.shm)}: too little for NCCL and for the workers of a DataLoader"
        yield Complaint("small_shm", "warning", text, advice)
    elif host.shm_free is not None and host.shm_free < LEAST_SHM // 4:
        text = f"/dev/shm is nearly full: {_size(host.shm_free)} of {_size(host.shm)} are free"
        yield Complaint("full_shm", "warning", text, "ls -l /dev/shm shows what programs that were killed left there")


def open_files(host: Host) -> Iterator[Complaint]:
    limit = host.open_files
    if limit is not None and limit.hard is not None and limit.hard < LEAST_FILES:
        text = f"a process may open {limit.hard} files at most (ulimit -n)"
        yield Complaint("few_files", "warning", text, "LimitNOFILE= of the service, or nofile in limits.conf")


def locked_memory(host: Host) -> Iterator[Complaint]:
    """RDMA registers the memory that it sends from; sockets do not."""
    limit, topology = host.locked_memory, host.topology
    if limit is None or limit.soft is None or topology is None or not any(port.rdma for port in topology.ports):
        return
    if limit.soft < ENOUGH_LOCKED:
        text = f"a process may lock {_size(limit.soft)} (ulimit -l): RDMA cannot register its buffers"
        advice = "memlock unlimited in limits.conf, LimitMEMLOCK=infinity, docker run --ulimit memlock=-1"
        yield Complaint("little_locked_memory", "error", text, advice)


def cpus(host: Host) -> Iterator[Complaint]:
    if host.cpus is None:
        return
    if host.cpus_online is not None and host.cpus < host.cpus_online:
        text = f"this process may use {host.cpus} of the host's {host.cpus_online} CPUs (cgroup, or affinity)"
        yield Complaint("cpu_set", "info", text)
    if host.cpu_quota is not None and host.cpu_quota < host.cpus:
        text = f"the cgroup gives the time of {host.cpu_quota:g} CPUs of the {host.cpus}: threads will be throttled"
        yield Complaint("cpu_quota", "warning", text, "ask for whole CPUs (a static CPU manager), or use fewer threads")


def clock(host: Host) -> Iterator[Complaint]:
    if host.clock_synchronised is False:
        text = "the clock is not synchronised: what hosts log at one time has other times in their logs"
        yield Complaint("clock", "info", text, "start chronyd or systemd-timesyncd; elaunch itself does not need it")


def driver(host: Host) -> Iterator[Complaint]:
    if not host.nvidia:
        return
    rdma = host.topology is not None and any(port.rdma for port in host.topology.ports)
    if rdma and not host.peermem and not host.dmabuf:
        text = "NICs cannot reach the memory of GPUs: nvidia_peermem is not loaded, and this kernel has no DMA-BUF"
        yield Complaint("no_peermem", "warning", text, "modprobe nvidia_peermem")
    if host.persistence is False:
        text = "no persistence daemon of the driver runs: each start of a job may wait seconds for the GPUs"
        yield Complaint("no_persistence", "info", text, "systemctl enable --now nvidia-persistenced")


def _size(count: int) -> str:
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= size:
            return f"{count / size:.4g} {unit}"
    return f"{count} bytes"
