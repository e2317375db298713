"""A plan of encoder and decoder with a model's own numbers, after Figure 1 of the paper.

Letters: S source length, T target length, D d_model, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import plotly.graph_objects as go

from transformer.errors import InputError, problem
from transformer.plots import labels, theme
from transformer.plots.theme import Palette

PARTS = ("encoder", "decoder", "cross")
"""The three attentions, by their kind."""
BOX, GAP, FRAME = 27, 5, 9
"""Pixels of a box, between two boxes, and of a layer's frame around its boxes."""
MOST_LAYERS = 6
"""Layers of a stack that are drawn; of more, the first three and the last two."""
NAMES = {
    "encoder": "self-attention",
    "decoder": "masked self-attention",
    "cross": "cross-attention",
    "feed_forward": "feed-forward",
}
ENCODER, BUS, DECODER = (6.0, 40.0), 49.0, (58.0, 97.0)
"""Where the columns begin and end, and where the line between them runs, across a picture that is 100 wide."""


@dataclass(frozen=True)
class Plan:
    """The numbers that stand in the plan."""

    encoder_layers: int
    decoder_layers: int
    source: int
    """S"""
    target: int
    """T"""
    width: int
    """D"""
    vocabulary: int
    """V"""
    heads: int
    feed_forward: int
    """Units of a feed-forward network."""
    languages: tuple[str, str]


def assembly_plan(plan: Plan, chosen: str, colours: Palette) -> go.Figure:
    """Draw encoder and decoder side by side, each layer with its sublayers, and what flows where.

    From bottom to top as in the paper: pieces become vectors, run through the layers, and at the top of the decoder
    become probabilities. The line from the encoder's output ends in the cross-attention of every decoder layer.

    Args:
        plan: the numbers.
        chosen: the attention that is drawn in its full colour, one of ``PARTS``; the others are pale.
        colours: the theme's palette.

    Raises:
        InputError: another part.
    """
    if chosen not in PARTS:
        raise InputError(problem("part", f"must be one of {', '.join(PARTS)}", chosen, "choose one of them"))
    drawing = _Drawing(plan, chosen, colours)
    encoder_top = drawing.stack("encoder", drawn_layers(plan.encoder_layers), ENCODER)
    memory = encoder_top + GAP + BOX / 2 + 6
    drawing.flow(sum(ENCODER) / 2, encoder_top, memory - BOX / 2)
    drawing.box(
        ENCODER,
        memory,
        f"<b>encoder output {plan.source} × {plan.width}</b>",
        "The encoder's output: one vector for each source piece. Computed once for a sentence.",
        colours.encoder,
        full=True,
    )
    decoder_top = drawing.stack("decoder", drawn_layers(plan.decoder_layers), DECODER)
    top = decoder_top + GAP + BOX / 2 + 6
    drawing.flow(sum(DECODER) / 2, decoder_top, top - BOX / 2)
    drawing.box(
        DECODER,
        top,
        f"linear and softmax: {plan.target} × {plan.vocabulary:,}",
        "The last vectors times the vocabulary: for every position the probability of each piece to come next.",
        colours.decoder,
    )
    drawing.bus(memory)
    return drawing.figure(max(memory, top) + BOX / 2 + 8)


def drawn_layers(count: int) -> list[int | None]:
    """Which layers of a stack are drawn, from 0; None stands for those left out."""
    if count <= MOST_LAYERS:
        return list(range(count))
    return [0, 1, 2, None, count - 2, count - 1]


