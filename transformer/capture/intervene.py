"""Change where the decoder looks, through the probes, and see what it would write then.

Letters: L layers of the decoder, H heads, T positions of the decoder input, S source pieces, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np
import torch
from torch import Tensor

from transformer.capture.names import attention_probe
from transformer.capture.record import FloatArray
from transformer.capture.sink import Recorder
from transformer.errors import InputError, problem
from transformer.nn.probe import watching

if TYPE_CHECKING:
    from transformer.nn.model import Transformer


@dataclass(frozen=True)
class Intervention:
    """A change of cross-attention patterns while the model runs. The default changes nothing, bit for bit.

    Raises:
        InputError: a number below 0, or a column that is both muted and forced.
    """

    muted: tuple[int, ...] = ()
    """Source columns that get no weight. What is left of the row is brought back to a sum of one; if nothing is left,
    the row is all zeros and the head brings nothing."""
    forced: int | None = None
    """The source column that gets all the weight."""
    layer: int | None = None
    """From 0; None is every layer of the decoder."""
    head: int | None = None
    """From 0; None is every head."""
    row: int | None = None
    """The position of the decoder that it happens to, from 0; None is the last one."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "muted", tuple(self.muted))
        numbers = [("muted", column) for column in self.muted]
        numbers += [(name, getattr(self, name)) for name in ("forced", "layer", "head", "row")]
        for name, value in numbers:
            if value is not None and (not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < 0):
                raise InputError(problem(name, "must be a whole number of at least 0", value, "count from 0"))
        if self.forced in self.muted:
            remedy = "leave one of the two out"
            raise InputError(problem("forced", "must not be a muted column", self.forced, remedy))

    @property
    def changes_nothing(self) -> bool:
        """Whether it is no intervention at all."""
        return not self.muted and self.forced is None


def forced_pass(
    model: Transformer, source_ids: Sequence[int], target_ids: Sequence[int], intervention: Intervention | None = None
) -> tuple[Tensor, FloatArray]:
    """Run the model once over a source and a decoder input, with the explicit softmax.

    Args:
        model: one whose hooks are registered.
        source_ids: S ids with ``<SOS>`` and ``<EOS>``.
        target_ids: T ids of the decoder input, ``<SOS>`` first.
        intervention: what to change on the way.

    Returns:
        Log-probabilities [T, V] float32 of the next piece at every position, and the cross-attention [L, H, T, S] that
        the model used, the intervention in it.

    Raises:
        InputError: the intervention names a layer, head, row or column that is not there.
    """
    layers = model.config.decoder_layers
    sink = _Intervening(layers, intervention or Intervention())
    sink.refuse(layers, model.config.heads, len(target_ids), len(source_ids))
    if model.training:
        raise RuntimeError("the model must be in evaluation mode: dropout would show in its numbers")
    device = next(model.parameters()).device
    source = torch.tensor([list(source_ids)], dtype=torch.int64, device=device)
    target = torch.tensor([list(target_ids)], dtype=torch.int64, device=device)
    with torch.inference_mode(), watching(sink):
        log_probs = torch.log_softmax(model(source, target)[0].float(), dim=-1)
    return log_probs, cast(FloatArray, np.stack([sink.recorder.values[name][0] for name in sink.names]))


class _Intervening:
    """A sink that changes cross-attention patterns and keeps copies of what became of them."""

    def __init__(self, layers: int, intervention: Intervention) -> None:
        self.names = [attention_probe("cross", layer) for layer in range(layers)]
        self.recorder = Recorder(self.names)
        self._intervention = intervention

    def refuse(self, layers: int, heads: int, rows: int, columns: int) -> None:
        """Refuse an intervention that points outside of the maps."""
        wanted = self._intervention
        pointers = [("layer", wanted.layer, layers), ("head", wanted.head, heads), ("row", wanted.row, rows)]
        pointers += [(name, column, columns) for name, column in (("forced", wanted.forced), *self._muted())]
        for name, value, count in pointers:
            if value is not None and value >= count:
                raise InputError(problem(name, f"must be below {count}", value, "choose one that is there"))

    def _muted(self) -> list[tuple[str, int | None]]:
        return [("muted", column) for column in self._intervention.muted]

    def wants(self, name: str) -> bool:
        """Whether it is a cross-attention pattern."""
        return self.recorder.wants(name)

    def receive(self, name: str, value: Tensor) -> Tensor | None:
        """Change the pattern [B, H, T, S] if it is one of those meant."""
        wanted = self._intervention
        if wanted.changes_nothing or (wanted.layer is not None and name != self.names[wanted.layer]):
            self.recorder.receive(name, value)
            return None
        value = value.clone()
        heads = slice(None) if wanted.head is None else slice(wanted.head, wanted.head + 1)
        row = value.size(2) - 1 if wanted.row is None else wanted.row
        value[:, heads, row] = _changed(value[:, heads, row], wanted)
        self.recorder.receive(name, value)
        return value


def _changed(rows: Tensor, intervention: Intervention) -> Tensor:
    """[..., S] -> [..., S]"""
    if intervention.forced is not None:
        forced = torch.zeros_like(rows)
        forced[..., intervention.forced] = 1.0
        return forced
    left = rows.clone()
    left[..., list(intervention.muted)] = 0.0
    total = left.sum(dim=-1, keepdim=True)
    return torch.where(total > 0, left / total, torch.zeros_like(left))
