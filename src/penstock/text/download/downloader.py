"""URLs to files on this machine, each downloaded once."""

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
    """Downloads into ``download_dir``; a file that lies there already is taken as it is.

    As it stands it takes http, https and any URL fsspec knows, tries again with pauses, and goes on with what broke
    off. A subclass may name files otherwise (``_get_output_filename``), or get them otherwise (``_download_to_path``,
    which returns whether it worked, and if not, why).
    """

    def __init__(self, download_dir: str, verbose: bool = False, storage_options: dict[str, Any] | None = None) -> None:
        self._download_dir = str(download_dir)
        self._verbose = verbose
        self._storage_options = storage_options

    def _get_output_filename(self, url: str) -> str:
        """Return the name a URL gets in the folder; two URLs never have the same."""
        return file_name_of(url)

    def _download_to_path(self, url: str, path: str) -> tuple[bool, str | None]:
        """Get the file; True, or False and the reason."""
        fetch(url, path, storage_options=self._storage_options)
        return True, None

    def download(self, url: str) -> str:
        """Return the path of the file, after getting it if it is not there."""
        folder = Path(self._download_dir)
        target = folder / self._get_output_filename(url)
        if not target.resolve().is_relative_to(folder.resolve()) or target.resolve() == folder.resolve():
            raise InputError(f"{url}: its file name, {target}, is not inside the download folder {folder}.")
        if target.exists() and target.stat().st_size > 0:
            return str(target)
        target.parent.mkdir(parents=True, exist_ok=True)
        # Under another name until it is whole.
        temporary = target.with_name(target.name + ".tmp")
        worked, reason = self._download_to_path(url, str(temporary))
        if not worked:
            raise InputError(
                f"{url}: cannot be downloaded: {reason or 'no reason given'}. Without a network, put the file at "
                f"{target} yourself: what lies there is not downloaded."
            )
        temporary.replace(target)
        if self._verbose:
            print(printable(f"{url}: {target.stat().st_size:,} bytes in {target}"))
        return str(target)

    def num_workers_per_node(self) -> int | None:
        """Return how many may download at a time on one machine; None: as many as there are workers."""
        return None


class DocumentDownloadStage(ProcessingStage[FileGroupTask, FileGroupTask]):
    """Turns tasks of URLs into tasks of local files; a URL that cannot be had fails, as any task can."""

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
