"""What a model and a step of training cost: parameters, floating-point operations, memory."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import torch

from transformer.config import ModelConfig
from transformer.training.loss import ROWS


def parameter_count(config: ModelConfig) -> int:
    """Trainable numbers of a model of this shape, tied matrices counted once.

    With the paper's 37,000 pieces ``base`` has 63.1 and ``big`` 214.2 million; its Table 3 says 65 and 213.
    """
    d, f = config.d_model, config.feed_forward
    attention, feed_forward, norm = 4 * (d * d + d), 2 * d * f + f + d, 2 * d
    matrices = {"all": 1, "target": 2, "none": 3}[config.tie_embeddings]
    return (
        config.encoder_layers * (attention + feed_forward + 2 * norm)
        + config.decoder_layers * (2 * attention + feed_forward + 3 * norm)
        + (2 * norm if config.norm_first else 0)
        + matrices * config.vocab_size * d
        + (2 * config.max_length * d if config.positions == "learned" else 0)
    )


def forward_flops(config: ModelConfig, source_length: float, target_length: float) -> float:
    """Floating-point operations of the forward pass of one pair, a multiplication and an addition counted as two.

    Counted are the matrix products: projections, scores, weighted values, feed-forward, and the map to the vocabulary,
    all of them at full lengths, the half of the scores that the causal mask hides too. That is the convention of the
    model FLOPs utilisation (Chowdhery et al. 2022, "PaLM", Appendix B; it too counts a lookup of an embedding as
    nothing), which is a property of the model and not of how the kernels compute it.

    Args:
        config: the shape.
        source_length: S, special pieces included.
        target_length: T, ``<SOS>`` included.
    """
    d, s, t = config.d_model, source_length, target_length
    feed_forward = 4 * d * config.feed_forward
    encoder_layer = s * (8 * d * d + feed_forward) + 4 * d * s * s
    # Queries and outputs of both attentions, keys and values of the masked one: six d x d matrices for a target piece.
    decoder_layer = t * (12 * d * d + feed_forward) + s * 4 * d * d + 4 * d * t * t + 4 * d * t * s
    return config.encoder_layers * encoder_layer + config.decoder_layers * decoder_layer + 2 * d * config.vocab_size * t


def training_flops(config: ModelConfig, source_length: float, target_length: float) -> float:
    """Operations of training on one pair: the backward pass has two products for each one of the forward pass.

    What is computed twice to save memory does not count (Chowdhery et al. 2022, Appendix B).
    """
    return 3 * forward_flops(config, source_length, target_length)


def batch_flops(config: ModelConfig, rows: int, source_length: float, target_length: float) -> float:
    """Operations of training on a batch of B = ``rows`` pairs, padded to S and T, padding counted as if it were text.

    With the mean real lengths instead (``source_tokens / rows``, ``target_tokens / rows``) it is what the real pieces
    need: exactly if all pairs are equally long, otherwise slightly less, because attention grows with the square.
    """
    return rows * training_flops(config, source_length, target_length)


def mfu(flops: float, seconds: float, peak: float) -> float:
    """Model FLOPs utilisation: the share of ``peak`` (per second, of all devices) that ``flops`` in ``seconds`` are."""
    return flops / (max(seconds, 1e-9) * peak)


@dataclass(frozen=True)
class Card:
    """Published peaks of a GPU in TFLOP/s: dense matrix products, accumulated in float32; 0 where it has no unit."""

    words: tuple[str, ...]
    """All of them stand in the name that CUDA gives."""
    float16: float
    bfloat16: float
    tensor_float: float
    float32: float


# NVIDIA prints some figures with 2:4 sparsity, which are twice as high; these are the dense ones.
CARDS = (
    # Volta: V100 datasheet (2020), no bfloat16, no TF32
    Card(("v100", "sxm2"), 125.0, 0.0, 0.0, 15.7),
    Card(("v100", "pcie"), 112.0, 0.0, 0.0, 14.0),
    Card(("v100s", "pcie"), 130.0, 0.0, 0.0, 16.4),
    # Turing: T4 datasheet (2019)
    Card(("t4",), 65.0, 0.0, 0.0, 8.1),
    # Ampere: A100 and A10 datasheets (2021); GA102 whitepaper, Table 9, for the RTX 3090
    Card(("a100",), 312.0, 312.0, 156.0, 19.5),
    Card(("a10",), 125.0, 125.0, 62.5, 31.2),
    Card(("rtx", "3090"), 71.0, 71.0, 35.6, 35.6),
    # Ada: L4 and L40S datasheets (2023); Ada whitepaper, Appendix A, for the RTX 4090
    Card(("l4",), 121.0, 121.0, 60.0, 30.3),
    Card(("l40s",), 362.0, 362.0, 183.0, 91.6),
    Card(("rtx", "4090"), 165.2, 165.2, 82.6, 82.6),
    # Hopper: H100 whitepaper, Table 2, and H100 and H200 datasheets. The SXM board is named after its memory.
    Card(("h100", "nvl"), 835.5, 835.5, 417.5, 60.0),
    Card(("h100", "pcie"), 756.0, 756.0, 378.0, 51.0),
    Card(("h100", "hbm3"), 989.4, 989.4, 494.7, 67.0),
    Card(("h200", "nvl"), 835.5, 835.5, 417.5, 60.0),
    Card(("h200",), 989.5, 989.5, 494.5, 67.0),
    # Blackwell: datasheet of HGX B200, an eighth of its eight
    Card(("b200",), 2250.0, 2250.0, 1100.0, 75.0),
)
_OTHER = {"mig", "grid", "laptop", "ti", "d", "max", "q", "super"}
"""Words of a name that say: part of a card, or another one than the name without them."""


def peak_flops(device_name: str, dtype: torch.dtype, tensor_float: bool | None = None) -> float | None:
    """Most operations per second that the vendor promises for dense matrix products on a device.

    Args:
        device_name: as ``torch.cuda.get_device_name`` says it: "NVIDIA A100-SXM4-80GB".
        dtype: of the factors: bfloat16, float16 or float32.
        tensor_float: whether float32 products may use the TF32 units, where there are some; PyTorch's present setting
            if left out.

    Returns:
        None if the device is not known, is no GPU, is part of one, or has no unit for the dtype: then there is no
        utilisation to show.
    """
    words = set(re.split(r"[^a-z0-9]+", device_name.lower()))
    if words & _OTHER:
        return None
    card = next((card for card in CARDS if words.issuperset(card.words)), None)
    if card is None:
        return None
    if tensor_float is None:
        tensor_float = torch.get_float32_matmul_precision() != "highest"
    tera = {
        torch.float16: card.float16,
        torch.bfloat16: card.bfloat16,
        torch.float32: (tensor_float and card.tensor_float) or card.float32,
    }.get(dtype, 0.0)
    return tera * 1e12 or None


@dataclass(frozen=True)
class Memory:
    """Bytes that training needs, by what they hold."""

    weights: int
    gradients: int
    moments: int
    """Adam's two."""
    activations: int
    """What the forward pass keeps for the backward pass."""
    working: int
    """The largest tensors that come and go: of the loss, or of one layer."""
    holes: int
    """What the allocator holds without anything being in it."""
    kernels: int
    """Programs that oneDNN makes for products of every new shape, and keeps."""

    @property
    def total(self) -> int:
        """All of it at once."""
        return sum(vars(self).values())


