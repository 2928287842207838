"""Documents that were read several times: first to look at all of them, at last to decide about each."""

from __future__ import annotations

from penstock.ledger.query.ledger import Ledger


def only_looked_at(ledger: Ledger) -> set[str]:
    """Return the blocks that something else was made of, and whose files were read again for a decision."""
    blocks = [(name, about) for piece in ledger.pieces for name, about in piece.blocks.items() if "read" in about]
    decided = {file for _, about in blocks if "remade_by" not in about for file in about.get("files", ())}
    return {name for name, about in blocks if "remade_by" in about and decided.issuperset(about.get("files", ()))}
