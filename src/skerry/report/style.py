"""The style of all figures: colours and markers per primitive, sizes for print, safe text, files.

The colours are Okabe and Ito's colour-blind-safe set. A primitive looks the same in every figure.
"""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Any, NamedTuple

from skerry.config.labels import beta_of
from skerry.errors import SkerryError
from skerry.files import replace_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PRIMITIVES = {"s2s": "#0072B2", "s2a": "#D55E00", "blend": "#009E73", "none": "#7F7F7F"}
OTHERS = ("#CC79A7", "#E69F00", "#56B4E9", "#000000")
ISLANDS = ("#56B4E9", "#E69F00", "#009E73", "#CC79A7", "#F0E442", "#0072B2", "#D55E00")
INK, GREY, FAINT, MISSING = "#333333", "#555555", "#DDDDDD", "#EEEEEE"

MARKERS = {"s2s": "o", "s2a": "s", "blend": "^", "none": "X"}
BLEND_MARKERS = ("<", "v", "^", "D", ">")  # one marker for each fifth of the range of beta
OTHER_MARKERS = ("P", "*", "h", "d")
DASHES: tuple[Any, ...] = ("-", (0, (4, 1.5)), (0, (1, 1.2)), (0, (6, 1.5, 1, 1.5)), (0, (8, 3)))

WIDTHS = {"column": 3.3, "full": 6.9}  # inches: a column of two, and the full page

PAPER: dict[str, Any] = {
    "font.size": 8, "axes.titlesize": 8, "axes.labelsize": 8, "xtick.labelsize": 7,
    "ytick.labelsize": 7, "legend.fontsize": 7, "figure.titlesize": 9, "axes.linewidth": 0.6,
    "xtick.major.width": 0.6, "ytick.major.width": 0.6, "xtick.major.size": 2.5,
    "ytick.major.size": 2.5, "lines.linewidth": 1.2, "lines.markersize": 3.5,
    "hatch.linewidth": 0.4, "axes.grid": False,
}  # fmt: skip

FILES: dict[str, Any] = {
    # TrueType: text can be searched and copied, and printers refuse Type 3 fonts.
    "pdf.fonttype": 42,
    # Outlines: the viewer may not have our font, and another font would make labels overlap.
    "svg.fonttype": "path",
    "svg.hashsalt": "skerry",  # the same figure is the same file
}

LONGEST = 36


class LabelStyle(NamedTuple):
    """The colour and marker of a label in all figures."""

    colour: str
    marker: str


def label_styles(labels: Sequence[str]) -> dict[str, LabelStyle]:
    """A colour and a marker per label, so that labels differ without colour vision too."""
    tints = colours(labels)
    others = _cycled(labels, OTHER_MARKERS)
    found = {}
    for name, tint in tints.items():
        beta = beta_of(name)
        blend = BLEND_MARKERS[int(beta * (len(BLEND_MARKERS) - 0.01))] if beta is not None else ""
        found[name] = LabelStyle(tint, blend or MARKERS.get(name) or others[name])
    return found


def colours(labels: Sequence[str]) -> dict[str, str]:
    """A colour per label. Blends share a hue, lighter towards S2S and darker towards S2A."""
    found = PRIMITIVES | _cycled(labels, OTHERS)
    for name in labels:
        beta = beta_of(name)
        if beta is not None:
            found[name] = _shade(PRIMITIVES["blend"], 1.1 * (0.5 - beta))
    return {name: found[name] for name in labels}


@contextmanager
def paper() -> Iterator[None]:
    """Draw with our settings for print instead of the user's own matplotlib settings."""
    import matplotlib as mpl

    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(PAPER | FILES)  # type: ignore[arg-type]
        yield


def safe_text(text: object, longest: int = LONGEST) -> str:
    """Foreign text that matplotlib draws literally: without mathematics between dollars, control
    characters (SVG forbids them) or a leading underscore (it hides a legend entry), shortened."""
    plain = "".join(c if c.isprintable() else " " for c in str(text))
    short = shorten(plain, longest, placeholder=" …")
    if short == "…" or len(short) > longest:  # one long word
        short = plain.strip()[: longest - 1] + "…"
    return (" " if short.startswith("_") else "") + short.replace("$", r"\$")


def text_colour(background: Iterable[float]) -> str:
    """INK or white, whichever has more contrast with the background (RGB or RGBA from 0 to 1)."""
    dark, behind = 0.033 + 0.05, luminance(background) + 0.05  # 0.033 is the luminance of INK
    return INK if behind / dark > 1.05 / behind else "#FFFFFF"


def contrast(one: str, other: str) -> float:
    """WCAG's contrast ratio of two colours (#RRGGBB), from 1 to 21."""
    dark, light = sorted(luminance(rgb(colour)) for colour in (one, other))
    return (light + 0.05) / (dark + 0.05)


def luminance(colour: Iterable[float]) -> float:
    """WCAG's relative luminance of a colour, RGB from 0 to 1."""
    linear = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in colour)
    shares = (0.2126, 0.7152, 0.0722)
    return sum(share * part for share, part in zip(shares, linear, strict=False))


def rgb(colour: str) -> tuple[float, float, float]:
    """#RRGGBB as red, green and blue from 0 to 1."""
    red, green, blue = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return red, green, blue


def _cycled(labels: Sequence[str], among: Sequence[str]) -> dict[str, str]:
    """Colours or markers for the user's own primitives, in turn."""
    own = [name for name in labels if name not in PRIMITIVES and beta_of(name) is None]
    return dict(zip(own, itertools.cycle(among), strict=False))


def _shade(colour: str, lighter: float) -> str:
    """The colour moved towards white or, for negative values, towards black."""
    end = 255 if lighter > 0 else 0
    parts = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return "#" + "".join(f"{round(part + abs(lighter) * (end - part)):02X}" for part in parts)


FORMATS: dict[str, dict[str, Any]] = {
    ".png": {},
    ".svg": {"Date": None},
    ".pdf": {"CreationDate": None},
}
"""By file ending, the metadata to leave out, so that equal figures are equal files."""


def check_format(path: Path) -> None:
    """Raise an error if figures cannot be written to a file with this ending."""
    if path.suffix.lower() not in FORMATS:
        raise SkerryError(
            f"a figure must be a {', '.join(FORMATS)} file (got '{path.name}'). Change the ending."
        )


def save_figure(figure: "Figure", path: Path, dpi: int = 150) -> Path:
    """Write a figure as .png, .svg or .pdf. The file appears complete or not at all."""
    import matplotlib as mpl

    kind = path.suffix.lower()
    content = BytesIO()  # in memory first, because matplotlib fails badly on a full disk
    with mpl.rc_context(FILES):  # type: ignore[arg-type]
        ending, metadata = kind.removeprefix(".") or None, FORMATS.get(kind)
        figure.savefig(content, format=ending, dpi=dpi, metadata=metadata)
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, content.getvalue())
    return path