def training_memory(
    config: ModelConfig,
    batch_tokens: int,
    source_length: int,
    target_length: int,
    bfloat16: bool = False,
    on_gpu: bool = False,
    shapes: int = 1,
) -> Memory:
    """An estimate of the bytes that a step of training needs, beside what the program itself takes.

    Activations are added up from what each layer keeps, and are PyTorch's own to two per cent on a CPU. The rest is
    rougher: on a CPU the heap has holes of about half of their size, and in bfloat16 oneDNN's programs take about
    150 MB * (sqrt(shapes) - 1). The peak of resident memory, measured in float32 and bfloat16, was 0.92 to 1.15 times
    the estimate for batches of one shape (tiny, small, base; 12 to 200 pieces), and 0.92 to 1.31 times for all shapes
    of Multi30k. Not compared with a GPU yet.

    Args:
        config: the shape.
        batch_tokens: padded positions of the longer side of a batch.
        source_length: S, of every row.
        target_length: T.
        bfloat16: whether autocast is on.
        on_gpu: there the fused kernel keeps no pattern (unless ``attention_dropout`` needs one), dropout masks take a
            byte, and norms are float32.
        shapes: how many different shapes batches have.
    """
    d, v, size = config.d_model, config.vocab_size, 2 if bfloat16 else 4
    encoders, decoders = config.encoder_layers, config.decoder_layers
    rows = max(1, batch_tokens // max(source_length, target_length))
    mask = 1 if on_gpu else size
    # Every sublayer keeps its input, its dropout mask, the sum that its norm reads, and that one's mean and deviation;
    # attention keeps queries, keys, values and mixed heads, and a fused kernel its own copy of the last.
    normed = d * (4 if on_gpu else size) + 8
    sublayer = d * (size + (mask if config.dropout else 0)) + normed
    fused = on_gpu and not config.attention_dropout
    mixed = d * size * (2 if fused else 1)
    inner = _inner_bytes(config, size, mask)
    # At both ends of a stack: the ids, the mask, and what a last norm needs.
    embedded = 8 + (d * mask if config.dropout else 0) + (normed if config.norm_first else 0)
    source = encoders * (2 * sublayer + mixed + 3 * d * size + inner) + decoders * 2 * d * size + d * size + embedded
    target = decoders * (3 * sublayer + 2 * mixed + 4 * d * size + inner) + d * size + embedded
    # The softmax is float32 in any case; a bfloat16 copy of it, or mask and product of dropout, go into the product.
    behind = size + mask if config.attention_dropout else size if bfloat16 else 0
    weight = 0 if fused else 4 + behind
    squares = encoders * source_length**2 + decoders * target_length * (target_length + source_length)
    # Copies of weights: all in bfloat16 under autocast, otherwise those that were joined for one product.
    copies = encoders * 3 * d * d + decoders * 6 * d * d
    if bfloat16:
        copies = encoders * 4 * d * d + decoders * 8 * d * d + (encoders + decoders) * 2 * d * config.feed_forward
    activations = (
        rows * (source_length * source + target_length * target + config.heads * squares * weight) + copies * size
    )
    # Working space: of the loss (rows and their gradient, chunks of logits, gradients of the output matrix), or the
    # few largest tensors of one layer.
    loss = (
        2 * rows * target_length * d * size
        + min(ROWS, rows * target_length) * v * (4 + size * bfloat16)
        + v * d * (8 + size * bfloat16)
    )
    longest = max(source_length, target_length)
    layer = 3 * rows * longest * max(4 * config.heads * longest * (not fused), config.feed_forward * size)
    parameters = 4 * parameter_count(config)
    holes = 0 if on_gpu else activations // 2
    kernels = round(150e6 * (math.sqrt(shapes) - 1.0)) if bfloat16 and not on_gpu else 0
    return Memory(parameters, parameters, 2 * parameters, activations, max(loss, layer), holes, kernels)


def _inner_bytes(config: ModelConfig, size: int, mask: int) -> int:
    """What the feed-forward network keeps of a row: values before (for gelu) and behind the activation, and of
    dropout."""
    kept = 1 if config.activation == "relu" else 2
    if config.activation_dropout:
        return config.feed_forward * (2 * size + mask)
    return config.feed_forward * kept * size
