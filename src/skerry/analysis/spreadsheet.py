"""Tables for spreadsheets."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

_FORMULA = ("=", "+", "-", "@", "\t", "\n")
"""How a formula begins, which a spreadsheet computes when it opens the file."""


def to_csv(frame: "pd.DataFrame") -> bytes:
    """Numbers stay numbers; a text that would be taken for a formula begins with an apostrophe."""
    safe = frame.copy()
    for name in frame.select_dtypes(exclude="number"):
        safe[name] = frame[name].map(_no_formula)
    return safe.rename(columns=_no_formula).to_csv(index=False).encode()


def _no_formula(cell: Any) -> Any:
    if not isinstance(cell, str):
        return cell
    text = cell.replace("\r", "\n")  # which pandas puts in quotes, where it stays inside the cell
    return f"'{text}" if text.startswith(_FORMULA) and not _is_number(text) else text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
