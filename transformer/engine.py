"""The one door to a trained model: translate, inspect, trace, step and score, from any number of threads at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import torch

from transformer.analysis.arithmetic import HeadArithmetic, compared, head_arithmetic
from transformer.capture.arithmetic import capture_head, capture_scores
from transformer.capture.capture import record_attention
from transformer.capture.intervene import Intervention, forced_pass
from transformer.capture.record import AttentionRecord, FloatArray
from transformer.catalogue import resolve
from transformer.checkpoint import Checkpoint, load_checkpoint
from transformer.config import EOS_ID, SOS_ID, ModelConfig
from transformer.decoding.batch import translate_ids
from transformer.decoding.beam import trace_beam_search
from transformer.decoding.candidates import weigh
from transformer.decoding.options import Hypothesis, SamplingOptions, SearchOptions
from transformer.decoding.sampling import sample
from transformer.decoding.step import start
from transformer.decoding.trace import BeamTrace
from transformer.errors import InputError, problem
from transformer.nn.model import Transformer
from transformer.nn.probe import register_hooks
from transformer.results import (
    CacheSizes,
    Candidate,
    DecodingStep,
    ScoredTarget,
    Translation,
    TranslationHypothesis,
    cache_sizes,
)
from transformer.text.asked import Asked
from transformer.text.tokenizer import Piece, Tokenizer

__all__ = [
    "CacheSizes",
    "Candidate",
    "DecodingStep",
    "Intervention",
    "SamplingOptions",
    "ScoredTarget",
    "Translation",
    "TranslationHypothesis",
    "Translator",
    "cache_sizes",
    "load",
]


class Translator:
    """A loaded model that answers questions about sentences.

    Nothing in it changes after it was made, so threads may share one. Text is refused with ``InputError`` if it is
    empty or longer than the model can read; letters that the tokenizer does not know are fine.
    """

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._checkpoint = checkpoint
        self._asked = Asked(checkpoint.tokenizer, checkpoint.config.max_length)
        register_hooks(checkpoint.model)

    @property
    def name(self) -> str:
        """Name of the checkpoint, that of its folder."""
        return self._checkpoint.name

    @property
    def folder(self) -> Path:
        """Where the checkpoint is."""
        return self._checkpoint.folder

    @property
    def model(self) -> Transformer:
        """The model in evaluation mode, its hooks registered."""
        return self._checkpoint.model

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer of both languages."""
        return self._checkpoint.tokenizer

    @property
    def config(self) -> ModelConfig:
        """The shape of the model."""
        return self._checkpoint.config

    @property
    def languages(self) -> dict[str, str]:
        """``source`` and ``target`` as words, ``source_code`` and ``target_code`` as codes."""
        return dict(self._checkpoint.languages)

    @property
    def meta(self) -> dict[str, Any]:
        """Everything in ``config.json``."""
        return self._checkpoint.meta

    @property
    def examples(self) -> tuple[str, ...]:
        """Sentences that suit this model."""
        return tuple(str(example) for example in self.meta["examples"])

    @property
    def sha256(self) -> str:
        """Hash of the stored weights."""
        return self._checkpoint.sha256

    @property
    def fingerprint(self) -> str:
        """Hash of weights, shape and tokenizer: two translators with the same one compute the same."""
        return self._checkpoint.fingerprint

    @property
    def precision(self) -> str:
        """How the weights are stored; they are computed with in float32."""
        return self._checkpoint.precision

    @property
    def parameter_count(self) -> int:
        """Number of parameters, tied ones counted once."""
        return sum(parameter.numel() for parameter in self.model.parameters())

    @property
    def length_penalty(self) -> float:
        """alpha of every beam search for which no other is asked, as the checkpoint has it."""
        return self._checkpoint.length_penalty

    @property
    def max_source_pieces(self) -> int:
        """Longest source in pieces, ``<SOS>`` and ``<EOS>`` included; a target has the same limit."""
        return self.config.max_length

    def translate(
        self,
        text: str,
        beam_size: int = 5,
        length_penalty: float | None = None,
        nbest: int | None = None,
        max_extra: int = 50,
        coverage_penalty: float = 0.0,
        no_repeat_ngram: int = 0,
        prefix_ids: Sequence[int] = (),
    ) -> Translation:
        """Translate one sentence.

        Args:
            text: the sentence.
            beam_size: hypotheses kept at each step, M; 1 is greedy search.
            length_penalty: alpha of ((5 + n) / 6) ** alpha (Wu et al. 2016, Section 7); 0 ranks by plain probability,
                None is the checkpoint's own.
            nbest: how many hypotheses to return, at most ``beam_size``; all of them if None.
            max_extra: a translation has at most this many pieces more than its source.
            coverage_penalty: beta of Wu et al. 2016, Equation 14 (``transformer.decoding.coverage``); 0 is off.
            no_repeat_ngram: n >= 1 forbids to write any n pieces in a row a second time; 0 is off.
            prefix_ids: what every hypothesis begins with, as ``ids_of`` gives it; hypotheses hold it. With ``<EOS>``
                last it is the only hypothesis.

        Raises:
            InputError: an empty or too long sentence, an option out of range, or a prefix that no decoder could have
                written.
        """
        prefix = self._asked.prefix(prefix_ids)
        options = self._options(beam_size, length_penalty, nbest, max_extra, coverage_penalty, no_repeat_ngram)
        return self._translated([text], options, prefix)[0]

    def translate_many(
        self,
        texts: Iterable[str],
        beam_size: int = 5,
        length_penalty: float | None = None,
        nbest: int | None = 1,
        max_extra: int = 50,
        progress: Callable[[int], object] | None = None,
        coverage_penalty: float = 0.0,
        no_repeat_ngram: int = 0,
    ) -> list[Translation]:
        """Translate many sentences together, which is several times quicker than one by one.

        ``progress`` is called with the number of sentences done since the last call. ``seconds`` of each translation is
        its share of the whole time, by pieces written. Other arguments, and errors, as in ``translate``, but only the
        best hypothesis is returned unless ``nbest`` says otherwise.
        """
        options = self._options(beam_size, length_penalty, nbest, max_extra, coverage_penalty, no_repeat_ngram)
        return self._translated(list(texts), options, progress=progress)

    def beam_widths(
        self,
        text: str,
        widths: Iterable[int] = range(1, 11),
        length_penalty: float | None = None,
        max_extra: int = 50,
        coverage_penalty: float = 0.0,
        no_repeat_ngram: int = 0,
        prefix_ids: Sequence[int] = (),
    ) -> list[Translation]:
        """The best translation of one sentence for each beam size; arguments and errors as in ``translate``."""
        prefix = self._asked.prefix(prefix_ids)
        found = []
        for width in widths:
            options = self._options(width, length_penalty, 1, max_extra, coverage_penalty, no_repeat_ngram)
            found += self._translated([text], options, prefix)
        return found

    def sample(self, text: str, options: SamplingOptions, prefix_ids: Sequence[int] = ()) -> TranslationHypothesis:
        """Draw one translation piece by piece. ``log_probs`` are the model's own, before any filter.

        The draw at a position depends on the seed, the position and what stands before it: going on from the beginning
        of a drawn translation with the same options gives the same translation.

        Args:
            text: the sentence.
            options: temperature, filters, seed.
            prefix_ids: what the translation begins with, as in ``translate``.

        Raises:
            InputError: as ``translate``.
        """
        ids = [piece.id for piece in self._asked.source(text)]
        prefix = self._asked.prefix(prefix_ids)
        step, state = start(self.model, [ids])
        limit = max(options.max_length(len(ids), self.config.max_length), len(prefix))
        return self._hypothesis(sample(step, state, limit, options, self._device, prefix))

    def steps(
        self, text: str, target_ids: Sequence[int], count: int = 10, intervention: Intervention | None = None
    ) -> list[DecodingStep]:
        """What the decoder weighs at every position of a translation, or of the beginning of one; one forced pass.

        Args:
            text: the sentence.
            target_ids: what has been written, ``<EOS>`` last if it is complete; may be empty.
            count: how many candidates to show at each position.
            intervention: a change of the cross-attention during this pass.

        Returns:
            One step for each piece of ``target_ids``, and if it does not end with ``<EOS>`` one more without a chosen
            piece (unless the model has no position left for it).

        Raises:
            InputError: as ``inspect``; a count below 1; or an intervention that points outside of the maps.
        """
        if not isinstance(count, int) or isinstance(count, bool) or count < 1:
            raise InputError(problem("count", "must be a whole number of at least 1", count, "10 is usual"))
        source = [piece.id for piece in self._asked.source(text)]
        written = self._asked.prefix(target_ids)
        open_ended = not written or (written[-1] != EOS_ID and len(written) < self.config.max_length)
        read = [SOS_ID, *written] if open_ended else [SOS_ID, *written[:-1]]
        log_probs, cross = forced_pass(self.model, source, read, intervention)
        cross.setflags(write=False)
        chosen = [*written, None] if open_ended else [*written]
        found = []
        for position, weighed in enumerate(weigh(log_probs, chosen, count)):
            candidates = tuple(
                Candidate(self._piece(number), log_prob, rank) for rank, (number, log_prob) in enumerate(weighed.best)
            )
            taken = None if weighed.chosen is None else Candidate(self._piece(weighed.chosen[0]), *weighed.chosen[1:])
            row = cross[:, :, position]
            found.append(DecodingStep(position, candidates, taken, weighed.entropy, weighed.rest, row))
        return found

    def ids_of(self, target: str) -> tuple[int, ...]:
        """The pieces of a typed target, or of the beginning of one, without ``<EOS>``; nothing for an empty text.

        Raises:
            InputError: it is no text, or too long.
        """
        return tuple(piece.id for piece in self._asked.target(target)[:-1])

    def _translated(
        self,
        texts: list[str],
        options: SearchOptions,
        prefix: tuple[int, ...] = (),
        progress: Callable[[int], object] | None = None,
    ) -> list[Translation]:
        started = time.perf_counter()
        sources = [self._asked.source(text, number, len(texts)) for number, text in enumerate(texts, start=1)]
        ids = [[piece.id for piece in source] for source in sources]
        found = translate_ids(self.model, ids, options, progress=progress, forced=prefix)
        hypotheses = [tuple(self._hypothesis(one) for one in several) for several in found]
        seconds = time.perf_counter() - started
        written = sum(len(several[0].ids) for several in hypotheses)
        return [
            Translation(text, source, several, seconds * len(several[0].ids) / written)
            for text, source, several in zip(texts, sources, hypotheses, strict=True)
        ]

    def inspect(
        self,
        text: str,
        target: str | None = None,
        target_ids: Sequence[int] | None = None,
        beam_size: int = 5,
        length_penalty: float | None = None,
        max_extra: int = 50,
    ) -> AttentionRecord:
        """Every attention map of one pass over a sentence and a translation of it.

        The translation is the model's own (with these search options) unless one is given: ``target`` as text, which
        may be empty (the decoder then reads ``<SOS>`` and writes ``<EOS>``), or ``target_ids`` as a hypothesis holds
        them, which also allows a prefix. The model's own is inspected as the ids it wrote, never as text split anew.

        Raises:
            InputError: as ``translate``; or a target that is too long, or ids that no decoder could have written.
        """
        source = self._asked.source(text)
        if target is not None and target_ids is not None:
            raise InputError(problem("target", "must be given as text or as ids", target, "leave one of the two out"))
        if target is not None:
            output, target_text = self._asked.target(target), target
        else:
            if target_ids is None:
                target_ids = self.translate(text, beam_size, length_penalty, 1, max_extra).ids
            output, target_text = self._asked.of_ids(target_ids), self.tokenizer.decode(target_ids)
        return record_attention(
            self.model,
            source,
            output,
            start=self.tokenizer.target_pieces([SOS_ID])[0],
            source_text=text,
            target_text=target_text,
            checkpoint_sha256=self.sha256,
        )

    def arithmetic(
        self, text: str, target_ids: Sequence[int], kind: str, layer: int, head: int, query: int
    ) -> HeadArithmetic:
        """Every number between one query and what its head adds to the output, with its checks.

        ``inspect(text, target_ids=target_ids)`` has the same pass: ``weights`` is the row ``query`` of its map, and
        ``axes(kind)`` names the query and the keys.

        Args:
            text: the sentence.
            target_ids: as ``inspect`` takes them: what the decoder writes, ``<EOS>`` last if it is complete.
            kind: ``encoder``, ``decoder`` or ``cross``.
            layer: from 0.
            head: from 0.
            query: row of the map, from 0.

        Raises:
            InputError: as ``inspect``; or another kind, or a layer, head or query that is not there.
        """
        source = [piece.id for piece in self._asked.source(text)]
        output = [piece.id for piece in self._asked.of_ids(target_ids)]
        seen = capture_head(self.model, source, [SOS_ID, *output[:-1]], kind, layer, head, query)
        found = head_arithmetic(seen.query, seen.keys, seen.values, seen.mask, seen.outward, seen.whole)
        return compared(found, seen.scores, seen.pattern, seen.head_output)

    def attention_scores(self, text: str, target_ids: Sequence[int], kind: str, layer: int) -> FloatArray:
        """What the softmax of one layer is taken of: Q K^T / sqrt(d_k) before the mask, [H, T, S].

        Arguments and errors as in ``arithmetic``.
        """
        source = [piece.id for piece in self._asked.source(text)]
        output = [piece.id for piece in self._asked.of_ids(target_ids)]
        return capture_scores(self.model, source, [SOS_ID, *output[:-1]], kind, layer)

    def trace_beams(
        self,
        text: str,
        beam_size: int = 5,
        length_penalty: float | None = None,
        nbest: int | None = None,
        max_extra: int = 50,
        coverage_penalty: float = 0.0,
        no_repeat_ngram: int = 0,
        prefix_ids: Sequence[int] = (),
    ) -> BeamTrace:
        """The whole tree of candidates that beam search looked at; arguments and errors as in ``translate``.

        ``trace.hypotheses`` are those that ``translate`` returns for the same arguments.
        """
        options = self._options(beam_size, length_penalty, nbest, max_extra, coverage_penalty, no_repeat_ngram)
        ids = [piece.id for piece in self._asked.source(text)]
        prefix = self._asked.prefix(prefix_ids)
        limit = options.max_length(len(ids), self.config.max_length)
        step, state = start(self.model, [ids], options.coverage_penalty > 0.0)
        return trace_beam_search(step, state, limit, options, self._label, self._device, prefix)

    def score(self, text: str, target: str) -> ScoredTarget:
        """How probable the model finds ``target`` as the translation of ``text``, piece by piece.

        Raises:
            InputError: an empty or too long sentence, or a target that is too long.
        """
        record = self.inspect(text, target=target)
        log_probs = tuple(float(value) for value in record.log_probs)
        return ScoredTarget(text, target, record.target_output, log_probs, sum(log_probs))

    def _options(
        self,
        beam_size: int,
        length_penalty: float | None,
        nbest: int | None,
        max_extra: int,
        coverage_penalty: float,
        no_repeat_ngram: int,
    ) -> SearchOptions:
        return SearchOptions(
            beam_size=beam_size,
            length_penalty=self.length_penalty if length_penalty is None else length_penalty,
            max_extra=max_extra,
            nbest=beam_size if nbest is None else nbest,
            coverage_penalty=coverage_penalty,
            no_repeat_ngram=no_repeat_ngram,
        )

    @property
    def _device(self) -> torch.device:
        return next(self.model.parameters()).device

    def _piece(self, number: int) -> Piece:
        return self.tokenizer.target_pieces([number])[0]

    def _label(self, number: int) -> str:
        return self._piece(number).label

    def _hypothesis(self, hypothesis: Hypothesis) -> TranslationHypothesis:
        ids = hypothesis.tokens
        return TranslationHypothesis(
            text=self.tokenizer.decode(ids),
            pieces=self.tokenizer.target_pieces(ids),
            ids=ids,
            log_probs=hypothesis.log_probs,
            total_log_prob=hypothesis.total_log_prob,
            score=hypothesis.score,
            finished=hypothesis.finished,
            coverage=hypothesis.coverage,
        )


def load(name_or_path: Path | str, device: str = "cpu", snapshot: int | None = None) -> Translator:
    """Load a checkpoint, by the path of its folder or its name under ``checkpoints/``, and register its hooks once.

    Args:
        name_or_path: which one.
        device: where it computes.
        snapshot: the model as it was after so many updates of its training; ``info`` lists those that were kept.

    Raises:
        CheckpointError: there is none, or it is damaged.
    """
    return Translator(load_checkpoint(resolve(name_or_path), device, snapshot))
