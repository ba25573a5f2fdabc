"""The operator's commands by name."""

from __future__ import annotations

OPERATOR_COMMANDS = {
    "ps": "list the jobs",
    "status": "what a job does now: phase, generation, nodes, commands",
    "top": "jobs as they are, live",
    "events": "what has happened to a job",
    "abort": "stop a job for good",
    "restart": "stop the ranks and start them again; not charged to --max-restarts",
    "drain": "have a node leave, and keep its host out",
    "undrain": "let a drained host take part again",
    "scale": "change how many nodes a job may have",
    "stacks": "show where the ranks of a job are: their Python stacks",
    "signal": "send a signal to the ranks of a job",
}
"""Names that may stand in the script's place, and what they do. A script of such a name is run as ``./name``."""
