"""Tells a Prometheus where a Ray's metrics are, for as long as that Ray is there."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

_JOB = "ray"
_PATIENCE_S = 2.0


def announce(folder: Path, ray_temp_dir: str) -> None:
    """Enter the list of ports that Ray keeps into ``prometheus.yml`` of a folder, if there is one."""
    _change(folder, ray_temp_dir, is_there=True)


def withdraw(folder: Path, ray_temp_dir: str) -> None:
    """Take it out again."""
    _change(folder, ray_temp_dir, is_there=False)


def _change(folder: Path, ray_temp_dir: str, *, is_there: bool) -> None:
    import yaml

    configuration = folder / "prometheus.yml"
    if not configuration.exists():
        return
    data = yaml.safe_load(configuration.read_text(encoding="utf-8")) or {}
    listed = _listed(data)
    ports = str(Path(ray_temp_dir) / "prom_metrics_service_discovery.json")
    if (ports in listed) == is_there:
        return
    if is_there:
        listed.append(ports)
    else:
        listed.remove(ports)
    configuration.write_text(yaml.safe_dump(data, sort_keys=False), encoding="utf-8")
    _have_it_read(folder)


def _listed(data: dict[str, Any]) -> list[str]:
    """Return the files with ports that Prometheus looks at for Ray, as they stand in its configuration."""
    jobs = data.setdefault("scrape_configs", [])
    job = next((job for job in jobs if job.get("job_name") == _JOB), None)
    if job is None:
        jobs.append(job := {"job_name": _JOB})
    files: list[str] = job.setdefault("file_sd_configs", [{"files": []}])[0].setdefault("files", [])
    return files


def _have_it_read(folder: Path) -> None:
    """Have a Prometheus that runs there read its configuration again; one that is not there will when it starts."""
    with suppress(OSError, ValueError, URLError):
        port = int((folder / "prometheus.port").read_text())
        urlopen(Request(f"http://127.0.0.1:{port}/-/reload", method="POST"), timeout=_PATIENCE_S).close()
