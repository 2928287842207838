"""The ledger: the score, the verdict and the reason of every deciding stage, for every document."""
