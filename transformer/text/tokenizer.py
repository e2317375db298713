"""Subword pieces shared by both languages (paper, Section 5.1), and where in the typed text each piece came from.

A joint sentencepiece model with ``<PAD> <UNK> <SOS> <EOS>`` at ids 0 to 3. sentencepiece normalises what it reads
(full-width letters, ligatures, runs of spaces); its offsets are mapped back, so a span belongs to the text as typed.
"""

from __future__ import annotations

import hashlib
import io
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import sentencepiece

from transformer.config import EOS_ID, PAD_ID, SOS_ID, SPECIAL_PIECES, UNK_ID
from transformer.errors import CheckpointError, ConfigError, DataError, InputError, problem

MODEL_TYPES = ("bpe", "unigram")

_SPACE = "▁"  # U+2581, the sign that sentencepiece writes for a space
_UNKNOWN_SURFACE = "⁇"
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class Piece:
    """One subword as the model sees it and as a person reads it."""

    id: int
    raw: str
    """sentencepiece's own spelling, "▁" for a space: "▁Man", "ner"."""
    label: str
    """For people: "Man" begins a word, "·ner" continues one, "␣" is a space alone; unknown letters as typed."""
    start: int
    """First character of the piece in its text, the space before a word left out; specials have an empty span."""
    end: int
    unknown: bool = False
    special: bool = False


