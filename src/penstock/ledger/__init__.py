"""Receipts: for every document and every stage that decides, the score, the verdict and the reason."""
