"""Files and what is kept in them: filesystems, atomic writes, the journal of what is done, the run folder."""
