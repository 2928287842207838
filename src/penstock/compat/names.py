"""Table that maps names of ``nemo_curator`` to names of Penstock.

To support another name, add it here; the import hook and its messages use this table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

ROOT = "nemo_curator"


def _all_in(home: str, *names: str) -> dict[str, str]:
    return {name: f"{home}:{name}" for name in names}


_PIPELINE = _all_in("penstock.core.pipeline", "Pipeline")
_STAGE = {
    **_all_in("penstock.core.stage", "ProcessingStage"),
    **_all_in("penstock.core.composite", "CompositeStage"),
}
_FUNCTION_STAGE = _all_in("penstock.core.function_stage", "processing_stage")

_TASK = _all_in("penstock.core.task", "Task")
_EMPTY_TASK = _all_in("penstock.core.task", "EmptyTask")
_DOCUMENTS = _all_in("penstock.core.documents", "DocumentBatch")
_FILES = _all_in("penstock.core.files", "FileGroupTask")

_JSONL_READER = _all_in("penstock.text", "JsonlReader")
_PARQUET_READER = _all_in("penstock.text", "ParquetReader")
_JSONL_WRITER = _all_in("penstock.text", "JsonlWriter")
_PARQUET_WRITER = _all_in("penstock.text", "ParquetWriter")

_DOCUMENT_FILTER = _all_in("penstock.text", "DocumentFilter")
_SCORE_FILTER = _all_in("penstock.text", "Filter", "Score", "ScoreFilter")
_STRING_FILTERS = _all_in(
    "penstock.text",
    "BoilerPlateStringFilter",
    "BulletsFilter",
    "CommonEnglishWordsFilter",
    "EllipsisFilter",
    "LongWordFilter",
    "MeanWordLengthFilter",
    "NonAlphaNumericFilter",
    "NumbersFilter",
    "ParenthesesFilter",
    "PornographicUrlsFilter",
    "PunctuationFilter",
    "SubstringFilter",
    "SymbolsToWordsFilter",
    "UrlsFilter",
    "WhiteSpaceFilter",
    "WordCountFilter",
    "WordsWithoutAlphabetsFilter",
)
_REPETITION_FILTERS = _all_in(
    "penstock.text",
    "RepeatedLinesByCharFilter",
    "RepeatedLinesFilter",
    "RepeatedParagraphsByCharFilter",
    "RepeatedParagraphsFilter",
    "RepeatingDuplicateNGramsFilter",
    "RepeatingTopNGramsFilter",
)
_CODE_FILTERS = _all_in(
    "penstock.text",
    "AlphaFilter",
    "GeneralCommentToCodeFilter",
    "HTMLBoilerplateFilter",
    "NumberOfLinesOfCodeFilter",
    "PerExtensionFilter",
    "PythonCommentToCodeFilter",
    "TokenizerFertilityFilter",
    "XMLHeaderFilter",
)
_HEURISTIC_FILTERS = {**_STRING_FILTERS, **_REPETITION_FILTERS, **_CODE_FILTERS}
_HISTOGRAM_FILTER = _all_in("penstock.text", "HistogramFilter")

_DOWNLOADER = _all_in("penstock.text", "DocumentDownloader")
_DOWNLOAD_STAGE = _all_in("penstock.text", "DocumentDownloadStage")
_RECORD_EXTRACTOR = _all_in("penstock.text", "DocumentExtractor")
_RECORD_ITERATOR = _all_in("penstock.text", "DocumentIterator")
_ITERATE_STAGE = _all_in("penstock.text", "DocumentIterateExtractStage")
_DOWNLOAD_EXTRACT = _all_in("penstock.text", "DocumentDownloadExtractStage")
_URL_GENERATOR = _all_in("penstock.text", "URLGenerator")
_URL_STAGE = _all_in("penstock.text", "URLGenerationStage")
_SOURCES = {**_DOWNLOADER, **_RECORD_EXTRACTOR, **_RECORD_ITERATOR, **_DOWNLOAD_EXTRACT, **_URL_GENERATOR}
_COMMON_CRAWL = _all_in("penstock.text", "CommonCrawlDownloadExtractStage")
_WIKIPEDIA = _all_in("penstock.text", "WikipediaDownloadExtractStage")
_ARXIV = _all_in("penstock.text", "ArxivDownloadExtractStage")
_HTML_ALGORITHM = _all_in("penstock.text", "HTMLExtractorAlgorithm")
_JUSTEXT = _all_in("penstock.text", "JusTextExtractor")
_RESILIPARSE = _all_in("penstock.text", "ResiliparseExtractor")
_TRAFILATURA = _all_in("penstock.text", "TrafilaturaExtractor")
_TOKEN_FILTER = _all_in("penstock.text", "TokenCountFilter")
_FASTTEXT_FILTERS = _all_in("penstock.text", "FastTextLangId", "FastTextQualityFilter")

_DOCUMENT_MODIFIER = _all_in("penstock.text", "DocumentModifier")
_MODIFY = _all_in("penstock.text", "Modify")
_STRING_MODIFIERS = {
    "c4": _all_in("penstock.text", "BoilerPlateStringModifier"),
    "line_remover": _all_in("penstock.text", "LineRemover"),
    "markdown_remover": _all_in("penstock.text", "MarkdownRemover"),
    "newline_normalizer": _all_in("penstock.text", "NewlineNormalizer"),
    "quotation_remover": _all_in("penstock.text", "QuotationRemover"),
    "slicer": _all_in("penstock.text", "Slicer"),
    "url_remover": _all_in("penstock.text", "UrlRemover"),
}
_ALL_STRING_MODIFIERS = {name: ours for names in _STRING_MODIFIERS.values() for name, ours in names.items()}
_UNICODE_MODIFIER = _all_in("penstock.text", "UnicodeReformatter")
_LABEL_MODIFIER = _all_in("penstock.text", "FastTextLabelModifier")

_ADD_ID = _all_in("penstock.text", "AddId")
_JOINER = _all_in("penstock.text", "DocumentJoiner")
_SPLITTER = _all_in("penstock.text", "DocumentSplitter")

_EXACT = _all_in("penstock.dedup", "ExactDeduplicationWorkflow")
_FUZZY = _all_in("penstock.dedup", "FuzzyDeduplicationWorkflow")
_DUPLICATES_REMOVAL = _all_in("penstock.dedup", "TextDuplicatesRemovalWorkflow")

_TEXT = f"{ROOT}.stages.text"
_DOWNLOAD = f"{_TEXT}.download"
_XENNA = _all_in("penstock.compat.executors", "XennaExecutor")
_RAY_DATA = _all_in("penstock.compat.executors", "RayDataExecutor")
_RAY_ACTOR_POOL = _all_in("penstock.compat.executors", "RayActorPoolExecutor")
_RAY_CLIENT = {
    **_all_in("penstock.backends.ray.client", "RayClient"),
    **_all_in("penstock.backends.ray.slurm", "SlurmRayClient"),
}

# Module -> public name -> "module:name" in Penstock. Parent packages need no entry.
NAMES: Mapping[str, Mapping[str, str]] = {
    ROOT: _all_in("penstock.compat.legacy", "Sequential", "ToBackend"),
    f"{ROOT}.pipeline": _PIPELINE,
    f"{ROOT}.pipeline.pipeline": _PIPELINE,
    f"{ROOT}.pipeline.workflow": _all_in("penstock.core.workflow", "WorkflowBase", "WorkflowRunResult"),
    f"{ROOT}.backends.xenna": _XENNA,
    f"{ROOT}.backends.xenna.executor": _XENNA,
    f"{ROOT}.backends.ray_data": _RAY_DATA,
    f"{ROOT}.backends.ray_data.executor": _RAY_DATA,
    f"{ROOT}.backends.ray_actor_pool": _RAY_ACTOR_POOL,
    f"{ROOT}.backends.ray_actor_pool.executor": _RAY_ACTOR_POOL,
    f"{ROOT}.core.client": _RAY_CLIENT,
    f"{ROOT}.utils.distributed_utils": _all_in("penstock.compat.legacy", "get_client"),
    f"{ROOT}.backends.base": _all_in("penstock.core.worker_info", "NodeInfo", "WorkerMetadata"),
    f"{ROOT}.utils.performance_utils": _all_in("penstock.core.perf", "StagePerfStats"),
    f"{ROOT}.tasks": {**_TASK, **_EMPTY_TASK, **_DOCUMENTS, **_FILES},
    f"{ROOT}.tasks.tasks": _TASK,
    f"{ROOT}.tasks.document": _DOCUMENTS,
    f"{ROOT}.tasks.file_group": _FILES,
    f"{ROOT}.tasks.sentinels": _EMPTY_TASK,
    f"{ROOT}.stages.base": _STAGE,
    f"{ROOT}.stages.core": _STAGE,
    f"{ROOT}.stages.function_decorators": _FUNCTION_STAGE,
    f"{ROOT}.stages.function_definitions": _FUNCTION_STAGE,
    f"{ROOT}.stages.resources": _all_in("penstock.core.resources", "Resources"),
    f"{ROOT}.stages.deduplication.exact.workflow": _EXACT,
    f"{ROOT}.stages.deduplication.fuzzy": _FUZZY,
    f"{ROOT}.stages.deduplication.fuzzy.workflow": _FUZZY,
    f"{_TEXT}.deduplication": _DUPLICATES_REMOVAL,
    f"{_TEXT}.deduplication.removal_workflow": _DUPLICATES_REMOVAL,
    f"{ROOT}.stages.file_partitioning": _all_in("penstock.text", "FilePartitioningStage"),
    f"{_TEXT}.io": {**_JSONL_READER, **_PARQUET_READER, **_JSONL_WRITER, **_PARQUET_WRITER},
    f"{_TEXT}.io.reader": {**_JSONL_READER, **_PARQUET_READER},
    f"{_TEXT}.io.reader.jsonl": {**_JSONL_READER, **_all_in("penstock.text", "JsonlReaderStage")},
    f"{_TEXT}.io.reader.parquet": {**_PARQUET_READER, **_all_in("penstock.text", "ParquetReaderStage")},
    f"{_TEXT}.io.writer": {**_JSONL_WRITER, **_PARQUET_WRITER},
    f"{_TEXT}.io.writer.jsonl": _JSONL_WRITER,
    f"{_TEXT}.io.writer.parquet": _PARQUET_WRITER,
    # Early releases had the heuristics in text.filters and ScoreFilter in text.modules; old scripts import them there.
    f"{_TEXT}.filters": {**_DOCUMENT_FILTER, **_SCORE_FILTER, **_HEURISTIC_FILTERS, **_HISTOGRAM_FILTER},
    f"{_TEXT}.modules": {**_SCORE_FILTER, **_MODIFY, **_ADD_ID, **_JOINER, **_SPLITTER},
    f"{_TEXT}.modules.add_id": _ADD_ID,
    f"{_TEXT}.modules.joiner": _JOINER,
    f"{_TEXT}.modules.splitter": _SPLITTER,
    f"{_TEXT}.filters.doc_filter": _DOCUMENT_FILTER,
    f"{_TEXT}.filters.score_filter": _SCORE_FILTER,
    f"{_TEXT}.filters.heuristic": _STRING_FILTERS,
    f"{_TEXT}.filters.heuristic.string": _STRING_FILTERS,
    f"{_TEXT}.filters.heuristic.repetition": _REPETITION_FILTERS,
    f"{_TEXT}.filters.heuristic.repetition.repetition": _REPETITION_FILTERS,
    f"{_TEXT}.filters.heuristic.code": _CODE_FILTERS,
    f"{_TEXT}.filters.heuristic.code.code": _CODE_FILTERS,
    f"{_TEXT}.filters.histogram": _HISTOGRAM_FILTER,
    f"{_TEXT}.filters.histogram.histogram": _HISTOGRAM_FILTER,
    f"{_DOWNLOAD}": {**_SOURCES, **_COMMON_CRAWL, **_WIKIPEDIA, **_ARXIV},
    f"{_DOWNLOAD}.base": _SOURCES,
    f"{_DOWNLOAD}.base.download": {**_DOWNLOADER, **_DOWNLOAD_STAGE},
    f"{_DOWNLOAD}.base.extract": _RECORD_EXTRACTOR,
    f"{_DOWNLOAD}.base.iterator": {**_RECORD_ITERATOR, **_ITERATE_STAGE},
    f"{_DOWNLOAD}.base.stage": _DOWNLOAD_EXTRACT,
    f"{_DOWNLOAD}.base.url_generation": {**_URL_GENERATOR, **_URL_STAGE},
    f"{_DOWNLOAD}.common_crawl": _COMMON_CRAWL,
    f"{_DOWNLOAD}.common_crawl.stage": _COMMON_CRAWL,
    f"{_DOWNLOAD}.common_crawl.download": _all_in(
        "penstock.text", "CommonCrawlWARCDownloader", "CommonCrawlWARCReader"
    ),
    f"{_DOWNLOAD}.common_crawl.extract": _all_in("penstock.text", "CommonCrawlHTMLExtractor"),
    f"{_DOWNLOAD}.common_crawl.url_generation": _all_in(
        "penstock.text", "MainCommonCrawlUrlGenerator", "NewsCommonCrawlUrlGenerator"
    ),
    f"{_DOWNLOAD}.common_crawl.warc_iterator": _all_in("penstock.text", "CommonCrawlWarcIterator"),
    f"{_DOWNLOAD}.html_extractors": {**_HTML_ALGORITHM, **_JUSTEXT, **_RESILIPARSE, **_TRAFILATURA},
    f"{_DOWNLOAD}.html_extractors.base": _HTML_ALGORITHM,
    f"{_DOWNLOAD}.html_extractors.justext": _JUSTEXT,
    f"{_DOWNLOAD}.html_extractors.resiliparse": _RESILIPARSE,
    f"{_DOWNLOAD}.html_extractors.trafilatura": _TRAFILATURA,
    f"{_DOWNLOAD}.html_extractors.utils": _all_in("penstock.text", "get_stop_list_dict"),
    f"{_DOWNLOAD}.wikipedia": _WIKIPEDIA,
    f"{_DOWNLOAD}.wikipedia.stage": _WIKIPEDIA,
    f"{_DOWNLOAD}.wikipedia.download": _all_in("penstock.text", "WikipediaDownloader"),
    f"{_DOWNLOAD}.wikipedia.extract": _all_in("penstock.text", "WikipediaExtractor"),
    f"{_DOWNLOAD}.wikipedia.iterator": _all_in("penstock.text", "WikipediaIterator"),
    f"{_DOWNLOAD}.wikipedia.url_generation": _all_in("penstock.text", "WikipediaUrlGenerator"),
    f"{_DOWNLOAD}.arxiv": _ARXIV,
    f"{_DOWNLOAD}.arxiv.stage": _ARXIV,
    f"{_DOWNLOAD}.arxiv.download": _all_in("penstock.text", "ArxivDownloader"),
    f"{_DOWNLOAD}.arxiv.extract": _all_in("penstock.text", "ArxivExtractor"),
    f"{_DOWNLOAD}.arxiv.iterator": _all_in("penstock.text", "ArxivIterator"),
    f"{_DOWNLOAD}.arxiv.url_generation": _all_in("penstock.text", "ArxivUrlGenerator"),
    f"{_TEXT}.filters.token": _TOKEN_FILTER,
    f"{_TEXT}.filters.token.token_count": _TOKEN_FILTER,
    f"{_TEXT}.filters.fasttext": _FASTTEXT_FILTERS,
    f"{_TEXT}.filters.fasttext.fasttext_filters": _FASTTEXT_FILTERS,
    f"{_TEXT}.io.writer.megatron_tokenizer": _all_in("penstock.text", "MegatronTokenizerWriter"),
    f"{_TEXT}.modifiers": {**_DOCUMENT_MODIFIER, **_MODIFY, **_ALL_STRING_MODIFIERS},
    f"{_TEXT}.modifiers.doc_modifier": _DOCUMENT_MODIFIER,
    f"{_TEXT}.modifiers.modifier": _MODIFY,
    f"{_TEXT}.modifiers.string": _ALL_STRING_MODIFIERS,
    **{f"{_TEXT}.modifiers.string.{module}": names for module, names in _STRING_MODIFIERS.items()},
    f"{_TEXT}.modifiers.unicode": _UNICODE_MODIFIER,
    f"{_TEXT}.modifiers.unicode.unicode_reformatter": _UNICODE_MODIFIER,
    f"{_TEXT}.modifiers.fasttext": _LABEL_MODIFIER,
    f"{_TEXT}.modifiers.fasttext.fasttext_label": _LABEL_MODIFIER,
}

_OWN_FILTER = "ScoreFilter with a DocumentFilter of your own (penstock.text)"

_QUALITY = {"QualityClassifier": _OWN_FILTER}

# Module -> name that Penstock does not have, but users often import -> what to use instead.
# These modules can be imported, so that the message can name the class that the script imports.
WANTED: Mapping[str, Mapping[str, str]] = {
    f"{_TEXT}.classifiers": _QUALITY,
    f"{_TEXT}.classifiers.quality": _QUALITY,
}


def _with_parents(paths: Iterable[str]) -> frozenset[str]:
    parts = [path.split(".") for path in paths]
    return frozenset(".".join(part[:length]) for part in parts for length in range(1, len(part) + 1))


# Every module that can be imported, parent packages included.
MODULES = _with_parents([*NAMES, *WANTED])
_WITH_NAMES = _with_parents(NAMES)


def modules_below(module: str) -> list[str]:
    """Return the modules directly below one, without those in which there is nothing we have.

    >>> modules_below("nemo_curator.stages.text.io")
    ['reader', 'writer']
    """
    return sorted(known.rpartition(".")[2] for known in _WITH_NAMES if known.rpartition(".")[0] == module)
