"""A grid as the text of a sweep's file."""

from __future__ import annotations

import json
import os
from typing import Any, Mapping, Sequence, Union

from ._highwater import InputError

Grid = Union[str, "os.PathLike[str]", Mapping[str, Any]]


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        # A JSON string is also a TOML string, except for escaped characters beyond 16 bits. These
        # are therefore not escaped.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")
    if isinstance(value, os.PathLike):
        return _value(os.fspath(value))
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, Sequence) or hasattr(value, "__iter__"):
        return "[" + ", ".join(_value(one) for one in value) + "]"
    if hasattr(value, "item"):
        return _value(value.item())
    raise InputError(f"expected texts, numbers or lists of them, found {value!r}")


def text_of(grid: Grid) -> tuple[str, str]:
    """The text of a sweep's file, and what messages call it. A mapping has the file's keys."""
    if not isinstance(grid, Mapping):
        path = os.fspath(grid)
        try:
            with open(path, encoding="utf-8") as file:
                return file.read(), path
        except OSError as error:
            raise InputError(f"cannot read {path}: {error.strerror}") from error
    plain = {key: value for key, value in grid.items() if key != "set" and value is not None}
    lines = [f"{_value(key)} = {_value(value)}" for key, value in plain.items()]
    if grid.get("set"):
        lines.append("[set]")
        lines += [f"{_value(key)} = {_value(value)}" for key, value in grid["set"].items()]
    return "\n".join(lines) + "\n", "grid"
