"""Whether the interfaces of a job's nodes reach each other: schedule and findings as values, and the datagrams."""
