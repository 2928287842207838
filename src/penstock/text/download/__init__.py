"""Getting the files of a public data set onto this machine."""
