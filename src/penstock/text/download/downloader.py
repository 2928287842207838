"""Download each URL once into a local folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from penstock.core.files import FileGroupTask
from penstock.core.printable import printable
from penstock.core.resources import Resources
from penstock.core.stage import ProcessingStage, Spec
from penstock.errors import InputError
from penstock.text.download.fetch import fetch
from penstock.text.download.file_names import file_name_of


class DocumentDownloader:
    """Download files into ``download_dir``; a file that is there already is not downloaded again.

    URLs may be http, https or anything fsspec reaches. A failed download is retried after a pause, and an interrupted
    one is resumed. A subclass can change the file names (``_get_output_filename``) or the download itself
    (``_download_to_path``, which returns ``(True, None)``, or ``(False, reason)``).

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     source = pathlib.Path(folder, "source.txt")
    ...     _ = source.write_text("text")
    ...     path = DocumentDownloader(f"{folder}/downloads").download(source.as_uri())
    ...     content = pathlib.Path(path).read_text()
    >>> content
    'text'
    """

    def __init__(self, download_dir: str, verbose: bool = False, storage_options: dict[str, Any] | None = None) -> None:
        self._download_dir = str(download_dir)
        self._verbose = verbose
        self._storage_options = storage_options

    def _get_output_filename(self, url: str) -> str:
        """Return the file name for a URL; no two URLs have the same name."""
        return file_name_of(url)

    def _download_to_path(self, url: str, path: str) -> tuple[bool, str | None]:
        """Download the file; return ``(True, None)``, or ``(False, reason)``."""
        fetch(url, path, storage_options=self._storage_options)
        return True, None

    def download(self, url: str) -> str:
        """Return the path of the local file; download it first if it is missing."""
        folder = Path(self._download_dir)
        target = folder / self._get_output_filename(url)
        if not target.resolve().is_relative_to(folder.resolve()) or target.resolve() == folder.resolve():
            raise InputError(f"{url}: its file name, {target}, is not inside the download folder {folder}.")
        if target.exists() and target.stat().st_size > 0:
            return str(target)
        target.parent.mkdir(parents=True, exist_ok=True)
        # Under another name until the download is complete.
        temporary = target.with_name(target.name + ".tmp")
        worked, reason = self._download_to_path(url, str(temporary))
        if not worked:
            raise InputError(
                f"{url}: cannot be downloaded: {reason or 'no reason given'}. Without a network, put the file at "
                f"{target} yourself: a file that is there is not downloaded again."
            )
        temporary.replace(target)
        if self._verbose:
            print(printable(f"{url}: {target.stat().st_size:,} bytes in {target}"))
        return str(target)

    def num_workers_per_node(self) -> int | None:
        """Return the number of concurrent downloads per machine; None for no limit."""
        return None


class DocumentDownloadStage(ProcessingStage[FileGroupTask, FileGroupTask]):
    """Turn tasks of URLs into tasks of local files. A URL that cannot be downloaded fails its task.

    >>> import pathlib, tempfile
    >>> from penstock.core.files import FileGroupTask
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     source = pathlib.Path(folder, "source.txt")
    ...     _ = source.write_text("text")
    ...     stage = DocumentDownloadStage(DocumentDownloader(f"{folder}/downloads"))
    ...     local = stage.process(FileGroupTask("demo", [source.as_uri()]))
    >>> [path.startswith(f"{folder}/downloads/") for path in local.data]
    [True]
    """

    resources = Resources(cpus=0.5)

    def __init__(self, downloader: DocumentDownloader) -> None:
        self.downloader = downloader
        self.name = f"download_{type(downloader).__name__.lower()}"

    def process(self, task: FileGroupTask) -> FileGroupTask:
        """Download the files of one task."""
        files = [self.downloader.download(url) for url in task.data]
        names = [path.rpartition("/")[2] for path in files]
        return FileGroupTask(task.dataset_name, files, _metadata={"source_files": files, "source_names": names})

    def inputs(self) -> Spec:
        """Return that tasks name files."""
        return ["data"], []

    def outputs(self) -> Spec:
        """Return that tasks name files."""
        return ["data"], []

    def num_workers_per_node(self) -> float | None:
        """Return what the downloader allows."""
        return self.downloader.num_workers_per_node()
