"""The laws that a captured pass is held to before anything of it is drawn. Pure numpy.

The captured pass ran on sequences with a few ``<PAD>`` pieces behind them, so that "nothing on padding" is measured
and not assumed. Arrays here are still padded: S' >= S columns, T' >= T rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from transformer.capture.record import KINDS, Check

ROW_SUM_LIMIT = 1e-5
"""float32 softmax over up to some hundred keys is off by about 1e-7 an addition."""
KERNEL_LIMIT = 1e-4
"""Two orders of summation through a dozen float32 layers differ by about 1e-6 of the largest logit; a wrong mask or
scale differs by more than 1e-2."""


@dataclass(frozen=True)
class CapturedPass:
    """The raw numbers of one explicit pass on padded input and one fused pass on the same input without padding."""

    maps: dict[str, NDArray[np.float32]]
    """By kind; ``encoder`` [L, H, S', S'], ``decoder`` [L, H, T', T'], ``cross`` [L, H, T', S']."""
    causal_masks: NDArray[np.bool_]
    """[L, T', T'] the mask of every layer's masked self-attention."""
    source_length: int
    """S"""
    target_length: int
    """T"""
    explicit_logits: NDArray[np.float32]
    """[T, V]"""
    fused_logits: NDArray[np.float32]
    """[T, V]"""
    value_norms: dict[str, NDArray[np.float32]]
    """By kind [L, H, S' or T']."""

    def real(self, kind: str) -> NDArray[np.float32]:
        """The maps of one kind without padding."""
        rows, columns = self.lengths(kind)
        return self.maps[kind][:, :, :rows, :columns]

    def real_norms(self, kind: str) -> NDArray[np.float32]:
        """The norms of one kind without padding."""
        return self.value_norms[kind][:, :, : self.lengths(kind)[1]]

    def lengths(self, kind: str) -> tuple[int, int]:
        """Real rows and real columns of one kind."""
        rows = self.source_length if kind == "encoder" else self.target_length
        columns = self.target_length if kind == "decoder" else self.source_length
        return rows, columns


def run_checks(passed: CapturedPass, source_tokens: Sequence[str], target_tokens: Sequence[str]) -> tuple[Check, ...]:
    """Measure every law of a captured pass, given the labels that its axes will carry."""
    return (
        _rows_sum_to_one(passed),
        _nothing_above_the_diagonal(passed),
        _nothing_on_padding(passed),
        _axes_match(passed, source_tokens, target_tokens),
        _explicit_equals_fused(passed),
        _mask_is_causal(passed),
        _all_finite(passed),
    )


def _check(name: str, value: float, limit: float, detail: str) -> Check:
    return Check(name, bool(value <= limit), value, limit, detail)  # NaN fails


def _largest(values: NDArray[np.generic]) -> float:
    """Largest absolute value; 0 for nothing, NaN if there is one."""
    return float(np.max(np.abs(values))) if values.size else 0.0


def _rows_sum_to_one(passed: CapturedPass) -> Check:
    errors = [_largest(passed.real(kind).sum(axis=-1, dtype=np.float64) - 1.0) for kind in KINDS]
    value = float(np.max(errors))
    rows = sum(int(np.prod(passed.real(kind).shape[:3])) for kind in KINDS)
    return _check(
        "rows sum to one",
        value,
        ROW_SUM_LIMIT,
        f"Of {rows:,} rows of attention over the real pieces, the sum furthest from one is off by {value:.1e}.",
    )


def _nothing_above_the_diagonal(passed: CapturedPass) -> Check:
    length = passed.target_length
    above = np.triu(np.ones((length, length), dtype=bool), k=1)
    value = _largest(passed.real("decoder")[..., above])
    return _check(
        "nothing above the diagonal",
        value,
        0.0,
        f"The largest weight of the decoder's self-attention on a later piece is {value:.1e}; it must be exactly zero.",
    )


def _nothing_on_padding(passed: CapturedPass) -> Check:
    weights = []
    for kind in KINDS:
        rows, columns = passed.lengths(kind)
        weights.append(passed.maps[kind][:, :, :rows, columns:].ravel())
    on_padding = np.concatenate(weights)
    value = _largest(on_padding)
    if on_padding.size:
        detail = f"The largest of {on_padding.size:,} weights on padding added for this check is {value:.1e}."
    else:
        detail = "The sentences fill the model's whole length, so no padding could be added for this check."
    return _check("nothing on padding", value, 0.0, detail)


def _axes_match(passed: CapturedPass, source_tokens: Sequence[str], target_tokens: Sequence[str]) -> Check:
    wrong = 0
    for kind in KINDS:
        rows = len(source_tokens if kind == "encoder" else target_tokens)
        columns = len(target_tokens if kind == "decoder" else source_tokens)
        wrong += passed.real(kind).shape[2:] != (rows, columns)
    return _check(
        "axes match the pieces",
        float(wrong),
        0.0,
        f"{len(source_tokens)} source and {len(target_tokens)} target pieces label the axes; {wrong} kinds differ.",
    )


def _explicit_equals_fused(passed: CapturedPass) -> Check:
    difference = _largest(passed.explicit_logits - passed.fused_logits)
    value = difference / max(1.0, _largest(passed.fused_logits))
    return _check(
        "explicit equals fused",
        value,
        KERNEL_LIMIT,
        "Logits of this pass (explicit softmax, padded) and of an unobserved one (fused kernel, not padded) differ by "
        f"at most {difference:.1e}, that is {value:.1e} of the largest.",
    )


def _mask_is_causal(passed: CapturedPass) -> Check:
    length = passed.target_length
    lower = np.tril(np.ones((length, length), dtype=bool))
    wrong = int((passed.causal_masks[:, :length, :length] != lower).sum())
    return _check(
        "causal mask is the lower triangle",
        float(wrong),
        0.0,
        f"In {len(passed.causal_masks)} layers, {wrong} mask entries differ from the lower triangle of {length} rows.",
    )


def _all_finite(passed: CapturedPass) -> Check:
    arrays = [*(passed.real(kind) for kind in KINDS), *(passed.real_norms(kind) for kind in KINDS)]
    arrays += [passed.explicit_logits, passed.fused_logits]
    wrong = sum(int((~np.isfinite(array)).sum()) for array in arrays)
    count = sum(array.size for array in arrays)
    return _check("all finite", float(wrong), 0.0, f"{wrong} of {count:,} weights, norms and logits are not finite.")
