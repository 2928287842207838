"""Arrow types of input files: which schemas can be combined, and which types are replaced by simpler ones."""

from __future__ import annotations

import pyarrow as pa

from penstock.core.json_column import is_json


def unified(one: pa.Schema | None, other: pa.Schema) -> pa.Schema | None:
    """Return the combined schema of two tables; None if a column would have to change its type.

    >>> numbers, texts = pa.schema([("a", pa.int64())]), pa.schema([("a", pa.string())])
    >>> unified(numbers, texts) is None, unified(numbers, pa.schema([("b", pa.int64())])).names
    (True, ['a', 'b'])
    """
    if one is None:
        return None
    # A column that is JSON in one schema becomes JSON in the other as well.
    of_json = {field.name: field for schema in (one, other) for field in schema if is_json(field)}
    agreed = [pa.schema([of_json.get(field.name, field) for field in schema]) for schema in (one, other)]
    try:
        return pa.unify_schemas(agreed, promote_options="default")
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return None


def without_views(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch without string views, from which Arrow cannot select rows.

    >>> without_views(pa.record_batch({"text": pa.array(["a"], pa.string_view())})).schema.types
    [DataType(large_string)]
    """
    plain = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}
    if not any(field.type in plain for field in batch.schema):
        return batch
    fields = [field.with_type(plain.get(field.type, field.type)) for field in batch.schema]
    return batch.cast(pa.schema(fields, batch.schema.metadata))
