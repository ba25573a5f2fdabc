"""Machines described in files: NCCL's and hwloc's XML, the text of ``nvidia-smi topo -m``, captured sysfs trees."""
