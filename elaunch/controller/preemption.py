"""A scheduler ends the job, though there is more to do: how that is called, and what the agents exit with."""

from __future__ import annotations

EXIT_WORK_REMAINS = 85  # ERESTART of errno.h: start it again
WARNED = "time_nearly_up"  # a warning signal: there is time left
LEFT = "node_left"  # of several nodes only some are stopped
NODE_REPLACED = "node_replaced"  # SIGTERM to a node in whose place the scheduler puts another: the rest waits for it
TERMINATED = "terminated"  # SIGTERM: the scheduler kills what is there when its own grace is over
