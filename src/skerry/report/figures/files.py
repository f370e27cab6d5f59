"""Figures as files."""

from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skerry.files import replace_file
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

    kind = path.suffix.lower()
    drawn = BytesIO()  # first: on a full disk matplotlib fails with errors of its own
    with mpl.rc_context(FILES):  # type: ignore[arg-type]
        figure.savefig(
            drawn, format=kind.removeprefix(".") or None, dpi=dpi, metadata=TIMELESS.get(kind)
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, drawn.getvalue())
    return path
