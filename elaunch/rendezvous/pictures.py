"""Pictures of the job's machines in etcd, one for all that are equal: as few writes as there are kinds of machines."""

from __future__ import annotations

import zlib

import structlog

from elaunch.errors import AmbiguousError, EtcdLostError, EtcdRefusedError
from elaunch.rendezvous.keys import JobKeys
from elaunch.rendezvous.store import Put, Store, absent

LARGEST = 1 << 20  # bytes of a picture,
_LARGEST_KEPT = 256 << 10  # and of it compressed


async def leave_picture(store: Store, keys: JobKeys, digest: str, picture: str) -> None:
    """Leave a picture of machines of this digest, if none is there. It is no matter where that fails."""
    value = zlib.compress(picture.encode(), 9)
    if not digest or not picture or len(picture) > LARGEST or len(value) > _LARGEST_KEPT:
        return
    key = keys.picture(digest)
    try:
        if await store.get(key) is None:
            await store.txn([absent(key)], [Put(key, value)])
    except (AmbiguousError, EtcdLostError, EtcdRefusedError) as error:
        structlog.get_logger().debug("picture_not_left", job=keys.job, reason=str(error))


async def find_picture(store: Store, keys: JobKeys, digest: str) -> str | None:
    """The picture of machines of this digest; None where there is none that can be shown."""
    found = await store.get(keys.picture(digest)) if digest else None
    if found is None:
        return None
    try:
        return zlib.decompressobj().decompress(found.value, LARGEST).decode()
    except (zlib.error, UnicodeDecodeError):
        return None
