"""Find the text of a web page among its menus: three algorithms of three libraries with one interface."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from penstock.errors import suggestion
from penstock.extras import require
from penstock.text.extract.stop_words import UNSPACED


class HTMLExtractorAlgorithm:
    """Find the paragraphs of a page that are text; write a subclass to use another algorithm.

    ``extract_text`` returns the paragraphs; None or an empty list drops the page. In languages written without spaces
    words cannot be counted, so every paragraph that the library finds is kept.

    >>> class Lines(HTMLExtractorAlgorithm):
    ...     def extract_text(self, html: str, stop_words: frozenset[str], language: str) -> list[str] | None:
    ...         return html.removeprefix("<pre>").removesuffix("</pre>").splitlines()
    >>> Lines().extract_text("<pre>One line.</pre>", frozenset(), "ENGLISH")
    ['One line.']
    """

    NON_SPACED_LANGUAGES: ClassVar[frozenset[str]] = UNSPACED

    def extract_text(self, html: str, stop_words: frozenset[str], language: str) -> list[str] | None:
        """Return the paragraphs of text."""
        raise NotImplementedError(f"{type(self).__name__} defines no extract_text(self, html, stop_words, language).")


class JusTextExtractor(HTMLExtractorAlgorithm):
    """Extract paragraphs with jusText: keep long ones with many stop words and few links, and those between them.

    ``is_boilerplate=False`` keeps every paragraph; None (the default) does so only for languages written without
    spaces. Needs ``penstock[extract]``.

    >>> html = "<div><a href='/'>Home</a></div><p>" + "This is what we have of it and all that it was. " * 5 + "</p>"
    >>> stop_words = frozenset("this is what we have of it and all that was".split())
    >>> [text[:20] for text in JusTextExtractor().extract_text(html, stop_words, "ENGLISH")]
    ['This is what we have']
    """

    def __init__(
        self,
        length_low: int = 70,
        length_high: int = 200,
        stopwords_low: float = 0.30,
        stopwords_high: float = 0.32,
        max_link_density: float = 0.2,
        max_heading_distance: int = 200,
        no_headings: bool = False,
        is_boilerplate: bool | None = None,
    ) -> None:
        self.length_low = length_low
        self.length_high = length_high
        self.stopwords_low = stopwords_low
        self.stopwords_high = stopwords_high
        self.max_link_density = max_link_density
        self.max_heading_distance = max_heading_distance
        self.no_headings = no_headings
        self.is_boilerplate = is_boilerplate

    def extract_text(self, html: str, stop_words: frozenset[str], language: str) -> list[str] | None:
        """Return the paragraphs that are not boilerplate."""
        steps = require("justext.core", "extract", "JusTextExtractor")
        page = steps.preprocessor(steps.html_to_dom(_for_lxml(html)))
        paragraphs = steps.ParagraphMaker.make_paragraphs(page)
        steps.classify_paragraphs(
            paragraphs,
            stop_words,
            self.length_low,
            self.length_high,
            self.stopwords_low,
            self.stopwords_high,
            self.max_link_density,
            self.no_headings,
        )
        for paragraph in paragraphs:
            # The next step reads class_type of paragraphs after a heading; justext() itself would set it too late.
            paragraph.class_type = paragraph.cf_class
        steps.revise_paragraph_classification(paragraphs, self.max_heading_distance)
        drop = self.is_boilerplate
        if drop is None:
            drop = language not in self.NON_SPACED_LANGUAGES
        return [paragraph.text for paragraph in paragraphs if not (drop and paragraph.is_boilerplate)]


class ResiliparseExtractor(HTMLExtractorAlgorithm):
    """Extract paragraphs with Resiliparse: fast rules on the page's structure, then a minimum share of stop words.

    Needs ``penstock[extract]``.

    >>> html = "<nav><a href='/'>Home</a></nav><p>This is what we have seen of it.</p>"
    >>> ResiliparseExtractor().extract_text(html, frozenset(["this", "is", "what", "we", "have", "of"]), "ENGLISH")
    ['This is what we have seen of it.']
    """

    def __init__(
        self, required_stopword_density: float = 0.32, main_content: bool = True, alt_texts: bool = False
    ) -> None:
        self.required_stopword_density = required_stopword_density
        self.main_content = main_content
        self.alt_texts = alt_texts

    def extract_text(self, html: str, stop_words: frozenset[str], language: str) -> list[str] | None:
        """Return the paragraphs of the main content."""
        html2text = require("resiliparse.extract.html2text", "extract", "ResiliparseExtractor")
        text = html2text.extract_plain_text(html, main_content=self.main_content, alt_texts=self.alt_texts)
        return _dense(text.split("\n"), stop_words, language, self.required_stopword_density)


class TrafilaturaExtractor(HTMLExtractorAlgorithm):
    """Extract paragraphs with trafilatura: a cascade of rules with fallbacks, then a minimum share of stop words.

    The sizes are trafilatura's settings of the same names. ``extract_kwargs`` are passed to ``trafilatura.extract``;
    ``deduplicate`` is on by default. Needs ``penstock[extract]``.

    >>> html = "<html><body><nav>Home</nav><article><p>This is what we have seen of it.</p></article></body></html>"
    >>> stop_words = frozenset(["this", "is", "what", "we", "have", "of"])
    >>> TrafilaturaExtractor().extract_text(html, stop_words, "ENGLISH")
    ['This is what we have seen of it.']
    """

    def __init__(
        self,
        required_stopword_density: float = 0.32,
        min_extracted_size: int = 250,
        min_extracted_comm_size: int = 1,
        min_output_size: int = 1,
        min_output_comm_size: int = 1,
        max_tree_size: int | None = None,
        min_duplcheck_size: int = 100,
        max_repetitions: int = 2,
        **extract_kwargs: Any,  # noqa: ANN401 - passed through as they are
    ) -> None:
        self.required_stopword_density = required_stopword_density
        self.min_extracted_size = min_extracted_size
        self.min_extracted_comm_size = min_extracted_comm_size
        self.min_output_size = min_output_size
        self.min_output_comm_size = min_output_comm_size
        self.max_tree_size = max_tree_size
        self.min_duplcheck_size = min_duplcheck_size
        self.max_repetitions = max_repetitions
        self.extract_kwargs = {"deduplicate": True, **extract_kwargs}
        self._settings: Any = None

    def extract_text(self, html: str, stop_words: frozenset[str], language: str) -> list[str] | None:
        """Return the paragraphs of the main content."""
        trafilatura = require("trafilatura", "extract", "TrafilaturaExtractor")
        if self.extract_kwargs["deduplicate"]:
            # It remembers paragraphs across pages, so the result would depend on the pages before this one.
            require("trafilatura.deduplication", "extract", "TrafilaturaExtractor").LRU_TEST.clear()
        text = trafilatura.extract(_for_lxml(html), config=self._config(), **self.extract_kwargs)
        if text is None:
            return None
        return _dense(text.split("\n"), stop_words, language, self.required_stopword_density) or None

    def _config(self) -> Any:  # noqa: ANN401 - a ConfigParser of trafilatura's
        if self._settings is None:
            settings = require("trafilatura.settings", "extract", "TrafilaturaExtractor").use_config()
            for name in (
                "min_extracted_size", "min_extracted_comm_size", "min_output_size", "min_output_comm_size",
                "max_tree_size", "min_duplcheck_size", "max_repetitions",
            ):  # fmt: skip
                if getattr(self, name) is not None:
                    settings["DEFAULT"][name.upper()] = str(getattr(self, name))
            self._settings = settings
        return self._settings


ALGORITHMS: dict[str, type[HTMLExtractorAlgorithm]] = {
    "justext": JusTextExtractor,
    "resiliparse": ResiliparseExtractor,
    "trafilatura": TrafilaturaExtractor,
}


def algorithm_named(
    algorithm: HTMLExtractorAlgorithm | str | None, settings: dict[str, Any] | None = None
) -> HTMLExtractorAlgorithm:
    """Return an algorithm by name, with its settings; an algorithm object is returned as it is. The default is jusText.

    >>> algorithm_named("resiliparse", {"main_content": False}).main_content
    False
    """
    if isinstance(algorithm, HTMLExtractorAlgorithm):
        if settings:
            raise ValueError(
                f"html_extraction is a {type(algorithm).__name__} already; "
                f"give {', '.join(settings)} to it instead of html_extraction_kwargs."
            )
        return algorithm
    name = "justext" if algorithm is None else algorithm
    if name not in ALGORITHMS:
        raise ValueError(
            f"html_extraction={name!r}; it is one of {', '.join(ALGORITHMS)}, or an HTMLExtractorAlgorithm of your own."
            f"{suggestion(str(name), ALGORITHMS)}"
        )
    return ALGORITHMS[name](**(settings or {}))


def _dense(paragraphs: Iterable[str], stop_words: frozenset[str], language: str, density: float) -> list[str]:
    """Return the paragraphs in which at least ``density`` of the words are stop words."""
    kept = []
    for paragraph in paragraphs:
        words = paragraph.split()
        if not words:
            continue
        if language in UNSPACED or sum(word in stop_words for word in words) >= density * len(words):
            kept.append(paragraph)
    return kept


def _for_lxml(html: str) -> str:
    """Return the page without what lxml refuses in text: NUL characters and an encoding declaration."""
    html = html.replace("\x00", "")
    if html.lstrip()[:5] == "<?xml":
        return html.partition("?>")[2]
    return html
