"""Colours that mean the same primitive everywhere (Okabe and Ito's colour-blind-safe set)."""

import colorsys

PRIMITIVES = {"s2s": "#0072B2", "s2a": "#D55E00", "blend": "#009E73", "none": "#7F7F7F"}
OTHERS = ("#CC79A7", "#E69F00", "#56B4E9", "#000000")
ISLANDS = ("#56B4E9", "#E69F00", "#009E73", "#CC79A7", "#F0E442", "#0072B2", "#D55E00")


def colours(labels: list[str]) -> dict[str, str]:
    """A colour per label; several blends share blend's hue, from light to dark."""
    blends = [name for name in labels if name.startswith("blend(")]
    others = [name for name in labels if name not in PRIMITIVES and name not in blends]
    found = {name: PRIMITIVES[name] for name in labels if name in PRIMITIVES}
    found |= {name: OTHERS[i % len(OTHERS)] for i, name in enumerate(others)}
    for i, name in enumerate(blends):
        share = 0.0 if len(blends) == 1 else i / (len(blends) - 1) - 0.5
        found[name] = _shade(PRIMITIVES["blend"], -0.35 * share)
    return {name: found[name] for name in labels}


def _shade(colour: str, lighter: float) -> str:
    red, green, blue = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    hue, lightness, saturation = colorsys.rgb_to_hls(red, green, blue)
    rgb = colorsys.hls_to_rgb(hue, min(0.85, max(0.12, lightness + lighter)), saturation)
    return "#" + "".join(f"{round(255 * part):02X}" for part in rgb)
