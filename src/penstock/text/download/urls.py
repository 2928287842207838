"""List the URLs of a data set: the first step of a download."""

from __future__ import annotations

from penstock.core.files import FileGroupTask
from penstock.core.resources import Resources
from penstock.core.stage import ProcessingStage, Spec
from penstock.core.task import EmptyTask


class URLGenerator:
    """List the URLs of a data set; write a subclass with ``generate_urls``.

    >>> class Numbered(URLGenerator):
    ...     def generate_urls(self):
    ...         return [f"https://example.org/{number}.gz" for number in range(3)]
    >>> Numbered().generate_urls()[0]
    'https://example.org/0.gz'
    """

    def generate_urls(self) -> list[str]:
        """Return the URLs, in the order in which a limit counts them."""
        raise NotImplementedError(f"{type(self).__name__} defines no generate_urls(self).")


class URLGenerationStage(ProcessingStage[EmptyTask, FileGroupTask]):
    """Emit one task per URL; ``limit`` keeps only the first URLs.

    >>> from penstock import EmptyTask
    >>> class Numbered(URLGenerator):
    ...     def generate_urls(self):
    ...         return [f"https://example.org/{number}.gz" for number in range(3)]
    >>> [task.data for task in URLGenerationStage(Numbered(), limit=2).process(EmptyTask())]
    [['https://example.org/0.gz'], ['https://example.org/1.gz']]
    """

    resources = Resources(cpus=0.5)

    def __init__(self, url_generator: URLGenerator, limit: int | None = None) -> None:
        self.url_generator = url_generator
        self.limit = limit
        self.name = f"url_generation_{type(url_generator).__name__.lower()}"

    def process(self, task: EmptyTask) -> list[FileGroupTask]:
        """Return one task per URL, so that files are downloaded and read in parallel."""
        urls = self.url_generator.generate_urls()[: self.limit]
        return [FileGroupTask(task.dataset_name, [url], _metadata={"source_url": url}) for url in urls]

    def outputs(self) -> Spec:
        """Declare that tasks hold file names and no columns."""
        return ["data"], []

    def num_workers(self) -> int:
        """Return 1: a data set is listed once."""
        return 1
