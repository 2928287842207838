"""Preload what readers and writers of JSON Lines need: the kernels that parse JSON, ready to run."""

from __future__ import annotations

from penstock.preload import preloading

with preloading():
    import numpy as np
    import pyarrow as pa

    from penstock.kernels import json_strings
    from penstock.kernels.native import is_compiled, prepare_to_load
    from penstock.text.io.json_blocks import decode_block
    from penstock.text.io.json_fields import Lines
    from penstock.text.io.jsonl import JsonlReaderStage  # noqa: F401 - for the workers

    prepare_to_load()
    if is_compiled(json_strings.find_fields) and is_compiled(json_strings.copy_texts):
        _LINE = b'{"text": "a few words"}\n'
        decode_block(Lines(pa.py_buffer(_LINE), np.array([0]), np.array([len(_LINE) - 1])), ["text"])
