"""Where checkpoints stand: file systems and object stores behind one interface, and the layout of a directory."""
