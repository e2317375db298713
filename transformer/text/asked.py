"""What a user asks a model about, as pieces; what cannot be asked is refused with a sentence."""

from __future__ import annotations

from collections.abc import Sequence

from transformer.config import EOS_ID, PAD_ID, SOS_ID
from transformer.errors import InputError, problem
from transformer.text.tokenizer import Piece, Tokenizer


class Asked:
    """Turns texts and ids into pieces that a model can read or could have written.

    Args:
        tokenizer: the model's.
        limit: most pieces of a source, ``<SOS>`` and ``<EOS>`` included, and of a target with ``<EOS>``.
    """

    def __init__(self, tokenizer: Tokenizer, limit: int) -> None:
        self._tokenizer = tokenizer
        self._limit = limit

    def source(self, text: str, number: int = 1, count: int = 1) -> tuple[Piece, ...]:
        """The pieces of a sentence, ``<SOS>`` and ``<EOS>`` included.

        Args:
            text: the sentence.
            number: which one of several it is, for the message.
            count: how many there are.

        Raises:
            InputError: it is no text, or holds nothing, or too much.
        """
        name = "sentence" if count == 1 else f"sentence {number} of {count}"
        if not isinstance(text, str):
            raise InputError(problem(name, "must be text", text, "give a str"))
        pieces = self._tokenizer.pieces(text)
        if len(pieces) <= 2:  # <SOS> and <EOS> alone: white space, or letters that normalisation drops
            raise InputError(problem(name, "must hold at least one word or sign", text, "type something"))
        self._refuse_length(name, pieces)
        return pieces

    def target(self, target: str) -> tuple[Piece, ...]:
        """What the decoder writes for a target given as text, which may be empty: y1 … yn ``<EOS>``.

        Raises:
            InputError: it is no text, or too long.
        """
        if not isinstance(target, str):
            raise InputError(problem("target", "must be text", target, "give a str"))
        pieces = self._tokenizer.pieces(target)[1:]
        self._refuse_length("target", pieces)
        return pieces

    def of_ids(self, ids: Sequence[int], name: str = "target_ids") -> tuple[Piece, ...]:
        """What the decoder wrote, given as ids; ``name`` is what they are called in a message.

        Raises:
            InputError: there are none, or no decoder could have written them, or they are too many.
        """
        listed = list(ids)
        last = len(listed) - 1
        possible = all(
            0 <= number < self._tokenizer.vocab_size
            and number not in (PAD_ID, SOS_ID)
            and (number != EOS_ID or position == last)
            for position, number in enumerate(listed)
        )
        if not listed or not possible:
            rule = "must be pieces of this model with <EOS> nowhere but at the end"
            raise InputError(problem(name, rule, listed, "give the ids of a hypothesis"))
        pieces = self._tokenizer.target_pieces(listed)
        self._refuse_length("target", pieces)
        return pieces

    def prefix(self, ids: Sequence[int]) -> tuple[int, ...]:
        """Ids that a translation begins with, which may be none.

        Raises:
            InputError: as ``of_ids``.
        """
        return tuple(piece.id for piece in self.of_ids(ids, "forced beginning")) if len(ids) else ()

    def _refuse_length(self, name: str, pieces: Sequence[Piece]) -> None:
        if len(pieces) > self._limit:
            rule = f"must be at most {self._limit} pieces with <SOS> and <EOS>"
            raise InputError(problem(name, rule, len(pieces), "shorten it or split it"))
