"""Every error that elaunch raises on purpose, with the exit code it ends the process with."""

from __future__ import annotations

from typing import ClassVar


class ElaunchError(Exception):
    """Base of all errors a user may see. ``str(error)`` is one line: what, with which value, what to try."""

    exit_code: ClassVar[int] = 1
    code: ClassVar[str] = "error"


class UsageError(ElaunchError):
    """Bad input, refused at the door, before any process is started."""

    exit_code = 2
    code = "usage"


class EndpointUnreachableError(UsageError):
    """No etcd answered at the given endpoint when the job was to start. ``cause`` is why, in plain words, if known."""

    code = "endpoint_unreachable"

    def __init__(self, text: str, cause: str = "") -> None:
        super().__init__(text)
        self.cause = cause


class SpecMismatchError(UsageError):
    """This node was started with other values than the job's first node."""

    code = "spec_mismatch"


class RankTakenError(UsageError):
    """Another node that lives was given the same ``--node-rank``."""

    code = "rank_taken"


class RendezvousError(ElaunchError):
    """The rendezvous itself cannot be done."""

    code = "rendezvous"


class EtcdLostError(ElaunchError):
    """etcd was there and did not come back within the grace time."""

    exit_code = 69  # EX_UNAVAILABLE of sysexits.h
    code = "etcd_lost"


class JoinTimeoutError(ElaunchError):
    """Too few nodes came within ``join_timeout``."""

    exit_code = 75  # EX_TEMPFAIL of sysexits.h
    code = "join_timeout"


class StartError(ElaunchError):
    """The ranks of this node could not be started."""

    exit_code = 71  # EX_OSERR of sysexits.h
    code = "start_failed"


class TopologyError(UsageError):
    """A description of a machine cannot be read: the file, the place in it, what was expected."""

    code = "topology"


class NoRouteError(ElaunchError):
    """No port is left over which ranks of other nodes can be reached: what was found, and why each was refused."""

    exit_code = 95
    code = "no_route"


class StartCheckError(ElaunchError):
    """The ranks that were started do not make one job: which of them, and what differs."""

    exit_code = 96
    code = "start_check"


class LeaseLostError(ElaunchError):
    """The node's lease ended, or can no longer be known to live: its ranks may not run on."""

    code = "lease_lost"


class DeposedError(ElaunchError):
    """A write was refused because another leader was elected in the meantime."""

    code = "deposed"


class ConflictError(ElaunchError):
    """A write was refused because something that it was based on has changed; its author still leads."""

    code = "conflict"


class EtcdRefusedError(ElaunchError):
    """etcd answered and said no: wrong password, no permission, no space, a request it does not take."""

    exit_code = 77  # EX_NOPERM of sysexits.h
    code = "etcd_refused"


class AccessRefusedError(ElaunchError):
    """The leader does not take the token of this node or operator: their token files differ."""

    exit_code = 77  # EX_NOPERM of sysexits.h
    code = "access_refused"


class BadRecordError(ElaunchError):
    """etcd holds under ``key`` what no release of elaunch has written, and without it the job cannot go on."""

    exit_code = 65  # EX_DATAERR of sysexits.h
    code = "bad_record"

    def __init__(self, key: str, defect: str) -> None:
        """``defect`` says what is wrong with the value."""
        advice = f"mend or delete it (etcdctl del {key})"
        super().__init__(f"what etcd has in the key {key} cannot be used: {defect}; {advice}")
        self.key = key


class CompactedError(ElaunchError):
    """The history from the asked revision on is gone; list again and watch from there."""

    code = "compacted"


class AmbiguousError(ElaunchError):
    """The connection broke after a transaction was sent: it may or may not have been applied."""

    code = "ambiguous"


class NoSuchJobError(ElaunchError):
    """An operator's command names a job, node or rank that is not there."""

    exit_code = 66  # EX_NOINPUT of sysexits.h
    code = "not_found"


class JobFinishedError(ElaunchError):
    """An operator's command came after the job's end."""

    exit_code = 67
    code = "job_finished"


class CommandRefusedError(ElaunchError):
    """The job's state does not allow an operator's command, or what it asked for did not come about."""

    exit_code = 68
    code = "refused"


class UnansweredError(ElaunchError):
    """An operator's command stands, and what becomes of it was not told in time."""

    exit_code = 74  # EX_IOERR of sysexits.h
    code = "unanswered"


class CheckpointError(ElaunchError):
    """A checkpoint cannot be written, read or used."""

    code = "checkpoint"


class StateError(CheckpointError):
    """The program's objects and what a checkpoint holds, or can hold, do not fit together."""

    code = "checkpoint_state"


class DamagedCheckpointError(CheckpointError):
    """What is stored is not what was saved: cut off, changed, or never a checkpoint."""

    exit_code = 65  # EX_DATAERR of sysexits.h
    code = "checkpoint_damaged"


class NoCheckpointError(CheckpointError):
    """There is no such directory, or no such checkpoint in it."""

    exit_code = 66  # EX_NOINPUT of sysexits.h
    code = "checkpoint_not_found"


class CheckpointRefusedError(CheckpointError):
    """What was asked for would lose something, or cannot be done with this checkpoint."""

    exit_code = 68
    code = "checkpoint_refused"


class StorageError(CheckpointError):
    """A file system or object store does not do its part: an I/O error, no space, a time-out."""

    exit_code = 74  # EX_IOERR of sysexits.h
    code = "checkpoint_storage"


class StorageAccessError(CheckpointError):
    """A file or directory may not be read, or not be written."""

    exit_code = 77  # EX_NOPERM of sysexits.h
    code = "checkpoint_access"


class DirectoryInUseError(CheckpointError):
    """Another job that lives writes its checkpoints to this directory. A job whose ranks end of it has its code."""

    exit_code = 97
    code = "checkpoint_directory_in_use"


class FencedError(CheckpointError):
    """A newer run has taken the directory over: nothing of this one is committed any more."""

    code = "checkpoint_fenced"
