"""What this host is, read from sysfs and from its drivers; a captured sysfs tree serves as well."""
