"""Points of the model that can be looked at, and the one way to look.

A ``Probe`` is an identity module; its dotted path in the model ("encoder.2.self_attn.pattern") is its public name.
Hooks are registered once, when a model is loaded, and are silent until a sink is put into a context variable. A sink
belongs to the thread (or task) that set it, so a model shared by many users never mixes what they see.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

from torch import Tensor, nn


class Sink(Protocol):
    """What looks at a forward pass."""

    def wants(self, name: str) -> bool:
        """Whether values of the probe called ``name`` are of interest."""

    def receive(self, name: str, value: Tensor) -> Tensor | None:
        """Take a value. Returning a tensor replaces the value in the computation (an intervention); None leaves it."""


_SINK: ContextVar[Sink | None] = ContextVar("transformer_sink", default=None)
_HOOKED = "_probe_hooks_registered"


class Probe(nn.Module):
    """An identity with a name. Costs one module call when nobody looks."""

    def forward(self, value: Tensor) -> Tensor:
        return value


def observed() -> bool:
    """Whether a sink is active in this context; attention then computes its pattern explicitly."""
    return _SINK.get() is not None


@contextmanager
def watching(sink: Sink) -> Iterator[None]:
    """Let ``sink`` see every forward pass made in this context: ``with watching(sink): model(...)``."""
    token = _SINK.set(sink)
    try:
        yield
    finally:
        _SINK.reset(token)


def register_hooks(model: nn.Module) -> None:
    """Put an ordinary forward hook on every probe of ``model``. Doing it twice changes nothing."""
    if getattr(model, _HOOKED, False):
        return
    for name, module in model.named_modules():
        if isinstance(module, Probe):
            module.register_forward_hook(_hook_named(name))
    setattr(model, _HOOKED, True)


def probe_names(model: nn.Module) -> list[str]:
    """The public names of all probes, in the order of the modules."""
    return [name for name, module in model.named_modules() if isinstance(module, Probe)]


def _hook_named(name: str) -> Callable[[nn.Module, tuple[Tensor, ...], Tensor], Tensor | None]:
    def hook(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor | None:
        sink = _SINK.get()
        if sink is None or not sink.wants(name):
            return None
        return sink.receive(name, output)

    return hook
