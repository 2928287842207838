"""Download the files of public data sets."""
