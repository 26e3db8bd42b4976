"""Parquet: types are in the file, so nothing is guessed; pyarrow, which reads it, is an extra."""

from __future__ import annotations

from typing import Any

import numpy as np

from kcagc._types import FloatArray
from kcagc.errors import ParameterError
from kcagc.files.opening import InputFile, PathLike
from kcagc.files.table import Names, Table, Texts, Wanted, checked, columns_of

_LARGEST = np.iinfo(np.int64).max


def pyarrow_for(path: PathLike) -> tuple[Any, Any]:
    """Give the modules `pyarrow` and `pyarrow.parquet`."""
    try:
        import pyarrow  # noqa: PLC0415 - an extra, and slow to import
        import pyarrow.parquet  # noqa: PLC0415
    except ImportError:
        raise ParameterError(f"{path}: Parquet needs the package pyarrow: pip install 'kcagc[parquet]'") from None
    return pyarrow, pyarrow.parquet


def read_parquet(file: InputFile, wanted: Wanted) -> Table:
    """Read the columns `wanted`; rows are counted from 1."""
    arrow, parquet = pyarrow_for(file.path)
    with file.opened() as stream:
        try:
            source = parquet.ParquetFile(stream)
            schema = source.schema_arrow
        except (arrow.ArrowException, OSError) as error:
            raise file.error(f"not a Parquet file, or a damaged one ({_first_line(error)})") from error
        columns = columns_of(file, schema.names, wanted)
        for column in columns.names:
            _check_id_type(arrow, file, column, schema.field(column).type)
        for column in columns.numbers:
            _check_number_type(arrow, file, column, schema.field(column).type)
        for column in columns.texts:
            _check_text_type(arrow, file, column, schema.field(column).type)
        try:
            content = source.read(columns=[*columns.names, *columns.numbers, *columns.texts])
        except (arrow.ArrowException, OSError) as error:
            raise file.error(f"a damaged Parquet file ({_first_line(error)})") from error
    # the ids last: their errors name rows by the table
    texts = {column: _texts(arrow, _plain(arrow, content.column(column))) for column in columns.texts}
    table = Table(file, {}, columns.numbers, _numbers(arrow, content, columns.numbers), 1, "row", texts)
    for column in columns.names:
        table.names[column] = _ids(arrow, table, column, _plain(arrow, content.column(column)))
    return checked(table, columns.gaps)


def _numbers(arrow: Any, content: Any, columns: list[str]) -> FloatArray:
    values = np.empty((content.num_rows, len(columns)))
    for place, column in enumerate(columns):  # a null becomes a NaN
        numbers = _plain(arrow, content.column(column)).cast(arrow.float64(), safe=False)
        values[:, place] = numbers.to_numpy(zero_copy_only=False)
    return values


def _texts(arrow: Any, values: Any) -> Texts:
    """Give levels as text; an empty one is as good as missing, as in a CSV file."""
    found: list[str | None] = values.cast(arrow.string()).to_pylist()
    return [None if text is None or not text or text.isspace() else text for text in found]


def _ids(arrow: Any, table: Table, column: str, values: Any) -> Names:
    if values.null_count:
        row = values.is_null().to_pylist().index(True)
        raise table.error(row, column, "the id is missing")
    if arrow.types.is_integer(values.type):
        numbers = values.to_numpy()
        if numbers.dtype.kind == "u" and (numbers > _LARGEST).any():
            row = int(np.flatnonzero(numbers > _LARGEST)[0])
            raise table.error(row, column, f"the id {numbers[row]} is too large; write such ids as strings")
        return numbers.astype(np.int64)  # type: ignore[no-any-return]
    texts: list[str] = values.to_numpy(zero_copy_only=False).tolist()  # to_pylist takes several times as long
    if "" in texts:
        raise table.error(texts.index(""), column, "the id is empty")
    return texts


def _check_id_type(arrow: Any, file: InputFile, column: str, kind: Any) -> None:
    meant = _meant(arrow, kind)
    if not (arrow.types.is_integer(meant) or _is_text(arrow, meant)):
        raise file.error(f"column {column!r}: ids must be whole numbers or strings, but their type is {kind}")


def _check_number_type(arrow: Any, file: InputFile, column: str, kind: Any) -> None:
    meant, types = _meant(arrow, kind), arrow.types
    sound = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal, types.is_null)
    if not any(test(meant) for test in sound):  # a column of nulls alone is named by its first row later
        hint = ' (a rule with kind = "categorical" or "drop" is needed)' if _is_text(arrow, meant) else ""
        raise file.error(f"column {column!r}: values must be numbers, but their type is {kind}{hint}")


def _check_text_type(arrow: Any, file: InputFile, column: str, kind: Any) -> None:
    meant, types = _meant(arrow, kind), arrow.types
    if not (_is_text(arrow, meant) or types.is_integer(meant) or types.is_boolean(meant) or types.is_null(meant)):
        raise file.error(f"column {column!r}: levels must be strings or whole numbers, but their type is {kind}")


def _is_text(arrow: Any, kind: Any) -> bool:
    types = arrow.types
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def _meant(arrow: Any, kind: Any) -> Any:
    return kind.value_type if arrow.types.is_dictionary(kind) else kind


def _plain(arrow: Any, column: Any) -> Any:
    """Undo the encoding that stores each distinct value once."""
    if not arrow.types.is_dictionary(column.type):
        return column
    return column.cast(column.type.value_type)


def _first_line(error: BaseException) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
