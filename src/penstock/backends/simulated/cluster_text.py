"""Parse and write the text form of a cluster: ``4x(8xH100-80,128cpu,1TB)``."""

from __future__ import annotations

import re

from penstock.core.cluster import Cluster, Gpu, Node
from penstock.core.sizes import parse_bytes

_EXAMPLE = "4x(8xH100-80,128cpu,1TB)"
_KIND = re.compile(r"\s*(?:(\d+)\s*x\s*)?\(([^()]*)\)\s*")
_GPUS = re.compile(r"(?:(\d+)\s*x\s*)?([A-Za-z][\w.]*)-(\d+(?:\.\d+)?)(?:\s*GB)?", re.IGNORECASE)
_CPUS = re.compile(r"(\d+(?:\.\d+)?)\s*cpus?", re.IGNORECASE)
_MEMORY = re.compile(r"\d+(?:\.\d+)?\s*[kMGT]i?B", re.IGNORECASE)
_GB = 10**9


def parse_cluster(text: str) -> Cluster:
    """Parse a cluster: kinds of nodes, each with its GPUs, CPUs and memory.

    >>> print(parse_cluster("4x(8xH100-80,128cpu,1TB), (64cpu,256GB)"))
    5 nodes, 576 CPUs, 4256.0 GB memory, 32 GPUs
    """
    nodes: list[Node] = []
    position = 0
    while position < len(text):
        match = _KIND.match(text, position)
        if match is None:
            raise ValueError(
                f"cluster {text!r}: expected a kind of node at {text[position:]!r} (character {position + 1}), "
                f"a count and its resources in parentheses, as in {_EXAMPLE}."
            )
        count = int(match[1] or 1)
        if count == 0:
            raise ValueError(f"cluster {text!r}: 0 nodes of {match[2]!r}; the count must be at least 1.")
        kind = _node(match[2], text)
        nodes += [Node(f"node{len(nodes) + i + 1}", kind.cpus, kind.memory_gb, kind.gpus) for i in range(count)]
        position = match.end()
        if position < len(text):
            if text[position] != ",":
                raise ValueError(f"cluster {text!r}: expected ',' or the end at {text[position:]!r}.")
            position += 1
    if not nodes:
        raise ValueError(f"cluster {text!r}: it has no nodes. Write it as {_EXAMPLE}.")
    return Cluster(tuple(nodes))


def write_kind(node: Node) -> str:
    """Return the text form of one node.

    >>> write_kind(Node("a", 128, 1000, (Gpu(80, "H100"),) * 8))
    '8xH100-80,128cpu,1TB'
    """
    kinds = dict.fromkeys(node.gpus)
    gpus = [f"{node.gpus.count(gpu)}x{gpu.name.replace(' ', '_')}-{gpu.memory_gb:g}" for gpu in kinds]
    memory = f"{node.memory_gb / 1000:g}TB" if node.memory_gb >= 1000 else f"{node.memory_gb:g}GB"
    return ",".join([*gpus, f"{node.cpus:g}cpu", memory])


def _node(inside: str, text: str) -> Node:
    gpus: tuple[Gpu, ...] = ()
    cpus = memory = None
    for part in (part.strip() for part in inside.split(",")):
        if match := _GPUS.fullmatch(part):
            gpus += (Gpu(float(match[3]), match[2]),) * int(match[1] or 1)
        elif (match := _CPUS.fullmatch(part)) and cpus is None:
            cpus = float(match[1])
        elif _MEMORY.fullmatch(part) and memory is None:
            memory = parse_bytes(part) / _GB
        else:
            raise ValueError(
                f"cluster {text!r}: {part!r} in '({inside})' is not understood; expected GPUs with the memory of each "
                "(8xH100-80), CPUs (128cpu) or memory (1TB), each once."
            )
    if not cpus or not memory:
        missing = "CPUs, as in 128cpu" if not cpus else "memory, as in 1TB"
        raise ValueError(f"cluster {text!r}: '({inside})' does not state {missing}.")
    return Node("", cpus, memory, gpus)
