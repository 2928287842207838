"""Filter by language with a histogram of the characters that its texts usually contain."""

from __future__ import annotations

from pathlib import Path

from penstock.errors import InputError
from penstock.text.filters.document_filter import DocumentFilter
from penstock.text.filters.ratio import share

_ARCHIVE = "histograms.tar.gz of the M2M-100 release"
_FOLDER = Path("histograms", "checkpoint", "edunov", "cc60_multilingual", "clean_hists")


class HistogramFilter(DocumentFilter):
    """Keep documents whose characters are nearly all in the histogram of a language, as the NLLB project does.

    A histogram is a file per language with a character at the beginning of each line, most frequent first, up to a line
    that begins with ``threshold_char``. It is looked for in ``cache_dir``, where the archive of the M2M-100 release
    puts it, or in ``cache_dir`` itself; nothing is downloaded. The score is 1 if more than ``threshold`` of the
    characters are listed (white space at both ends does not count as listed), otherwise 0. An empty document scores 0.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = pathlib.Path(folder, "en").write_text(chr(10).join("etaoinshrdlu]"))
    ...     english = HistogramFilter("en", cache_dir=folder)
    >>> english.score_document("tonsorial"), english.score_document("привет")
    (1, 0)
    """

    name = "histogram"

    def __init__(
        self, lang: str = "en", threshold: float = 0.8, cache_dir: str = "", threshold_char: str = "]"
    ) -> None:
        self.lang = lang
        self.threshold = threshold
        self.cache_dir = cache_dir
        self.threshold_char = threshold_char
        self._histogram = _read(Path(cache_dir), lang, threshold_char)

    def score_document(self, text: str) -> int:
        """Return 1 if more than ``threshold`` of the characters are listed, otherwise 0."""
        listed = sum(c in self._histogram for c in text.strip())
        return int(share(listed, len(text), of_nothing=0.0) > self.threshold)

    def keep_document(self, score: float) -> bool:
        """Keep the document if ``score == 1``."""
        return score == 1


def _read(folder: Path, lang: str, threshold_char: str) -> frozenset[str]:
    places = [folder / _FOLDER / lang, folder / lang]
    path = next((place for place in places if place.is_file()), None)
    if path is None:
        raise InputError(
            f"HistogramFilter: no histogram of lang={lang!r} in {folder}. Unpack {_ARCHIVE} there, or set cache_dir."
        )
    common: list[str] = []
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            if line.startswith(threshold_char):
                break
            common.append(line[0])
    return frozenset(common)
