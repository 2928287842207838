"""Add the metrics of a Ray cluster to the configuration of Prometheus while the cluster runs."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

_JOB = "ray"
_RELOAD_TIMEOUT_S = 2.0


def announce(folder: Path, ray_temp_dir: str) -> None:
    """Add Ray's file of metrics ports to ``prometheus.yml`` in a folder, if that exists."""
    _change(folder, ray_temp_dir, listed=True)


def withdraw(folder: Path, ray_temp_dir: str) -> None:
    """Remove Ray's file of metrics ports from ``prometheus.yml``."""
    _change(folder, ray_temp_dir, listed=False)


def _change(folder: Path, ray_temp_dir: str, *, listed: bool) -> None:
    import yaml

    configuration = folder / "prometheus.yml"
    if not configuration.exists():
        return
    data = yaml.safe_load(configuration.read_text(encoding="utf-8")) or {}
    files = _listed(data)
    ports = str(Path(ray_temp_dir) / "prom_metrics_service_discovery.json")
    if (ports in files) == listed:
        return
    if listed:
        files.append(ports)
    else:
        files.remove(ports)
    configuration.write_text(yaml.safe_dump(data, sort_keys=False), encoding="utf-8")
    _have_it_read(folder)


def _listed(data: dict[str, Any]) -> list[str]:
    """Return the list of port files for Ray in the configuration of Prometheus; create it if missing."""
    jobs = data.setdefault("scrape_configs", [])
    job = next((job for job in jobs if job.get("job_name") == _JOB), None)
    if job is None:
        jobs.append(job := {"job_name": _JOB})
    files: list[str] = job.setdefault("file_sd_configs", [{"files": []}])[0].setdefault("files", [])
    return files


def _have_it_read(folder: Path) -> None:
    """Ask a running Prometheus to reload its configuration; do nothing if none is running."""
    with suppress(OSError, ValueError, URLError):
        port = int((folder / "prometheus.port").read_text())
        urlopen(Request(f"http://127.0.0.1:{port}/-/reload", method="POST"), timeout=_RELOAD_TIMEOUT_S).close()
