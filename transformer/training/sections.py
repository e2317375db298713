"""What a recipe can say: its sections with every value's meaning, unit, default and source.

A recipe is a TOML file with these tables, and [model] with the fields of ``ModelConfig``.
"""

from __future__ import annotations

from dataclasses import dataclass

from transformer.config import LENGTH_PENALTY

GENERATED = "reverse"
"""The corpus that is made, not read."""


@dataclass(frozen=True)
class DataSection:
    """What to learn from: a corpus known by name, or files of one's own."""

    dataset: str = ""
    """"reverse" (generated), or a name that ``python -m transformer data`` knows; empty when files are named below."""
    source: str = ""
    """Own text, one sentence a line, plain or .gz; with ``target`` of as many lines."""
    target: str = ""
    tsv: str = ""
    """Instead of ``source`` and ``target``: one file, source and target in its first two tab-separated columns."""
    dev_source: str = ""
    """Own dev set. Without one, about 1 % of the pairs are held out, chosen by the source sentence (5 %, at least one
    sentence, of a corpus so small that this would be none)."""
    dev_target: str = ""
    source_code: str = "en"
    target_code: str = "de"
    source_language: str = "English"
    target_language: str = "German"
    max_pieces: int = 250
    """Training pairs with a longer side, in pieces, are left out."""
    max_ratio: float = 4.0
    """Training pairs with a larger ratio of lengths in characters are left out."""
    subword_sampling: float = 0.0
    """Segment the training pairs anew in every epoch: for "bpe" the probability of leaving out a merge (BPE-dropout,
    Provilkov et al. 2020; 0.1 there), for "unigram" the sharpness alpha of the draw from all segmentations (Kudo 2018;
    0.1 to 0.5 there). 0 always takes the best segmentation."""
    generated_pairs: int = 20000
    """For "reverse": training pairs made."""
    generated_length: int = 16
    """For "reverse": most letters in a sequence."""


@dataclass(frozen=True)
class TokenizerSection:
    """The joint subword vocabulary."""

    vocab_size: int = 0
    """V, special pieces included; 0 chooses it from the corpus (see ``transformer.text.vocabulary``)."""
    model_type: str = "bpe"
    """"bpe" (the paper, Section 5.1) or "unigram"."""
    character_coverage: float = 1.0
    """Share of the letters of the corpus that get a piece of their own."""


@dataclass(frozen=True)
class TrainingSection:
    """How to learn. Defaults are the paper's where it has them."""

    seed: int = 1
    epochs: int = 40
    """Most passes over the training pairs."""
    batch_tokens: int = 4096
    """Most tokens on either side of a batch, padding included; what memory depends on."""
    accumulate: int = 1
    """Batches whose gradients are added up before an update, in each process. The paper's updates of 25,000 tokens
    (Section 5.1) are about batch_tokens x accumulate x processes."""
    learning_rate: float = 0.0
    """Peak, reached after ``warmup_steps``; 0 is the paper's D^-0.5 * warmup^-0.5 (Section 5.3)."""
    warmup_steps: int = 4000
    """Steps of linear growth; afterwards the rate falls with the inverse square root of the step."""
    beta1: float = 0.9
    beta2: float = 0.98
    epsilon: float = 1e-9
    label_smoothing: float = 0.1
    """The paper's value (Section 5.4)."""
    r_drop: float = 0.0
    """alpha of R-Drop (Liang et al. 2021; 5 for translation there): every batch goes through the model twice, with
    different dropout, and the two predictions are drawn towards each other. A step costs twice as much. 0 is off."""
    r_drop_after: int = 0
    """Updates made without R-Drop, before it begins: early on, when a model is far from anything that dropout could
    disagree about, an update with it gains no more than one without and costs twice as much."""
    source_word_dropout: float = 0.0
    """Probability of hiding a source piece behind ``<UNK>`` (Sennrich et al. 2016, Edinburgh's WMT16 systems: 0.1)."""
    target_word_dropout: float = 0.0
    """The same for the decoder's input (Bowman et al. 2016), never for the labels."""
    clip_norm: float = 1.0
    """The gradient is scaled down to this norm when it is larger; 0 leaves it."""
    precision: str = "auto"
    """"float32", "bfloat16" (autocast), or "auto": bfloat16 where the processor computes it natively."""
    device: str = "auto"
    """"cpu", "cuda", or "auto": CUDA when there is one."""
    compile: bool = False
    """Train with a copy of the model compiled by ``torch.compile``: worth minutes at the start on a GPU, not on a CPU.
    The model that is evaluated and saved is never the compiled one."""
    threads: int = 0
    """CPU threads of PyTorch; 0 leaves PyTorch's own choice."""
    select: str = "bleu"
    """What makes a model the best on dev: "bleu", "exact" (share of sentences right) or "loss"."""
    stop_at: float = 0.0
    """Stop once the selected dev figure (BLEU in points, exact match in per cent) is reached; 0 never does."""
    patience: int = 0
    """Stop after this many dev evaluations without a better one; 0 never does."""
    evaluate_every: int = 1
    """Epochs between two dev evaluations."""
    dev_sentences: int = 2000
    """Dev pairs used, from the first; 0 uses all."""
    dev_beam: int = 1
    """Hypotheses of the search that translates the dev set; 1 is greedy and quick."""
    average: int = 1
    """The final weights are the mean of so many evaluated ones (paper, Section 6.1); 1 takes the best one."""
    average_of: str = "last"
    """"last": the latest ``average`` evaluations; "best": those with the best dev figure."""
    save_minutes: float = 5.0
    """Longest time between two saved states, beside the one at the end of each epoch."""
    log_every: int = 20
    """Steps between two lines of the history."""
    tensorboard: bool = False
    """Write the figures of the history for TensorBoard too, into ``tensorboard/`` of the run; needs that package."""


@dataclass(frozen=True)
class CheckpointSection:
    """What the finished checkpoint says and how it is stored."""

    dtype: str = "float16"
    default: bool = False
    """Whether the app opens this model first."""
    examples: tuple[str, ...] = ()
    """Sentences that the app offers."""
    snapshots: tuple[int, ...] = ()
    """Steps after which the weights are also kept in ``snapshots/``, as float16: how the model looked on the way."""
    length_penalties: tuple[float, ...] = (LENGTH_PENALTY,)
    """Values of alpha, the length penalty of beam search. When training has ended, each is tried on dev with a beam of
    5; the best is what test sets are scored with, and the checkpoint's own from then on."""
    terms: str = ""
    """Terms of the training data, for the model card."""
    about: str = ""
    """What the model can read, in a few words, for the app and the model card: "image captions"."""
