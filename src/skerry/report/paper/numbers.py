"""Numbers of the reproduction as text: points with their sign, standard errors, counts."""

import math

NOTHING = "-"
MARKS = {True: "✓", False: "✗", None: "·"}
"""The sign agrees, does not, or says nothing because the printed gap is within 0.1 points."""


def points(value: float, digits: int = 2) -> str:
    """`+1.20`: percentage points in favour of S2S."""
    return f"{value:+z.{digits}f}" if math.isfinite(value) else NOTHING


def with_error(value: float, error: float, digits: int = 2) -> str:
    """`+1.20 ± 0.15`; one seed has no standard error."""
    told = points(value, digits)
    return f"{told} ± {error:.{digits}f}" if told != NOTHING and math.isfinite(error) else told


def plain_number(value: float, digits: int = 2) -> str:
    return f"{value:.{digits}f}" if math.isfinite(value) else NOTHING


def of(part: int, whole: int) -> str:
    """`40 of 44`."""
    return f"{part} of {whole}" if whole else "none to compare"
