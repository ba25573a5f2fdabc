"""What is wrong with a host, for the jobs that are to run on it: facts gathered, looked at by small pure checks."""
