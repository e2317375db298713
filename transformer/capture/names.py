"""Names of the probes that hold attention, by kind and layer (layers count from 0 in names)."""

from __future__ import annotations

from transformer.capture.record import KINDS
from transformer.errors import InputError, problem

_MODULES = {
    "encoder": ("encoder", "self_attn"),
    "decoder": ("decoder", "self_attn"),
    "cross": ("decoder", "cross_attn"),
}


def attention_module(kind: str, layer: int) -> str:
    """The path of one attention in the model, for example ``decoder.2.cross_attn`` for ``("cross", 2)``.

    Raises:
        InputError: a kind other than ``encoder``, ``decoder`` and ``cross``.
    """
    if kind not in _MODULES:
        raise InputError(problem("kind", f"must be one of {', '.join(KINDS)}", kind, "choose one of them"))
    stack, module = _MODULES[kind]
    return f"{stack}.{layer}.{module}"


def attention_probe(kind: str, layer: int, quantity: str = "pattern") -> str:
    """The probe of one attention, for example ``("cross", 2, "scores")`` is ``decoder.2.cross_attn.scores``.

    Raises:
        InputError: as ``attention_module``.
    """
    return f"{attention_module(kind, layer)}.{quantity}"


def stream_probe(kind: str, layer: int) -> str:
    """The probe of the residual stream that enters one attention.

    Raises:
        InputError: as ``attention_module``.
    """
    stack, index, _ = attention_module(kind, layer).split(".")
    return f"{stack}.{index}.{'stream_after_self_attn' if kind == 'cross' else 'stream_in'}"
