"""How things look: colours and markers that mean the same primitive everywhere (Okabe and Ito's
colour-blind-safe set), the sizes of a paper's columns, and text that is drawn as it is written."""

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from textwrap import shorten
from typing import Any, NamedTuple

from skerry.config.labels import beta_of

PRIMITIVES = {"s2s": "#0072B2", "s2a": "#D55E00", "blend": "#009E73", "none": "#7F7F7F"}
OTHERS = ("#CC79A7", "#E69F00", "#56B4E9", "#000000")
ISLANDS = ("#56B4E9", "#E69F00", "#009E73", "#CC79A7", "#F0E442", "#0072B2", "#D55E00")
INK, GREY, FAINT, MISSING = "#333333", "#555555", "#DDDDDD", "#EEEEEE"

MARKERS = {"s2s": "o", "s2a": "s", "blend": "^", "none": "X"}
BLEND_MARKERS = ("<", "v", "^", "D", ">")
"""By fifths of beta."""
OTHER_MARKERS = ("P", "*", "h", "d")
DASHES: tuple[Any, ...] = ("-", (0, (4, 1.5)), (0, (1, 1.2)), (0, (6, 1.5, 1, 1.5)), (0, (8, 3)))

WIDTHS = {"column": 3.3, "full": 6.9}
"""Inches: one column of a two-column page, and both."""

PAPER: dict[str, Any] = {
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7,
    "figure.titlesize": 9,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "lines.linewidth": 1.2,
    "lines.markersize": 3.5,
    "hatch.linewidth": 0.4,
    "axes.grid": False,
}

FILES: dict[str, Any] = {
    # TrueType: letters stay letters, to be searched and copied; printers refuse Type 3.
    "pdf.fonttype": 42,
    # Outlines: a page that shows the picture cannot be asked to have our font, and one of
    # another width would make labels overlap.
    "svg.fonttype": "path",
    "svg.hashsalt": "skerry",  # the same figure is the same file
}

LONGEST = 36


class Look(NamedTuple):
    colour: str
    marker: str


def looks(labels: Sequence[str]) -> dict[str, Look]:
    """A colour and a marker per label: who cannot tell the colours has the markers."""
    tints = colours(labels)
    others = _cycled(_users_own(labels), OTHER_MARKERS)
    found = {}
    for name, tint in tints.items():
        beta = beta_of(name)
        blend = BLEND_MARKERS[int(beta * (len(BLEND_MARKERS) - 0.01))] if beta is not None else ""
        found[name] = Look(tint, blend or MARKERS.get(name) or others[name])
    return found


def colours(labels: Sequence[str]) -> dict[str, str]:
    """A colour per label; blends share a hue, lighter towards S2S and darker towards S2A."""
    found = PRIMITIVES | _cycled(_users_own(labels), OTHERS)
    for name in labels:
        beta = beta_of(name)
        if beta is not None:
            found[name] = _shade(PRIMITIVES["blend"], 1.1 * (0.5 - beta))
    return {name: found[name] for name in labels}


def dashes(values: Sequence[Any]) -> dict[Any, Any]:
    """A line style per value of a field."""
    return {value: DASHES[i % len(DASHES)] for i, value in enumerate(values)}


@contextmanager
def paper() -> Iterator[None]:
    """Sizes for print, whatever the user's own settings are."""
    import matplotlib as mpl

    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(PAPER | FILES)  # type: ignore[arg-type]
        yield


def plain(text: object, longest: int = LONGEST) -> str:
    """Foreign text as matplotlib draws it letter by letter: no mathematics between dollars, no
    control characters (SVG forbids them), not hidden by a leading underscore, not endless."""
    printable = re.sub(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]", " ", str(text))
    short = shorten(printable, longest, placeholder=" …")
    if short == "…" or len(short) > longest:  # one endless word
        short = printable.strip()[: longest - 1] + "…"
    return (" " if short.startswith("_") else "") + short.replace("$", r"\$")


def ink_on(colour: Iterable[float]) -> str:
    """Dark or white, whatever stands out more (contrast as WCAG defines it); `colour` is RGB or
    RGBA from 0 to 1."""
    dark = 0.033 + 0.05  # luminance of the ink
    behind = 0.05 + sum(
        weight * (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4)
        for weight, part in zip((0.2126, 0.7152, 0.0722), colour, strict=False)
    )
    return INK if behind / dark > 1.05 / behind else "#FFFFFF"


def _users_own(labels: Sequence[str]) -> list[str]:
    return [name for name in labels if name not in PRIMITIVES and beta_of(name) is None]


def _cycled(names: Sequence[str], among: Sequence[str]) -> dict[str, str]:
    return {name: among[i % len(among)] for i, name in enumerate(names)}


def _shade(colour: str, lighter: float) -> str:
    """Towards white, or, below 0, towards black."""
    end = 255 if lighter > 0 else 0
    rgb = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return "#" + "".join(f"{round(part + abs(lighter) * (end - part)):02X}" for part in rgb)
