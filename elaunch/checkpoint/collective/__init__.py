"""What all ranks do together: agree, share out a save, commit it, load and restore."""
