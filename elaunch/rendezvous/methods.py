"""etcd's gRPC methods that elaunch calls, by hand because the messages live in a package of our own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from elaunch.proto.etcd.v3 import rpc_pb2 as pb

Q = TypeVar("Q")
A = TypeVar("A")


@dataclass(frozen=True, slots=True)
class Method(Generic[Q, A]):
    """A method path with the types of its request and answer."""

    path: str
    request: type[Q]
    answer: type[A]

    def codec(self) -> dict[str, Any]:
        """What grpc wants to know to make a callable of it."""
        return {
            "request_serializer": self.request.SerializeToString,  # type: ignore[attr-defined]
            "response_deserializer": self.answer.FromString,  # type: ignore[attr-defined]
        }


RANGE = Method("/etcdserverpb.KV/Range", pb.RangeRequest, pb.RangeResponse)
PUT = Method("/etcdserverpb.KV/Put", pb.PutRequest, pb.PutResponse)
DELETE_RANGE = Method("/etcdserverpb.KV/DeleteRange", pb.DeleteRangeRequest, pb.DeleteRangeResponse)
TXN = Method("/etcdserverpb.KV/Txn", pb.TxnRequest, pb.TxnResponse)
COMPACT = Method("/etcdserverpb.KV/Compact", pb.CompactionRequest, pb.CompactionResponse)
WATCH = Method("/etcdserverpb.Watch/Watch", pb.WatchRequest, pb.WatchResponse)
LEASE_GRANT = Method("/etcdserverpb.Lease/LeaseGrant", pb.LeaseGrantRequest, pb.LeaseGrantResponse)
LEASE_REVOKE = Method("/etcdserverpb.Lease/LeaseRevoke", pb.LeaseRevokeRequest, pb.LeaseRevokeResponse)
LEASE_KEEP_ALIVE = Method("/etcdserverpb.Lease/LeaseKeepAlive", pb.LeaseKeepAliveRequest, pb.LeaseKeepAliveResponse)
AUTHENTICATE = Method("/etcdserverpb.Auth/Authenticate", pb.AuthenticateRequest, pb.AuthenticateResponse)
STATUS = Method("/etcdserverpb.Maintenance/Status", pb.StatusRequest, pb.StatusResponse)
MEMBER_LIST = Method("/etcdserverpb.Cluster/MemberList", pb.MemberListRequest, pb.MemberListResponse)
MEMBER_ADD = Method("/etcdserverpb.Cluster/MemberAdd", pb.MemberAddRequest, pb.MemberAddResponse)
MEMBER_REMOVE = Method("/etcdserverpb.Cluster/MemberRemove", pb.MemberRemoveRequest, pb.MemberRemoveResponse)
MEMBER_UPDATE = Method("/etcdserverpb.Cluster/MemberUpdate", pb.MemberUpdateRequest, pb.MemberUpdateResponse)
MEMBER_PROMOTE = Method("/etcdserverpb.Cluster/MemberPromote", pb.MemberPromoteRequest, pb.MemberPromoteResponse)
MOVE_LEADER = Method("/etcdserverpb.Maintenance/MoveLeader", pb.MoveLeaderRequest, pb.MoveLeaderResponse)
