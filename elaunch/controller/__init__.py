"""The job: state machine, leader, control stream."""
