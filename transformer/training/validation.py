"""The figures of a model on the dev set while it trains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from transformer.decoding.options import SearchOptions
from transformer.nn.model import Transformer
from transformer.text.corpus import Pair
from transformer.text.tokenizer import Tokenizer
from transformer.training.evaluate import bleu, chrf, dev_loss, exact_match, translate_pairs
from transformer.training.sections import TrainingSection

SAMPLES = 3


@dataclass(frozen=True)
class DevFigures:
    """What one evaluation on dev found."""

    loss: float
    """Mean negative log-likelihood per target piece, in nats, without smoothing."""
    bleu: float
    chrf: float
    exact: float
    """Sentences that equal their reference, in per cent."""
    signature: str
    """Of the BLEU, with the width of the beam."""
    samples: list[dict[str, str]]
    """Source, reference and output of some sentences, the same ones every time."""

    def to_dict(self) -> dict[str, Any]:
        """The values for a line of the history."""
        return {
            "dev_loss": self.loss,
            "dev_bleu": round(self.bleu, 2),
            "dev_chrf": round(self.chrf, 2),
            "dev_exact": round(self.exact, 2),
            "signature": self.signature,
            "samples": self.samples,
        }


def validate(model: Transformer, tokenizer: Tokenizer, dev: Sequence[Pair], settings: TrainingSection) -> DevFigures:
    """Translate the dev set with the product's own decoder, and score the outputs and the references' likelihood."""
    examples = [(tokenizer.encode(pair.source), tokenizer.encode_target(pair.target)) for pair in dev]
    loss = dev_loss(model, examples, settings.batch_tokens)
    options = SearchOptions(beam_size=settings.dev_beam, max_extra=20)
    outputs = translate_pairs(model, tokenizer, dev, options)
    references = [pair.target for pair in dev]
    score = bleu(outputs, [references])
    places = range(0, len(dev), max(1, len(dev) // SAMPLES))
    return DevFigures(
        loss=loss,
        bleu=score.value,
        chrf=chrf(outputs, [references]).value,
        exact=exact_match(outputs, references).value,
        signature=f"{score.signature}|beam:{settings.dev_beam}",
        samples=[{"source": dev[i].source, "reference": references[i], "output": outputs[i]} for i in places[:SAMPLES]],
    )
