"""Colours of the page: one hue for a primitive, light enough or dark enough for its background."""

import colorsys

PAPER, NIGHT = "#ffffff", "#15191f"
"""The backgrounds of the light and the dark page, as page.css has them."""
ON_PAPER = 3.0
"""What WCAG 2.2 asks of lines and marks beside their background."""
ON_NIGHT = 5.5
"""More: thin lines on black look darker than they are."""


def shades(colour: str) -> dict[str, str]:
    """One hue on both backgrounds, moved in lightness until it can be seen."""
    return {"light": visible(colour, PAPER, ON_PAPER), "dark": visible(colour, NIGHT, ON_NIGHT)}


def visible(colour: str, background: str, contrast: float) -> str:
    step = 0.02 if luminance(background) < 0.5 else -0.02
    hue, lightness, saturation = colorsys.rgb_to_hls(*_rgb(colour))
    while contrast_of(colour, background) < contrast and 0 < lightness + step < 1:
        lightness += step
        rgb = colorsys.hls_to_rgb(hue, lightness, saturation)
        colour = "#" + "".join(f"{round(255 * part):02X}" for part in rgb)
    return colour


def contrast_of(one: str, other: str) -> float:
    """WCAG's contrast ratio, 1 to 21."""
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def luminance(colour: str) -> float:
    linear = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in _rgb(colour))
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def _rgb(colour: str) -> tuple[float, float, float]:
    red, green, blue = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return red, green, blue
