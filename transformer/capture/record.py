"""The record of one teacher-forced pass: every attention map, what its axes mean, and whether it can be trusted.

Letters: L layers, H heads, S source length, T target length.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from transformer.errors import InputError, problem

if TYPE_CHECKING:  # a record only holds pieces; it needs nothing of the tokenizer
    from transformer.text.tokenizer import Piece

KINDS = ("encoder", "decoder", "cross")
"""The three kinds of attention: encoder self-attention, decoder masked self-attention, cross-attention."""

FloatArray = NDArray[np.float32]
BoolArray = NDArray[np.bool_]


@dataclass(frozen=True)
class Check:
    """One law that the captured numbers were held to."""

    name: str
    """The law, in a few words."""
    ok: bool
    value: float
    """What was measured: the largest deviation from the law."""
    limit: float
    """The largest ``value`` that passes."""
    detail: str
    """One sentence for a person: what was compared, and how much of it."""


@dataclass(frozen=True, eq=False)
class AttentionRecord:
    """One pass of the model over a source and a target, as read-only numpy arrays without batch axis.

    The decoder is causal, so the maps at step t of decoding are the first t + 1 rows (and, for the decoder's own
    attention, columns) of the maps here. Encoder and decoder may have different numbers of layers.
    """

    source_text: str
    target_text: str
    source: tuple[Piece, ...]
    """S pieces, ``<SOS>`` and ``<EOS>`` included: both axes of ``encoder``, the columns of ``cross``."""
    target_input: tuple[Piece, ...]
    """T pieces, ``<SOS> y1 … yn``, what the decoder reads: both axes of ``decoder``, the rows of ``cross``."""
    target_output: tuple[Piece, ...]
    """T pieces, ``y1 … yn <EOS>``: what each row writes."""
    log_probs: FloatArray
    """[T] natural logarithm of the probability of ``target_output[t]`` at row t."""
    encoder: FloatArray
    """[L, H, S, S]; rows are queries, columns are keys."""
    decoder: FloatArray
    """[L, H, T, T]"""
    cross: FloatArray
    """[L, H, T, S]; rows are target queries, columns are source keys."""
    causal_mask: BoolArray
    """[T, T] the mask that the decoder applied; True means "may attend"."""
    checkpoint_sha256: str
    checks: tuple[Check, ...]
    value_norms: dict[str, FloatArray] = field(default_factory=dict)
    """By kind [L, H, keys]: ||f(x)||, the length of each key's value once W^O of the head has carried it into the
    output (Kobayashi et al. 2020, Section 3). Weight times norm is what a head takes from a key. Empty if unknown."""
    kept_shares: dict[str, FloatArray] = field(default_factory=dict)
    """By kind [L, rows]: the length of what the residual connection carries past the attention, as a share of that and
    the length of what the attention adds (``transformer.capture.residual``). Empty if unknown."""

    def __post_init__(self) -> None:
        for name in ("log_probs", *KINDS, "causal_mask"):
            getattr(self, name).setflags(write=False)
        for known in (*self.value_norms.values(), *self.kept_shares.values()):
            known.setflags(write=False)

    @property
    def source_tokens(self) -> list[str]:
        """Labels of the source axis, length S."""
        return [piece.label for piece in self.source]

    @property
    def target_tokens(self) -> list[str]:
        """Labels of the target axis as the decoder reads it (``target_input``), length T."""
        return [piece.label for piece in self.target_input]

    @property
    def output_tokens(self) -> list[str]:
        """Labels of what each target row writes (``target_output``), length T."""
        return [piece.label for piece in self.target_output]

    @property
    def total_log_prob(self) -> float:
        """Log-probability of the whole target given the source."""
        return float(self.log_probs.astype(np.float64).sum())

    @property
    def ok(self) -> bool:
        """Whether every check holds."""
        return all(check.ok for check in self.checks)

    def attention(self, kind: str) -> FloatArray:
        """The maps of one kind, ``encoder``, ``decoder`` or ``cross``: float32 [L, H, rows, columns].

        Raises:
            InputError: another kind.
        """
        if kind not in KINDS:
            raise InputError(problem("kind", f"must be one of {', '.join(KINDS)}", kind, "choose one of them"))
        maps: FloatArray = getattr(self, kind)
        return maps

    def axes(self, kind: str) -> tuple[tuple[Piece, ...], tuple[Piece, ...]]:
        """The pieces of the rows (queries) and of the columns (keys) of the maps of one kind."""
        self.attention(kind)
        rows = self.source if kind == "encoder" else self.target_input
        columns = self.target_input if kind == "decoder" else self.source
        return rows, columns

    def to_dict(self) -> dict[str, Any]:
        """Everything but the attention maps, the value norms, the kept shares and the mask, as plain JSON values."""
        return {
            "source_text": self.source_text,
            "target_text": self.target_text,
            "source_tokens": self.source_tokens,
            "target_tokens": self.target_tokens,
            "output_tokens": self.output_tokens,
            "source_ids": [piece.id for piece in self.source],
            "target_ids": [piece.id for piece in self.target_input],
            "output_ids": [piece.id for piece in self.target_output],
            "source_spans": [[piece.start, piece.end] for piece in self.source],
            "log_probs": self.log_probs.tolist(),
            "total_log_prob": self.total_log_prob,
            "checkpoint_sha256": self.checkpoint_sha256,
            "ok": self.ok,
            "checks": [
                {"name": c.name, "ok": c.ok, "value": c.value, "limit": c.limit, "detail": c.detail}
                for c in self.checks
            ],
        }
