"""The one place where colours are set, for both themes.

The three kinds of attention keep one colour each everywhere: encoder blue, decoder violet, cross orange. They stay
apart for red-, green- and blue-blind eyes on both backgrounds (``tests/plots/test_plots_theme.py`` measures it).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

SANS = '"Source Sans", "Source Sans Pro", "Source Sans 3", system-ui, sans-serif'
MONO = '"Source Code Pro", "DejaVu Sans Mono", ui-monospace, monospace'


@dataclass(frozen=True)
class Palette:
    """The colours of one theme, each as ``#rrggbb``."""

    name: str
    background: str
    surface: str
    """A shade off the background: cards, chips."""
    text: str
    muted: str
    """Secondary text; still at least 4.5 to 1 on the background."""
    line: str
    """Hairlines and outlines of unselected things."""
    masked: str
    """Cells where the mask forbids a look."""
    encoder: str
    decoder: str
    cross: str
    probability: str
    """The shade of a certain output piece; less sure pieces are paler."""
    good: str
    bad: str
    warning: str


LIGHT = Palette(
    name="light",
    background="#ffffff",
    surface="#f5f6f8",
    text="#1c2430",
    muted="#5b6574",
    line="#d3d8df",
    masked="#e9ebef",
    encoder="#004f9e",
    decoder="#9a46c4",
    cross="#b04f00",
    probability="#0f8a7e",
    good="#1a7f37",
    bad="#c0262d",
    warning="#8a5a00",
)
DARK = Palette(
    name="dark",
    background="#10141b",
    surface="#1b212b",
    text="#e8ebf0",
    muted="#9aa5b4",
    line="#38414f",
    masked="#272e39",
    encoder="#3f92e8",
    decoder="#d8a4ff",
    cross="#f28c38",
    probability="#2fb3a5",
    good="#4cc26b",
    bad="#ff7b7b",
    warning="#e3b341",
)


HEADS = {
    "light": ("#2e43d8", "#f1450c", "#3f945b", "#6f026a", "#c16599", "#8b2303", "#a76ace", "#494949"),
    "dark": ("#5e5ffb", "#f1ba73", "#40dac2", "#a0467a", "#96d700", "#f4627b", "#a76ace", "#598007"),
}
"""Colours of heads drawn in one picture: at least 3 to 1 on the background, and apart from each other for every eye."""
DASHES = ("solid", "dash", "dot", "dashdot")
"""How the first eight heads, the next eight, and so on are drawn."""


def palette(name: str | None) -> Palette:
    """The palette called ``dark``; ``light`` for every other name."""
    return DARK if name == "dark" else LIGHT


def kind_colour(kind: str, colours: Palette) -> str:
    """The colour of ``encoder``, ``decoder`` or ``cross``."""
    return {"encoder": colours.encoder, "decoder": colours.decoder, "cross": colours.cross}[kind]


def head_style(index: int, colours: Palette) -> tuple[str, str]:
    """Colour and dash of the ``index``-th of several heads in one picture; all differ up to 32 heads."""
    series = HEADS[colours.name]
    return series[index % len(series)], DASHES[index // len(series) % len(DASHES)]


def mix(first: str, second: str, share: float) -> str:
    """``share`` of ``second`` in ``first``, as ``#rrggbb``."""
    pairs = zip(_channels(first), _channels(second), strict=True)
    return "#" + "".join(f"{round(a + (b - a) * share):02x}" for a, b in pairs)


def readable_on(background: str) -> str:
    """Near-black or white, whichever stands out more from a background (WCAG 2.1, contrast ratio)."""
    light = _luminance(background)
    return "#10141b" if (light + 0.05) / (_luminance("#10141b") + 0.05) > 1.05 / (light + 0.05) else "#ffffff"


def _luminance(colour: str) -> float:
    """Relative luminance of an sRGB colour, 0 to 1 (WCAG 2.1)."""
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in _shares(colour))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _shares(colour: str) -> tuple[float, ...]:
    return tuple(channel / 255 for channel in _channels(colour))


def attention_scale(kind: str, colours: Palette) -> list[list[float | str]]:
    """Colour scale for weights 0 to 1: from the background to the colour of the kind."""
    return [[0.0, colours.background], [1.0, kind_colour(kind, colours)]]


def diverging_scale(kind: str, colours: Palette) -> list[list[float | str]]:
    """Colour scale for numbers of either sign: grey below, the background at zero, the colour of the kind above."""
    return [[0.0, mix(colours.background, colours.muted, 0.75)], *_upper_half(attention_scale(kind, colours))]


def _upper_half(scale: list[list[float | str]]) -> list[list[float | str]]:
    return [[0.5 + float(place) / 2, colour] for place, colour in scale]


def tile_scale(kind: str, colours: Palette, top: int, gap: int) -> list[list[float | str]]:
    """Colour scale for bytes: 0 to ``top`` are weights, ``gap`` (at most 255) is the space between tiles."""
    full = kind_colour(kind, colours)
    return [[0.0, colours.background], [top / gap, full], [(top + 1) / gap, colours.surface], [1.0, colours.surface]]


def base_layout(colours: Palette) -> dict[str, Any]:
    """Layout that every figure shares: plain background, the app's fonts, no legend, no dragging."""
    return {
        "paper_bgcolor": colours.background,
        "plot_bgcolor": colours.background,
        "font": {"family": SANS, "size": 13, "color": colours.text},
        "hoverlabel": {
            "bgcolor": colours.surface,
            "bordercolor": colours.line,
            "font": {"family": SANS, "size": 13, "color": colours.text},
            "align": "left",
        },
        "showlegend": False,
        "dragmode": False,
    }


def _channels(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)
