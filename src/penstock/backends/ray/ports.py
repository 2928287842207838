"""Ports: whether one is free, whether somebody answers at one."""

from __future__ import annotations

import socket
from collections.abc import Container

_TRIES = 200


def free_port(wanted: int, host: str = "", taken: Container[int] = ()) -> int:
    """Return a port nobody listens at: the wanted one, or the next free one after it."""
    for port in range(wanted, min(wanted + _TRIES, 65536)):
        if port not in taken and _can_bind(host, port):
            return port
    raise OSError(f"none of the ports {wanted} to {wanted + _TRIES - 1} is free")


def answers(address: str, timeout: float = 5.0) -> bool:
    """Tell whether somebody accepts connections at host:port."""
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
