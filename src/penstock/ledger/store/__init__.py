"""Store the ledger of a run: the file formats, with a reader and a writer for each."""
