"""The truth in etcd: client, keys, leases, election, generation fence, torchrun plug-in."""
