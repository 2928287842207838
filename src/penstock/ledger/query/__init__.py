"""Query the ledger of a finished run: receipts, what-if, overview, samples and export."""