class Tokenizer:
    """Turns text into piece ids and back. It never changes after it was made, so threads may share it."""

    def __init__(self, data: bytes) -> None:
        self._data = bytes(data)
        self._processor = _processor(self._data)
        self.fingerprint: str = hashlib.sha256(self._data).hexdigest()
        """sha256 of the model file, in hexadecimal."""
        self.vocab_size: int = self._processor.get_piece_size()
        """V, the four special pieces included."""

    @classmethod
    def from_bytes(cls, data: bytes) -> Tokenizer:
        """Build from the bytes of a sentencepiece model.

        Raises:
            CheckpointError: the bytes are no such model, or its special pieces are not the project's.
        """
        return cls(data)

    @classmethod
    def load(cls, path: Path | str) -> Tokenizer:
        """Read a ``tokenizer.model`` file.

        Raises:
            CheckpointError: the file is missing, damaged, or no tokenizer of this project.
        """
        try:
            data = Path(path).read_bytes()
        except OSError as error:
            raise CheckpointError(
                problem("tokenizer file", "must be readable", str(path), f"check the path ({error.strerror})")
            ) from error
        try:
            return cls(data)
        except CheckpointError as error:
            raise CheckpointError(f"{path}: {error}") from error

    def to_bytes(self) -> bytes:
        """The sentencepiece model file, byte for byte what ``from_bytes`` was given."""
        return self._data

    def encode(self, text: str) -> list[int]:
        """Ids of a source sentence: ``<SOS>``, its pieces, ``<EOS>``. Nothing typed can become a special piece."""
        return [SOS_ID, *self.encode_target(text), EOS_ID]

    def encode_target(self, text: str) -> list[int]:
        """Ids of the pieces alone, as training targets are kept; the loader adds ``<SOS>`` or ``<EOS>``."""
        return list(self._processor.encode(_readable(text)))

    def normalise(self, text: str) -> str:
        """What the pieces of a text spell together, "▁" for a space: "Ａ  man" gives "▁A▁man"."""
        return str(self._processor.normalize(_readable(text)))

    def vocabulary(self) -> list[tuple[str, float]]:
        """Spelling and score of every piece, in the order of their ids, specials included.

        The scores of BPE are 0, -1, -2 and so on, the first merge the best; those of unigram are logs of probabilities.
        """
        return [(self._processor.id_to_piece(i), self._processor.get_score(i)) for i in range(self.vocab_size)]

    def pieces(self, text: str) -> tuple[Piece, ...]:
        """``<SOS>``, pieces, ``<EOS>`` of a text with their spans in it; the same ids as ``encode``.

        Spans are in order and never overlap. A single letter that normalises to several pieces ("½" is 1, ⁄, 2) has its
        span on the last of them, the others are empty.
        """
        mapping = self._processor.encode(_readable(text), return_type="offset_mapping")
        found = [_special(SOS_ID, 0)]
        for number, raw, (start, end) in zip(mapping["ids"], mapping["pieces"], mapping["offsets"], strict=True):
            found.append(_piece(number, raw, text, start, end))
        found.append(_special(EOS_ID, len(text)))
        return tuple(found)

    def target_pieces(self, ids: Sequence[int]) -> tuple[Piece, ...]:
        """The pieces of ids that a decoder wrote, specials included; spans lie in ``decode(ids)``."""
        text = self.decode(ids)
        found = []
        before = 0
        for position, number in enumerate(ids):
            # The text of a prefix is not always a prefix of the text (byte pieces): keep spans in order and inside.
            after = min(max(before, len(self.decode(ids[: position + 1]))), len(text))
            if number == UNK_ID:
                raw = SPECIAL_PIECES[UNK_ID]
                start = _after_spaces(text, before, after)
                found.append(Piece(number, raw, raw, start, after, unknown=True))
            elif number < len(SPECIAL_PIECES):
                found.append(_special(number, before))
            else:
                found.append(_piece(number, self._processor.id_to_piece(number), text, before, after))
            before = after
        return tuple(found)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids; ``<PAD>``, ``<SOS>`` and ``<EOS>`` are dropped, ``<UNK>`` shows as "⁇".

        Raises:
            InputError: an id that is not in the vocabulary.
        """
        kept = []
        for number in ids:
            if not 0 <= number < self.vocab_size:
                raise InputError(
                    problem(
                        "piece id", f"must be from 0 to {self.vocab_size - 1}", int(number), "use this model's own ids"
                    )
                )
            if number not in (PAD_ID, SOS_ID, EOS_ID):
                kept.append(int(number))
        return str(self._processor.decode(kept))


def train_tokenizer(
    lines: Iterable[str], vocab_size: int, model_type: str = "bpe", character_coverage: float = 1.0
) -> Tokenizer:
    """Learn a tokenizer from the lines of both languages together. The same lines give the same bytes.

    Args:
        lines: sentences; empty ones are skipped.
        vocab_size: V, the four special pieces included.
        model_type: "bpe" (the paper's) or "unigram".
        character_coverage: share of the letters of the lines that get a piece; the rarest rest become ``<UNK>``.

    Raises:
        ConfigError: an option out of range.
        DataError: no lines, or a vocabulary size that these lines cannot give.
    """
    if model_type not in MODEL_TYPES:
        raise ConfigError(problem("model_type", f"must be one of {', '.join(MODEL_TYPES)}", model_type, "choose one"))
    if not 0.98 <= character_coverage <= 1.0:  # sentencepiece's own limit
        raise ConfigError(problem("character_coverage", "must be from 0.98 to 1", character_coverage, "1.0 keeps all"))
    if not isinstance(vocab_size, int) or isinstance(vocab_size, bool) or vocab_size <= len(SPECIAL_PIECES):
        raise ConfigError(problem("vocab_size", "must be a whole number of at least 5", vocab_size, "8000 is usual"))
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=_nonempty(lines),
            model_writer=model,
            model_type=model_type,
            vocab_size=vocab_size,
            character_coverage=character_coverage,
            pad_id=PAD_ID,
            unk_id=UNK_ID,
            bos_id=SOS_ID,
            eos_id=EOS_ID,
            pad_piece=SPECIAL_PIECES[PAD_ID],
            unk_piece=SPECIAL_PIECES[UNK_ID],
            bos_piece=SPECIAL_PIECES[SOS_ID],
            eos_piece=SPECIAL_PIECES[EOS_ID],
            unk_surface=_UNKNOWN_SURFACE,
            num_threads=1,  # sums of floats depend on the number of threads, and with them the pieces
            minloglevel=2,
        )
    except RuntimeError as error:
        raise _training_problem(str(error), vocab_size) from error
    return Tokenizer(model.getvalue())


def _processor(data: bytes) -> sentencepiece.SentencePieceProcessor:
    remedy = "restore the file from the checkpoint it belongs to"
    found: tuple[int, ...] = ()
    try:
        # An empty file would parse, as a model without pieces.
        processor = sentencepiece.SentencePieceProcessor(model_proto=data) if data else None
    except (RuntimeError, TypeError, ValueError) as error:
        raise CheckpointError(
            problem("tokenizer", "must be a whole sentencepiece model", f"{len(data)} bytes", remedy)
        ) from error
    if processor is not None and processor.get_piece_size() > len(SPECIAL_PIECES):
        found = (processor.pad_id(), processor.unk_id(), processor.bos_id(), processor.eos_id())
        if found == (PAD_ID, UNK_ID, SOS_ID, EOS_ID):
            return processor
    if not found:
        raise CheckpointError(problem("tokenizer", "must hold pieces", f"{len(data)} bytes without any", remedy))
    raise CheckpointError(
        problem(
            "tokenizer", "must have pad, unknown, start and end at ids 0, 1, 2, 3", found, "train one with this program"
        )
    )


def _training_problem(message: str, vocab_size: int) -> DataError:
    largest = re.search(r"value <= (\d+)", message)
    smallest = re.search(r"required_chars\. \d+ vs (\d+)", message)
    if largest:
        rule = f"must be at most {largest[1]} for this corpus"
        return DataError(problem("vocab_size", rule, vocab_size, f"use {largest[1]} or less, or more text"))
    if smallest:
        rule = f"must be at least {smallest[1]}, the letters of this corpus and the special pieces"
        return DataError(problem("vocab_size", rule, vocab_size, "raise it, or lower character_coverage"))
    if "sentences_.empty()" in message:
        return DataError(problem("tokenizer corpus", "must hold text", "no usable line", "give it sentences"))
    return DataError(problem("tokenizer training", "must succeed", message, "check vocab_size and the corpus"))


def _nonempty(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        # A literal "▁" would make sentencepiece skip the line; it reads as a space when encoding.
        clean = _readable(line).replace(_SPACE, " ").strip()
        if clean:
            yield clean


def _readable(text: str) -> str:
    """The text with half surrogate pairs, which have no UTF-8, replaced one for one, so spans stay right."""
    if not isinstance(text, str):
        raise InputError(problem("sentence", "must be text", text, "give a str"))
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)


def _special(number: int, at: int) -> Piece:
    return Piece(number, SPECIAL_PIECES[number], SPECIAL_PIECES[number], at, at, special=True)


def _piece(number: int, raw: str, text: str, start: int, end: int) -> Piece:
    if raw.startswith(_SPACE) and raw != _SPACE:
        start = _after_spaces(text, start, end)
    if number == UNK_ID:
        typed = text[start:end] or raw
        visible = typed if any(letter.isprintable() for letter in typed) else " ".join(f"U+{ord(c):04X}" for c in typed)
        return Piece(number, raw, visible, start, end, unknown=True)
    if raw == _SPACE:
        return Piece(number, raw, "␣", start, end)
    return Piece(number, raw, raw[1:] if raw.startswith(_SPACE) else "·" + raw, start, end)


def _after_spaces(text: str, start: int, end: int) -> int:
    """Skip what became the space before a word: white space, "▁" itself, and invisible controls."""
    while start < end and (
        text[start].isspace() or text[start] == _SPACE or unicodedata.category(text[start])[0] in "CZ"
    ):
        start += 1
    return start
