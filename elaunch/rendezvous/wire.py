"""The store's values as messages of etcd's v3 API, and back."""

from __future__ import annotations

from collections.abc import Sequence

from elaunch.proto.etcd.v3 import rpc_pb2 as pb
from elaunch.rendezvous.store import Change, ClusterMember, Compare, Delete, Field, KeyValue, Op, Put
from elaunch.rendezvous.watch import prefix_range


def key_value(kv: pb.KeyValue) -> KeyValue:
    return KeyValue(kv.key.decode(), kv.value, kv.create_revision, kv.mod_revision, kv.lease)


def member(member: pb.Member) -> ClusterMember:
    endpoints = tuple(url.split("://", 1)[-1] for url in member.clientURLs)
    return ClusterMember(member.ID, member.name, tuple(member.peerURLs), endpoints, member.isLearner)


def change(event: pb.Event) -> Change:
    return Change(key_value(event.kv), event.type == pb.Event.DELETE)


def transaction(compares: Sequence[Compare], ops: Sequence[Op]) -> pb.TxnRequest:
    return pb.TxnRequest(compare=map(compare, compares), success=map(operation, ops))


def compare(compare: Compare) -> pb.Compare:
    message = pb.Compare(key=compare.key.encode(), result=pb.Compare.EQUAL)
    if compare.field is Field.VALUE:
        message.target, message.value = pb.Compare.VALUE, as_bytes(compare.value)
    elif compare.field is Field.CREATE_REVISION:
        message.target, message.create_revision = pb.Compare.CREATE, int(compare.value)
    else:
        message.target, message.mod_revision = pb.Compare.MOD, int(compare.value)
    return message


def as_bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise TypeError(f"a value is compared with bytes, not with {value!r}")
    return value


def operation(op: Op) -> pb.RequestOp:
    if isinstance(op, Put):
        return pb.RequestOp(request_put=pb.PutRequest(key=op.key.encode(), value=op.value, lease=op.lease))
    return pb.RequestOp(request_delete_range=delete(op))


def delete(op: Delete) -> pb.DeleteRangeRequest:
    if op.prefix:
        key, end = prefix_range(op.key)
        return pb.DeleteRangeRequest(key=key, range_end=end)
    return pb.DeleteRangeRequest(key=op.key.encode())
