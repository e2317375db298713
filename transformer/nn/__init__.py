"""The encoder-decoder Transformer, one file per box of the paper's Figure 1."""

from transformer.nn.model import Transformer
from transformer.nn.probe import Probe, Sink, observed, probe_names, register_hooks, watching
from transformer.nn.state import DecoderState

__all__ = ["DecoderState", "Probe", "Sink", "Transformer", "observed", "probe_names", "register_hooks", "watching"]
