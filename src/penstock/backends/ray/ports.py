"""Find a free port, and test whether a server answers at a port."""

from __future__ import annotations

import socket
from collections.abc import Container
from itertools import islice

_MAX_TRIES = 200
# Ray assigns these to its workers, and refuses to start if one of them is set for another use.
_WORKER_PORTS = range(10002, 20000)


def free_port(wanted: int, host: str = "", taken: Container[int] = ()) -> int:
    """Return a free port: the wanted one, or the next one that is not reserved for Ray's workers.

    >>> free_port(10002, taken=range(20000, 20010)) >= 20010
    True
    """
    candidates = (port for port in range(wanted, 65536) if port not in _WORKER_PORTS)
    for port in islice(candidates, _MAX_TRIES):
        if port not in taken and _can_bind(host, port):
            return port
    raise OSError(f"none of the {_MAX_TRIES} ports from {wanted} that are not reserved for Ray's workers is free")


def answers(address: str, timeout: float = 5.0) -> bool:
    """Tell whether a server accepts connections at host:port."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout).close()
    except (OSError, ValueError):
        return False
    return True


def _can_bind(host: str, port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
        return True
