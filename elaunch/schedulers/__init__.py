"""What a scheduler says of the job and node that it started: values only, read from its own words."""
