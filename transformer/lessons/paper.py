"""What the paper measured: its Tables 2 and 3 as data, and the rows that a checkpoint would have in them.

Vaswani et al. 2017, "Attention Is All You Need", arXiv:1706.03762v7. The tests check the numbers against what the
paper says in other places: parameter counts, training times, differences named in the text.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformer.engine import Translator
    from transformer.lessons.history import Course


@dataclass(frozen=True)
class Result:
    """A row of Table 2: BLEU on newstest2014, and floating-point operations spent on training."""

    model: str
    german: float | None
    """English to German."""
    french: float | None
    """English to French."""
    german_cost: float | None = None
    french_cost: float | None = None
    group: str = "single"
    """``single``, ``ensemble`` of several models, or the paper's own ``transformer``."""


TABLE_2 = (
    Result("ByteNet", 23.75, None),
    Result("Deep-Att + PosUnk", None, 39.2, None, 1.0e20),
    Result("GNMT + RL", 24.6, 39.92, 2.3e19, 1.4e20),
    Result("ConvS2S", 25.16, 40.46, 9.6e18, 1.5e20),
    Result("MoE", 26.03, 40.56, 2.0e19, 1.2e20),
    Result("Deep-Att + PosUnk Ensemble", None, 40.4, None, 8.0e20, "ensemble"),
    Result("GNMT + RL Ensemble", 26.30, 41.16, 1.8e20, 1.1e21, "ensemble"),
    Result("ConvS2S Ensemble", 26.36, 41.29, 7.7e19, 1.2e21, "ensemble"),
    Result("Transformer (base model)", 27.3, 38.1, 3.3e18, 3.3e18, "transformer"),
    Result("Transformer (big)", 28.4, 41.8, 2.3e19, 2.3e19, "transformer"),
)
"""The paper prints one cost for each of its own models, for both languages. Its Section 6.1 says 41.0 for big on French
where table and abstract say 41.8."""


@dataclass(frozen=True)
class Variation:
    """A row of Table 3: a shape of the model, and what it reached on newstest2013, English to German."""

    row: str
    """The paper's letter, or a name."""
    encoder_layers: int
    decoder_layers: int
    d_model: int
    feed_forward: int
    heads: int
    d_k: int
    d_v: int
    dropout: float
    smoothing: float | None
    """e of label smoothing; None if it is not known."""
    steps: int | None
    perplexity: float | None
    """Per piece, on the dev set."""
    bleu: float | None
    """On the dev set."""
    parameters: float | None
    """In millions; None where the paper leaves it out."""
    changed: tuple[str, ...] = ()
    """The fields in which the row differs from base, those that the paper prints."""
    note: str = ""

    @property
    def layers(self) -> str:
        """N as it is shown: one number, or both if they differ."""
        if self.encoder_layers == self.decoder_layers:
            return str(self.encoder_layers)
        return f"{self.encoder_layers} + {self.decoder_layers}"


BASE = Variation("base", 6, 6, 512, 2048, 8, 64, 64, 0.1, 0.1, 100_000, 4.92, 25.8, 65.0)


def _row(
    letter: str, perplexity: float, bleu: float, parameters: float | None = None, note: str = "", **shape: Any
) -> Variation:
    layers = shape.pop("layers", None)
    if layers is not None:
        shape |= {"encoder_layers": layers, "decoder_layers": layers}
    return dataclasses.replace(
        BASE,
        row=letter,
        perplexity=perplexity,
        bleu=bleu,
        parameters=parameters,
        note=note,
        changed=tuple(shape),
        **shape,
    )


