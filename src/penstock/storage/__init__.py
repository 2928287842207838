"""Access to files: filesystems, listing, compression, atomic writes, locks, the checkpoint journal, the run folder."""
