"""Figures as files."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skerry.report.style import FILES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TIMELESS: dict[str, dict[str, Any]] = {
    ".pdf": {"CreationDate": None},
    ".svg": {"Date": None},
    ".png": {},
}
"""What would make the same figure another file tomorrow."""


def save(figure: "Figure", path: Path, dpi: int = 150) -> Path:
    """Write atomically: a reader never sees half a picture."""
    import matplotlib as mpl

    temporary = path.with_name(f".{path.name}.{os.getpid()}{path.suffix}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with mpl.rc_context(FILES):  # type: ignore[arg-type]
            figure.savefig(temporary, dpi=dpi, metadata=TIMELESS.get(path.suffix.lower()))
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    return path
