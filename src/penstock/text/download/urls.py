"""Where a download begins: which URLs there are."""

from __future__ import annotations

from penstock.core.files import FileGroupTask
from penstock.core.resources import Resources
from penstock.core.stage import ProcessingStage, Spec
from penstock.core.task import EmptyTask


class URLGenerator:
    """Knows the URLs of a data set.

    >>> class Numbered(URLGenerator):
    ...     def generate_urls(self):
    ...         return [f"https://example.org/{number}.gz" for number in range(3)]
    """

    def generate_urls(self) -> list[str]:
        """Return the URLs, in the order in which a limit counts them."""
        raise NotImplementedError(f"{type(self).__name__} defines no generate_urls(self).")


class URLGenerationStage(ProcessingStage[EmptyTask, FileGroupTask]):
    """Gives a task for each URL, of which ``limit`` keeps the first."""

    resources = Resources(cpus=0.5)

    def __init__(self, url_generator: URLGenerator, limit: int | None = None) -> None:
        self.url_generator = url_generator
        self.limit = limit
        self.name = f"url_generation_{type(url_generator).__name__.lower()}"

    def process(self, task: EmptyTask) -> list[FileGroupTask]:
        """Return one task per URL, so that they are downloaded and read side by side."""
        urls = self.url_generator.generate_urls()[: self.limit]
        return [FileGroupTask(task.dataset_name, [url], _metadata={"source_url": url}) for url in urls]

    def outputs(self) -> Spec:
        """Return that tasks name files."""
        return ["data"], []

    def num_workers(self) -> int:
        """One listing is enough."""
        return 1
