"""A vocabulary size that fits a corpus, for recipes that name none.

A large vocabulary makes sequences short, but its rare pieces are seen too seldom to be learned. Gowda and May 2020
("Finding the Optimal Vocabulary Size for Neural Machine Translation") advise the largest vocabulary whose pieces are
nearly all frequent: 95 % of them seen 100 times or more. Ding et al. 2019 ("A Call for Prudent Choice of Subword Merge
Operations in Neural Machine Translation") find too that small corpora want few merges. The rule here has the same form
and a milder threshold: the largest vocabulary of whose merged pieces half occur at least ``OFTEN`` times. Our own
measurement on 29,000 pairs of captions sets it (docs/experiments.md): 4,000 pieces were worse there than 8,000 or
10,000, while 95 % and 100 would allow fewer than 1,000.
"""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Iterable

import numpy as np
import sentencepiece

from transformer.config import EOS_ID, PAD_ID, SOS_ID, SPECIAL_PIECES, UNK_ID
from transformer.errors import ConfigError, problem
from transformer.text.tokenizer import MODEL_TYPES

OFTEN = 25
"""How often at least half of the merged pieces occur in the corpus."""
LARGEST = 32_000
"""No corpus gets more pieces, unless it has more characters. (The paper's two corpora have 37,000 and 32,000.)"""
STEP = 64
"""Sizes from 1,024 on are multiples of it, which GPUs multiply fastest."""

_EXACT = 0.05
"""The search stops when the median count, or the size, is right to this share of it."""
_POWER = 0.6
"""For natural text: twice as many words give about 2^0.6 times as many pieces, and among twice as many pieces the
median count is smaller by about 2^(1 / 0.6)."""
_PIECES_PER_WORD = 2.3
"""The first guess is so much times words^0.6: near the answer for Multi30k and Tatoeba. It decides the time only."""
_LONGEST_LINE = 4192
"""sentencepiece skips lines of more bytes."""
_SURROGATE = re.compile("[\ud800-\udfff]")


def choose_vocab_size(lines: Iterable[str], character_coverage: float = 1.0, model_type: str = "bpe") -> int:
    """A size of the joint vocabulary for the lines of both languages, special pieces included.

    ``train_tokenizer`` can always make that many pieces from these lines with the same two options. The same lines give
    the same size. BPE is learned a few times, from the counts of the distinct words: about a second for a million
    words. (In text without spaces no words repeat, and it takes a few times as long as training the tokenizer.)

    Args:
        lines: sentences. If none has any text the size is 5, the smallest there is.
        character_coverage: share of the letters that get a piece of their own.
        model_type: "bpe" or "unigram"; the pieces counted are those of BPE either way.

    Raises:
        ConfigError: an option out of range.
    """
    if model_type not in MODEL_TYPES:
        raise ConfigError(problem("model_type", f"must be one of {', '.join(MODEL_TYPES)}", model_type, "choose one"))
    if not 0.98 <= character_coverage <= 1.0:  # sentencepiece's own limit
        raise ConfigError(problem("character_coverage", "must be from 0.98 to 1", character_coverage, "1.0 keeps all"))
    words = _count_words(lines)
    try:
        smallest = _learn(words, "char", 2**20, character_coverage).get_piece_size()
    except RuntimeError:  # no text, or only characters that are no letters to sentencepiece
        return len(SPECIAL_PIECES) + 1
    size = _search(words, smallest, character_coverage)
    if model_type == "unigram":
        most = _learn(words, "unigram", size, character_coverage).get_piece_size()
        if most < size:  # its limit depends a little on the order of the lines, which is not kept here
            size = max(int(0.95 * most), smallest)
    return max(size - size % STEP, smallest) if size >= 1024 else size


def _count_words(lines: Iterable[str]) -> Counter[str]:
    """What stands between spaces, with the lines read as ``train_tokenizer`` reads them."""
    words: Counter[str] = Counter()
    for line in lines:
        if 4 * len(line) <= _LONGEST_LINE or len(line.encode("utf-8", "replace")) <= _LONGEST_LINE:
            words.update(line.replace("▁", " ").strip().replace("\t", " ").split(" "))
    for word in [word for word in words if _SURROGATE.search(word)]:
        words[_SURROGATE.sub("\ufffd", word)] += words.pop(word)
    del words[""]
    return words


def _search(words: Counter[str], smallest: int, character_coverage: float) -> int:
    """The largest size that the rule allows, at least ``smallest``, to within a few per cent."""
    allowed, refused = smallest, LARGEST + 1
    size = int(_PIECES_PER_WORD * words.total() ** _POWER)
    while refused - allowed > max(1.0, _EXACT * allowed):
        size = min(max(size, allowed + 1), refused - 1)
        processor = _learn(words, "bpe", size, character_coverage)
        if processor.get_piece_size() < size:  # there is nothing more to merge in this corpus
            size, refused = processor.get_piece_size(), processor.get_piece_size() + 1
        median = _median_count(processor, words)
        if median >= OFTEN:
            allowed = size
            if median < OFTEN * (1.0 + _EXACT):
                break
        else:
            refused = size
        # Where the median should be right, or if that is known already to be wrong, halfway.
        size = int(size * (max(median, 1.0) / (OFTEN * (1.0 + _EXACT / 2))) ** _POWER)
        if not allowed < size < refused:
            size = int((allowed * refused) ** 0.5)
    return allowed


def _median_count(processor: sentencepiece.SentencePieceProcessor, words: Counter[str]) -> float:
    """How often at least half of the pieces of more than one letter occur when the words are encoded."""
    encoded = processor.encode(list(words))
    lengths = np.fromiter(map(len, encoded), dtype=np.int64, count=len(encoded))
    ids = np.fromiter((number for row in encoded for number in row), dtype=np.int64, count=int(lengths.sum()))
    weights = np.repeat(np.fromiter(words.values(), dtype=np.float64, count=len(words)), lengths)
    counts = np.bincount(ids, weights, minlength=processor.get_piece_size())
    pieces = range(len(SPECIAL_PIECES), processor.get_piece_size())
    merged = [number for number in pieces if len(processor.id_to_piece(number)) > 1]
    return float(np.median(counts[merged])) if merged else 0.0


def _learn(
    words: Counter[str], model_type: str, vocab_size: int, character_coverage: float
) -> sentencepiece.SentencePieceProcessor:
    """A model with at most ``vocab_size`` pieces, as ``train_tokenizer`` would learn it from the whole lines."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=(f"{word}\t{count}" for word, count in words.items()),
        input_format="tsv",
        model_writer=model,
        model_type=model_type,
        vocab_size=vocab_size,
        hard_vocab_limit=False,
        character_coverage=character_coverage,
        pad_id=PAD_ID,
        unk_id=UNK_ID,
        bos_id=SOS_ID,
        eos_id=EOS_ID,
        pad_piece=SPECIAL_PIECES[PAD_ID],  # a name that stands in the text gives its letters no pieces
        unk_piece=SPECIAL_PIECES[UNK_ID],
        bos_piece=SPECIAL_PIECES[SOS_ID],
        eos_piece=SPECIAL_PIECES[EOS_ID],
        num_threads=1,
        minloglevel=2,
    )
    return sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
