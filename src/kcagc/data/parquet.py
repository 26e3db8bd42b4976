"""Parquet files: the file states its types, so nothing is guessed. The package pyarrow, an extra, reads them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from kcagc.data.files import InputFile, PathLike
from kcagc.data.problems import PROPOSE, Problems
from kcagc.data.table import Keys, Table, Texts, Wanted, blank_out, check_header, select_columns
from kcagc.errors import ParameterError
from kcagc.text import size

_LARGEST = np.iinfo(np.int64).max
_CELL = 8  # bytes of a number
_EXPANDED = 1 << 27  # bytes that the cells of every file may need


def pyarrow_for(path: PathLike) -> tuple[Any, Any]:
    """Return the modules `pyarrow` and `pyarrow.parquet`."""
    try:
        import pyarrow  # noqa: PLC0415 - an extra, and slow to import
        import pyarrow.parquet  # noqa: PLC0415
    except ImportError:
        raise ParameterError(f"{path}: Parquet needs the package pyarrow: pip install 'kcagc[parquet]'") from None
    return pyarrow, pyarrow.parquet


def read_parquet(file: InputFile, wanted: Wanted) -> Table:
    """Read columns of a Parquet file; errors count rows from 1."""
    arrow, parquet = pyarrow_for(file.path)
    origin = file.origin("row", 1)
    with file.opened() as stream:
        try:
            source = parquet.ParquetFile(stream)
            schema = source.schema_arrow
        except (arrow.ArrowException, OSError, RecursionError) as error:
            raise file.error(f"not a Parquet file, or a damaged one ({_first_line(error)})") from error
        check_header(schema.names, origin)
        columns = select_columns(schema.names, wanted, origin)
        n_columns = len(columns.keys) + len(columns.numbers) + len(columns.texts)
        if (cells := source.metadata.num_rows * n_columns) * _CELL > file.expansion_limit(_EXPANDED):
            raise file.error(
                f"announces {cells:,} cells, more than a file of {size(file.path.stat().st_size)} may; if you trust "
                "it, save it without compression and without dictionaries, or as CSV"
            )
        problems = Problems()
        for content, names in (("ids", columns.keys), ("values", columns.numbers), ("levels", columns.texts)):
            for name in names:
                _check_type(arrow, problems, name, schema.field(name).type, content)
        if problems:
            raise problems.error(origin.where, str, party=file.party, note=f"  {PROPOSE}")
        try:
            found = source.read(columns=[*columns.keys, *columns.numbers, *columns.texts])
        except (arrow.ArrowException, OSError) as error:
            raise file.error(f"a damaged Parquet file ({_first_line(error)})") from error
    decoded = {name: _decoded(arrow, found.column(name)) for name in found.column_names}
    numbers = np.empty((found.num_rows, len(columns.numbers)))
    for place, name in enumerate(columns.numbers):  # a null becomes NaN
        numbers[:, place] = decoded[name].cast(arrow.float64(), safe=False).to_numpy(zero_copy_only=False)
    texts: dict[str, Texts] = {}
    for name in columns.texts:  # an empty text is missing, as in a CSV file
        levels = decoded[name].cast(arrow.string()).to_pylist()
        blank = columns.type(name).blank_texts
        texts[name] = [
            None if not text or text.isspace() or (blank and text.strip() in blank) else text for text in levels
        ]
    blank_out(numbers, columns.numbers, columns.types)
    table = Table(origin, columns.numbers, numbers, texts)
    for name in columns.keys:
        table.keys[name] = _keys(arrow, table, name, decoded[name])
    return table


def _keys(arrow: Any, table: Table, column: str, values: Any) -> Keys:
    if values.null_count:
        raise table.error(values.is_null().to_pylist().index(True), column, "the id is missing")
    if arrow.types.is_integer(values.type):
        numbers = values.to_numpy()
        if numbers.dtype.kind == "u" and (numbers > _LARGEST).any():
            row = int(np.flatnonzero(numbers > _LARGEST)[0])
            raise table.error(row, column, f"the id {numbers[row]} is too large; write such ids as strings")
        return numbers.astype(np.int64)  # type: ignore[no-any-return]
    texts: list[str] = values.to_numpy(zero_copy_only=False).tolist()  # several times as fast as to_pylist
    if "" in texts:
        raise table.error(texts.index(""), column, "the id is empty")
    return texts


def is_text(arrow: Any, kind: Any) -> bool:
    """Return whether a type of pyarrow holds text."""
    types, value = arrow.types, kind.value_type if arrow.types.is_dictionary(kind) else kind
    return bool(types.is_string(value) or types.is_large_string(value) or types.is_string_view(value))


def _check_type(arrow: Any, problems: Problems, column: str, kind: Any, content: str) -> None:
    """Add a problem for a column whose type does not fit its content: "ids", "values" or "levels"."""
    types, value = arrow.types, kind.value_type if arrow.types.is_dictionary(kind) else kind
    holds_text = is_text(arrow, kind)
    allowed, tests = {
        "ids": ("whole numbers or strings", (types.is_integer,)),
        "values": ("numbers", (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal, types.is_null)),
        "levels": ("strings or whole numbers", (types.is_integer, types.is_boolean, types.is_null)),
    }[content]
    if (holds_text and content != "values") or any(test(value) for test in tests):
        return  # the error about a column of nulls names its first row later
    advice = 'set kind = "categorical" or "drop" for the column' if holds_text else ""
    if not holds_text and content == "values":
        advice = 'convert them, or set kind = "drop" for the column'
    first = f"{content} must be {allowed}, but their type is {kind}"
    problems.add("type", "columns of another type", column, "", first, advice=advice)


def _decoded(arrow: Any, column: Any) -> Any:
    """Undo the encoding that stores each distinct value once."""
    return column.cast(column.type.value_type) if arrow.types.is_dictionary(column.type) else column


def _first_line(error: BaseException) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def parquet_blocks(file: InputFile, rows: int) -> Iterator[dict[str, tuple[str, Any]]]:
    """Yield all columns of a Parquet file, some rows at a time, with how each is stored; see `profile_file`."""
    arrow, parquet = pyarrow_for(file.path)
    with file.opened() as stream:
        try:
            source = parquet.ParquetFile(stream)
            check_header(source.schema_arrow.names, file.origin("row", 1))
            if source.metadata.num_rows == 0:
                raise file.error("there are no rows")
            for batch in source.iter_batches(batch_size=rows):
                yield {name: _typed(arrow, batch.column(name)) for name in batch.schema.names}
        except (arrow.ArrowException, OSError, RecursionError) as error:
            raise file.error(f"not a Parquet file, or a damaged one ({_first_line(error)})") from error


def _typed(arrow: Any, column: Any) -> tuple[str, Any]:
    types, kind = arrow.types, column.type
    value = kind.value_type if types.is_dictionary(kind) else kind
    if is_text(arrow, kind):
        return "text", _decoded(arrow, column).cast(arrow.string()).to_pylist()
    numeric = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal, types.is_null)
    if any(test(value) for test in numeric):
        numbers = _decoded(arrow, column).cast(arrow.float64(), safe=False).to_numpy(zero_copy_only=False)
        return "numbers", numbers.astype(np.float64)
    return ("times" if types.is_temporal(value) else "other"), column.to_pylist()