TABLE_3 = (
    BASE,
    _row("A", 5.29, 24.9, heads=1, d_k=512, d_v=512),
    _row("A", 5.00, 25.5, heads=4, d_k=128, d_v=128),
    _row("A", 4.91, 25.8, heads=16, d_k=32, d_v=32),
    _row("A", 5.01, 25.4, heads=32, d_k=16, d_v=16),
    _row("B", 5.16, 25.1, 58, d_k=16),
    _row("B", 5.01, 25.4, 60, d_k=32),
    _row("C", 6.11, 23.7, 36, layers=2),
    _row("C", 5.19, 25.3, 50, layers=4),
    _row("C", 4.88, 25.5, 80, layers=8),
    _row("C", 5.75, 24.5, 28, d_model=256, d_k=32, d_v=32),
    _row("C", 4.66, 26.0, 168, d_model=1024, d_k=128, d_v=128),
    _row("C", 5.12, 25.4, 53, feed_forward=1024),
    _row("C", 4.75, 26.2, 90, feed_forward=4096),
    _row("D", 5.77, 24.6, dropout=0.0),
    _row("D", 4.95, 25.5, dropout=0.2),
    _row("D", 4.67, 25.3, smoothing=0.0),
    _row("D", 5.47, 25.7, smoothing=0.2),
    _row("E", 4.92, 25.7, note="learned positions instead of sinusoids"),
    _row("big", 4.33, 26.4, 213, d_model=1024, feed_forward=4096, heads=16, dropout=0.3, steps=300_000),
)
"""Values that the paper does not print in a row are those of base."""

FINDINGS = {
    "A": "The number of heads, the amount of computation held: one head loses 0.9 BLEU to the best, and too many lose "
    "as well.",
    "B": "Smaller keys: quality falls, so comparing a query with a key is not easy.",
    "C": "Size: larger models are better, on the whole. With 8 layers instead of 6 the perplexity is better, the BLEU "
    "not.",
    "D": "Dropout and label smoothing: dropout helps much against overfitting; smoothing makes the perplexity worse "
    "and the BLEU better.",
    "E": "Learned positions do as well as the sine and cosine table.",
}
"""What each group of rows of Table 3 shows, after Section 6.2."""


@dataclass(frozen=True)
class OwnScore:
    """A score of a checkpoint, from its ``config.json``."""

    part: str
    """Which sentences, for example ``test2016``."""
    name: str
    value: float
    sentences: int | None
    signature: str


def own_scores(meta: Mapping[str, Any]) -> tuple[OwnScore, ...]:
    """The scores that a checkpoint names; those that are not what the trainer writes are left out."""
    listed = meta.get("scores")
    found = []
    for one in listed if isinstance(listed, list) else []:
        value = _number(one.get("value")) if isinstance(one, Mapping) else None
        if value is None:
            continue
        sentences = one.get("sentences")
        found.append(
            OwnScore(
                part=str(one.get("part", "")),
                name=str(one.get("name", one.get("metric", ""))),
                value=value,
                sentences=sentences if isinstance(sentences, int) else None,
                signature=str(one.get("signature", "")),
            )
        )
    return tuple(found)


def own_variation(translator: Translator, course: Course | None) -> Variation:
    """The row that a checkpoint would have in Table 3.

    Its perplexity is exp(dev loss) of the latest evaluation of the training, whose weights may differ from the stored
    ones, which can be a mean of several; its BLEU is that of the stored weights on the dev set.

    Args:
        translator: the model.
        course: the history of its training, if there is one.
    """
    config, training = translator.config, _mapping(translator.meta.get("training"))
    settings = _mapping(_mapping(training.get("recipe")).get("training"))
    smoothing, steps = settings.get("label_smoothing"), training.get("steps")
    bleu = [score.value for score in own_scores(translator.meta) if (score.part, score.name) == ("dev", "BLEU")]
    known = course is not None and len(course.dev_loss) > 0
    return Variation(
        row=translator.name,
        encoder_layers=config.encoder_layers,
        decoder_layers=config.decoder_layers,
        d_model=config.d_model,
        feed_forward=config.feed_forward,
        heads=config.heads,
        d_k=config.head_width,
        d_v=config.head_width,
        dropout=config.dropout,
        smoothing=_number(smoothing),
        steps=steps if isinstance(steps, int) and steps > 0 else None,
        perplexity=math.exp(min(course.dev_loss.last, 700.0)) if known and course is not None else None,
        bleu=bleu[0] if bleu else None,
        parameters=translator.parameter_count / 1e6,
    )


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _number(value: object) -> float | None:
    """A finite number, or None."""
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not math.isfinite(value):
        return None
    return float(value)
