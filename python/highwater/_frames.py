"""Columns as a DataFrame."""

from __future__ import annotations

from typing import Any

from ._highwater import InputError

KINDS = ("pandas", "polars", "arrow")

# Columns whose values are always texts, even if they look like numbers.
_TEXTS = {"experiment", "machine", "scale", "kernel", "group", "name", "unit", "better", "fingerprint", "run", "policy", "size"}


def check(kind: str) -> None:
    """Refuses a kind of DataFrame that there is not, before anything runs."""
    if kind not in KINDS:
        raise InputError(f"frame: expected one of {', '.join(map(repr, KINDS))}, found {kind!r}")
    if kind == "polars":
        import polars  # noqa: F401
    elif kind == "pandas":
        import pandas  # noqa: F401
    else:
        import pyarrow  # noqa: F401


def _typed(name: str, column: list[Any]) -> list[Any]:
    """The values of a key as numbers, if all of them are."""
    if name in _TEXTS or not any(isinstance(value, str) for value in column):
        return column
    for number in (int, float):
        try:
            return [None if value is None else number(value) for value in column]
        except ValueError:
            pass
    return column


def make(columns: dict[str, list[Any]], kind: str) -> Any:
    """A DataFrame of pandas or polars over pyarrow, or a table of pyarrow. Without pyarrow the libraries' own types."""
    columns = {name: _typed(name, column) for name, column in columns.items()}
    try:
        import pyarrow
    except ImportError:
        pyarrow = None
    if pyarrow is None:
        if kind == "polars":
            import polars

            return polars.DataFrame(columns, schema_overrides={"seed": polars.UInt64} if "seed" in columns else None)
        import pandas

        return pandas.DataFrame(columns)
    arrays = {
        name: pyarrow.array(column, type=pyarrow.uint64() if name == "seed" else None)
        for name, column in columns.items()
    }
    table = pyarrow.table(arrays)
    if kind == "arrow":
        return table
    if kind == "polars":
        import polars

        return polars.from_arrow(table)
    import pandas

    return table.to_pandas(types_mapper=pandas.ArrowDtype)
