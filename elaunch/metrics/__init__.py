"""What a job's time went into, and the figures that a Prometheus collects."""