class _Drawing:
    """Shapes and texts, gathered from the bottom up; y is in pixels, upwards."""

    def __init__(self, plan: Plan, chosen: str, colours: Palette) -> None:
        self.plan, self.chosen, self.colours = plan, chosen, colours
        self.shapes: list[dict[str, Any]] = []
        self.texts: list[dict[str, Any]] = []
        self.hovers: list[tuple[float, float, str]] = []
        self.crossings: list[float] = []
        """Heights of the cross-attentions that are drawn."""

    def stack(self, name: str, layers: Sequence[int | None], sides: tuple[float, float]) -> float:
        """One column with its input, and where it ends."""
        plan, encoder = self.plan, name == "encoder"
        pieces, language = (plan.source, plan.languages[0]) if encoder else (plan.target, plan.languages[1])
        parts = ("encoder", "feed_forward") if encoder else ("decoder", "cross", "feed_forward")
        middle = sum(sides) / 2
        self.text(
            middle,
            12,
            f"{pieces} pieces of the {labels.escape(language)} {'input' if encoder else 'output, shifted right'}",
        )
        self.flow(middle, 22, 34)
        self.box(
            sides,
            34 + BOX / 2,
            f"embedding and position: {pieces} × {plan.width}",
            f"Each of the {pieces} pieces becomes a vector of {plan.width} numbers.",
            self.colours.muted,
        )
        below = 34.0 + BOX
        for layer in layers:
            start = below + 14
            self.flow(middle, below, start)
            if layer is None:
                left_out = (plan.encoder_layers if encoder else plan.decoder_layers) - MOST_LAYERS + 1
                self.text(middle, start + 8, f"… {left_out} more layers like these …")
                below = start + 18
                continue
            below = self.layer(layer, parts, sides, start)
        return below

    def layer(self, layer: int, parts: Sequence[str], sides: tuple[float, float], start: float) -> float:
        """A frame with a box for each sublayer."""
        height = 2 * FRAME + len(parts) * BOX + (len(parts) - 1) * GAP
        stack = "decoder" if len(parts) > 2 else "encoder"
        frame = {"type": "rect", "x0": sides[0] - 1.5, "x1": sides[1] + 1.5, "y0": start, "y1": start + height}
        self.shapes.append({**frame, "line": {"color": self.colours.line, "width": 1}, "layer": "below"})
        label = {"x": sides[1] + 2.2, "y": start + height / 2, "textangle": -90, "text": f"layer {layer + 1}"}
        self.texts.append({**label, "font": {"size": 11, "color": self.colours.muted}})
        for row, part in enumerate(parts):
            centre = start + FRAME + row * (BOX + GAP) + BOX / 2
            attention = part != "feed_forward"
            colour = theme.kind_colour(part, self.colours) if attention else self.colours.muted
            text = NAMES[part] + (f" · {self.plan.heads} heads" if attention else f" · {self.plan.feed_forward:,}")
            self.box(sides, centre, text, _said(stack, layer, part), colour, full=part == self.chosen)
            if part == "cross":
                self.crossings.append(centre)
        return start + height

    def box(
        self, sides: tuple[float, float], centre: float, text: str, said: str, colour: str, *, full: bool = False
    ) -> None:
        """A box with its name; what it does is told on hover."""
        fill = colour if full else theme.mix(self.colours.background, colour, 0.16)
        rectangle = {"type": "rect", "x0": sides[0], "x1": sides[1], "y0": centre - BOX / 2, "y1": centre + BOX / 2}
        self.shapes.append({**rectangle, "fillcolor": fill, "line": {"color": colour, "width": 1}, "layer": "below"})
        ink = theme.readable_on(fill)
        middle = sum(sides) / 2
        self.texts.append({"x": middle, "y": centre, "text": text, "font": {"size": 12, "color": ink}})
        self.hovers += [(sides[0] + (sides[1] - sides[0]) * share, centre, said) for share in (0.15, 0.5, 0.85)]

    def text(self, x: float, y: float, text: str) -> None:
        """A quiet line."""
        self.texts.append({"x": x, "y": y, "text": text, "font": {"size": 12, "color": self.colours.muted}})

    def flow(self, x: float, start: float, end: float) -> None:
        """What leaves one box upwards enters the next."""
        arrow = {"x": x, "y": end, "ax": x, "ay": start, "axref": "x", "ayref": "y", "text": "", "showarrow": True}
        arrow |= {"arrowhead": 2, "arrowsize": 0.9, "arrowwidth": 1.5, "arrowcolor": self.colours.muted}
        self.texts.append(arrow)

    def bus(self, memory: float) -> None:
        """The line from the encoder's output into every cross-attention."""
        full = self.chosen == "cross"
        colour = self.colours.cross if full else theme.mix(self.colours.background, self.colours.cross, 0.6)
        line = {"color": colour, "width": 3 if full else 2}
        ends = [*self.crossings, memory]
        self.shapes.append({"type": "line", "x0": ENCODER[1], "x1": BUS, "y0": memory, "y1": memory, "line": line})
        self.shapes.append({"type": "line", "x0": BUS, "x1": BUS, "y0": min(ends), "y1": max(ends), "line": line})
        for height in self.crossings:
            arrow = {"x": DECODER[0], "y": height, "ax": BUS, "ay": height, "axref": "x", "ayref": "y", "text": ""}
            arrow |= {"showarrow": True, "arrowhead": 2, "arrowwidth": line["width"], "arrowcolor": colour}
            self.texts.append(arrow)
            self.texts.append(
                {"x": (BUS + DECODER[0]) / 2 - 0.6, "y": height + 9, "text": "K, V"}
                | {"font": {"size": 11, "color": self.colours.cross}}
            )

    def figure(self, height: float) -> go.Figure:
        """All of it."""
        axis = {"visible": False, "fixedrange": True}
        hover = go.Scatter(
            x=[x for x, _, _ in self.hovers],
            y=[y for _, y, _ in self.hovers],
            mode="markers",
            marker={"size": BOX, "opacity": 0, "color": self.colours.muted},
            customdata=[said for _, _, said in self.hovers],
            hovertemplate="%{customdata}<extra></extra>",
        )
        usual = {"showarrow": False, "xref": "x", "yref": "y", "xanchor": "center", "yanchor": "middle"}
        layout = {
            **theme.base_layout(self.colours),
            "height": int(height) + 4,
            "margin": {"l": 2, "r": 2, "t": 2, "b": 2},
            "xaxis": {**axis, "range": [2, 101.5]},
            "yaxis": {**axis, "range": [0, height]},
            "shapes": self.shapes,
            "annotations": [{**usual, **text} for text in self.texts],
        }
        return go.Figure(hover, layout)


def _said(stack: str, layer: int, part: str) -> str:
    place = f"{stack} layer {layer + 1}"
    return {
        "encoder": f"{place}: queries, keys and values all come from this layer's input; every piece may look at "
        "every piece.",
        "decoder": f"{place}: queries, keys and values all come from this layer's input; the causal mask hides what "
        "comes later.",
        "cross": f"{place}: queries from the decoder, keys and values from the encoder's output.",
        "feed_forward": f"{place}: the same small network at each position alone.",
    }[part]
