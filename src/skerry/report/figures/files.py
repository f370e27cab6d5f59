"""Figures as files."""

from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skerry.errors import SkerryError
from skerry.files import replace_file
from skerry.report.style import FILES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS: dict[str, dict[str, Any]] = {
    ".png": {},
    ".svg": {"Date": None},
    ".pdf": {"CreationDate": None},
}
"""By its ending, what would make the same figure another file tomorrow."""


def check_format(path: Path) -> None:
    if path.suffix.lower() not in FORMATS:
        raise SkerryError(
            f"a figure must be a {', '.join(FORMATS)} file (got '{path.name}'). Change the ending."
        )


def save(figure: "Figure", path: Path, dpi: int = 150) -> Path:
    """Write atomically: a reader never sees half a picture."""
    import matplotlib as mpl

    kind = path.suffix.lower()
    drawn = BytesIO()  # first: on a full disk matplotlib fails with errors of its own
    with mpl.rc_context(FILES):  # type: ignore[arg-type]
        figure.savefig(
            drawn, format=kind.removeprefix(".") or None, dpi=dpi, metadata=FORMATS.get(kind)
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, drawn.getvalue())
    return path
