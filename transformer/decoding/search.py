"""The one search of the project: beam search over a step function, for a batch of sentences; greedy when M = 1.

**One step.** Each sentence has up to M live prefixes. Every piece behind every live prefix is a candidate, its total
being the prefix's total log-probability plus the piece's. The best 2M candidates are looked at, best first:

- a candidate that ends with <EOS> is *finished*: it leaves the beam and waits among the finished ones;
- the first M others are *kept* and are the live prefixes of the next step;
- the rest is *pruned*.

At most M of the 2M candidates end with <EOS> (one behind each prefix), so the beam never shrinks on their account.
With M = 1 only the best candidate counts, and a finished one ends the search: going on with the runner-up, as a wider
beam does, would no longer be greedy decoding.

**Example**, M = 2, prefixes A (total -1.0) and B (-1.5), pieces x and y. The candidates

    rank 0  A <EOS>  -1.2   finished      rank 2  A x      -1.9   kept, and the beam is full
    rank 1  B y      -1.6   kept          rank 3  B <EOS>  -2.5   finished

become the prefixes [B y, A x], so the state is reordered with rows [1, 0]. Only if the kept candidates extend rows
[0, 1] in this order may the reordering be left out.

**Order.** Finished hypotheses are compared by score = total / lp(n) + cp, lp being the length penalty and cp <= 0 the
coverage penalty (``coverage``; 0 unless it is switched on). The best ``nbest`` are returned, and behind them, only if
there are fewer, prefixes that the longest allowed length cut off, by score too. The candidates of one step are compared
by total: they are of one length, and what is not covered yet may still be. Equal totals are ordered by earlier prefix,
then by lower piece id; equal scores by earlier finish, those that were cut off by higher total.

**Forced prefix.** The first steps may be given: then the one candidate of the step is the given piece, whatever its
rank, and it is kept (finished, if it is <EOS>). **Repeats.** With ``no_repeat_ngram`` a piece that would write a run of
n pieces a second time is no candidate; a forced prefix is taken as it is, but counts.

**When to stop.** A sentence is done at its longest allowed length m, or when no prefix is live, or when the
``nbest``-th best finished score s satisfies s >= g / lp(m), g being the best live total. This stop changes nothing:
the hypotheses are the first ``nbest`` of the list that a search without it would return. Proof: let h be any
hypothesis finished later, with total t and n pieces. It descends from a live prefix whose total is at most g, and
log-probabilities are not positive, so t <= g <= 0. lp does not decrease with n, as alpha >= 0, and n <= m, so
1 / lp(n) >= 1 / lp(m); multiplied by t <= 0 this gives t / lp(n) <= t / lp(m) <= g / lp(m) <= s. The coverage penalty
of h is not positive either, so its score t / lp(n) + cp <= t / lp(n) <= s, however much h may still cover; that of the
finished ones is in s already. So h scores no better than ``nbest`` hypotheses that finished before it, and comes behind
them even if equal. Floating-point addition and division round monotonically, so each inequality also holds for the
rounded numbers. Nothing in this depends on which candidates a step had, so forced steps and forbidden repeats leave it
true. Which prefixes are live never depends on ``nbest``; so the best n hypotheses are the same whatever larger number
is asked for.

Sources: Sutskever et al. 2014, Section 3.2 (beam of prefixes); Wu et al. 2016, Section 7 (both penalties); the bound
follows Huang et al. 2017 ("When to Finish?"), with the longest allowed length as the limit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from transformer.config import EOS_ID, SOS_ID
from transformer.decoding.candidates import best_of_rows, rank_of
from transformer.decoding.options import SearchOptions, length_penalty
from transformer.decoding.rules import check_forced, check_numbers, forbid, repeats
from transformer.decoding.step import AnyState, CoverageState, State, StepFunction
from transformer.decoding.trace import FINISHED, KEPT, PRUNED
from transformer.errors import InputError, problem


@dataclass(slots=True, eq=False)
class Prefix:
    """A chain of written pieces, linked backwards; the first link is <SOS>. Compared by identity."""

    token: int
    log_prob: float
    total: float
    parent: Prefix | None
    length: int
    coverage: float = 0.0

    @property
    def finished(self) -> bool:
        return self.token == EOS_ID

    def chain(self) -> list[Prefix]:
        """The links from the first written piece to this one, <SOS> left out."""
        links: list[Prefix] = []
        link = self
        while link.parent is not None:
            links.append(link)
            link = link.parent
        return links[::-1]

    def score(self, alpha: float) -> float:
        """The total over the length penalty, plus the coverage penalty."""
        return self.total / length_penalty(self.length, alpha) + self.coverage


Observer = Callable[[Prefix, int, str], None]
"""Told of every candidate looked at: (candidate, its rank in the step, ``kept`` / ``pruned`` / ``finished``)."""


class _Sentence:
    """The bookkeeping of one sentence: its live prefixes, best first, and its finished ones in order of finish."""

    def __init__(self, max_length: int, options: SearchOptions, observer: Observer | None) -> None:
        self.live = [Prefix(SOS_ID, 0.0, 0.0, None, 0)]
        self.rows = [0]
        """For each live prefix, which of the previous live prefixes it extends."""
        self.done = False
        self._finished: list[tuple[float, Prefix]] = []
        self._max_length = max_length
        self._options = options
        self._observer = observer
        self._bound = length_penalty(max_length, options.length_penalty)

    def advance(
        self, totals: list[float], log_probs: list[float], flat: list[int], vocabulary: int, coverage: list[float]
    ) -> None:
        """Take one step's candidates, best first; ``flat`` is (row of the prefix) * V + piece, ``coverage`` the penalty
        of each row, empty if there is none."""
        if not totals[0] > -math.inf:
            check_numbers(totals[0])
            self.done = True  # nothing can be written: the live prefixes stay as they are, cut off
            return
        beam_size = self._options.beam_size
        countable = 2 * beam_size if beam_size > 1 else 1
        length = self.live[0].length + 1
        kept: list[Prefix] = []
        rows: list[int] = []
        for rank, total in enumerate(totals):
            if total == -math.inf:
                break
            row, token = divmod(flat[rank], vocabulary)
            if self._observer is None and token != EOS_ID and len(kept) == beam_size:
                continue  # pruned, and nobody wants to know
            candidate = Prefix(
                token, log_probs[rank], total, self.live[row], length, coverage[row] if coverage else 0.0
            )
            if rank >= countable:
                status = PRUNED
            elif token == EOS_ID:
                status = FINISHED
                self._finished.append((candidate.score(self._options.length_penalty), candidate))
            elif len(kept) < beam_size:
                status = KEPT
                kept.append(candidate)
                rows.append(row)
            else:
                status = PRUNED
            if self._observer is not None:
                self._observer(candidate, rank, status)
        self.live, self.rows = kept, rows
        self.done = not kept or length == self._max_length or self._settled()

    def force(self, piece: int, log_prob: float, total: float, rank: int, coverage: list[float]) -> None:
        """Take the one piece that is given in this step, behind the only live prefix."""
        check_numbers(total)
        (before,) = self.live
        candidate = Prefix(piece, log_prob, total, before, before.length + 1, coverage[0] if coverage else 0.0)
        if candidate.finished:
            self._finished.append((candidate.score(self._options.length_penalty), candidate))
            self.live, self.rows = [], []
        else:
            self.live, self.rows = [candidate], [0]
        self.done = candidate.finished or candidate.length == self._max_length
        if self._observer is not None:
            self._observer(candidate, rank, FINISHED if candidate.finished else KEPT)

    def _settled(self) -> bool:
        """Whether no live prefix can still enter the best ``nbest`` (proof in the module's docstring)."""
        nbest = self._options.nbest
        if len(self._finished) < nbest:
            return False
        threshold = sorted((score for score, _ in self._finished), reverse=True)[nbest - 1]
        return threshold >= self.live[0].total / self._bound

    def result(self) -> list[Prefix]:
        """At most ``nbest`` hypotheses, best first."""
        finished = sorted(self._finished, key=lambda pair: -pair[0])
        cut_off = sorted(self.live, key=lambda prefix: -prefix.score(self._options.length_penalty))
        return ([prefix for _, prefix in finished] + cut_off)[: self._options.nbest]


def search(
    step: StepFunction[AnyState],
    state: AnyState,
    max_lengths: Tensor | Sequence[int],
    options: SearchOptions,
    device: torch.device | str,
    observer: Observer | None = None,
    forced: Sequence[int] = (),
) -> list[list[Prefix]]:
    """Search B sentences at once; see the module's docstring for what it does.

    The rows given to ``step`` are [sentence][live prefix]: B rows at first, then (sentences not yet done) * (most live
    prefixes of any), a sentence with fewer being filled up with rows of total -inf. A sentence that is done leaves.

    Args:
        step: the step function; see ``transformer.decoding.step``.
        state: the state of B rows, before anything was written; a ``CoverageState`` if there is a coverage penalty.
        max_lengths: [B], the most pieces, <EOS> included, that each sentence may be given; a longer ``forced`` counts
            instead.
        options: beam size, penalties, n-best (``max_extra`` is the caller's: it makes ``max_lengths``).
        device: where the last pieces are put.
        observer: told of every candidate.
        forced: pieces that every sentence begins with, <EOS> nowhere but at the end.

    Returns:
        For each sentence at most ``nbest`` last links, best first; fewer only where fewer hypotheses exist.

    Raises:
        InputError: a longest length below 1, <EOS> inside of ``forced``, or a coverage penalty without a state for it.
        TransformerError: the step function answered with NaN.
    """
    lengths = [int(length) for length in max_lengths]
    for length in lengths:
        if length < 1:
            raise InputError(problem("max_length", "must be at least 1", length, "allow one piece at least"))
    check_forced(forced)
    sentences = [_Sentence(max(length, len(forced)), options, observer) for length in lengths]
    active = sentences
    last = torch.full((len(active),), SOS_ID, dtype=torch.int64, device=device)
    totals = torch.zeros(len(active), 1, dtype=torch.float32, device=device)
    width = 1
    count = 1 if options.beam_size == 1 and observer is None else 2 * options.beam_size
    to_force = list(forced)[::-1]
    with torch.inference_mode():
        while active:
            log_probs, state = step(last, state)
            coverage = _coverage(state, options.coverage_penalty, len(active))
            if to_force:
                _force(active, totals, log_probs, to_force.pop(), coverage)
            else:
                vocabulary = log_probs.size(-1)
                barred = _repeated(active, width, options.no_repeat_ngram) if options.no_repeat_ngram else ([], [])
                candidates = _best(totals, log_probs, count, *barred)
                for sentence, values, pieces, flat, covered in zip(active, *candidates, coverage, strict=True):
                    sentence.advance(values, pieces, flat, vocabulary, covered)

            staying = [(place, sentence) for place, sentence in enumerate(active) if not sentence.done]
            new_width = max((len(sentence.live) for _, sentence in staying), default=0)
            index: list[int] = []
            tokens: list[int] = []
            sums: list[float] = []
            for place, sentence in staying:
                missing = new_width - len(sentence.live)
                index += [place * width + row for row in sentence.rows + sentence.rows[:1] * missing]
                tokens += [prefix.token for prefix in sentence.live] + [EOS_ID] * missing
                sums += [prefix.total for prefix in sentence.live] + [-math.inf] * missing
            if staying and index != list(range(last.size(0))):
                state = state.reorder(torch.tensor(index, dtype=torch.int64, device=device))
            active = [sentence for _, sentence in staying]
            width = new_width
            last = torch.tensor(tokens, dtype=torch.int64, device=device)
            totals = torch.tensor(sums, dtype=torch.float32, device=device).view(len(active), width)
    return [sentence.result() for sentence in sentences]


def _force(active: list[_Sentence], totals: Tensor, log_probs: Tensor, piece: int, coverage: list[list[float]]) -> None:
    """Give every sentence, each with one live prefix, the same piece: totals [B, 1], log_probs [B, V]."""
    scores = totals + log_probs
    pieces = torch.full((len(active),), piece, dtype=torch.int64, device=scores.device)
    own = scores[:, piece].clone()  # forbid writes into the scores
    ranks = rank_of(forbid(scores), own, pieces)
    numbers = zip(active, log_probs[:, piece].tolist(), own.tolist(), ranks.tolist(), coverage, strict=True)
    for sentence, log_prob, total, rank, covered in numbers:
        sentence.force(piece, log_prob, total, rank, covered)


def _coverage(state: State, beta: float, sentences: int) -> list[list[float]]:
    """The coverage penalty of every row, sentence by sentence; a list of empty lists if there is none."""
    if beta == 0.0:
        return [[]] * sentences
    if not isinstance(state, CoverageState):
        remedy = "start from a state that adds up attention (CoveredState)"
        raise InputError(problem("coverage_penalty", "must be 0 for a state without coverage", beta, remedy))
    rows: list[list[float]] = (beta * state.log_coverage()).view(sentences, -1).tolist()
    return rows


def _repeated(active: list[_Sentence], width: int, size: int) -> tuple[list[int], list[int]]:
    """Rows and pieces that would write a run of ``size`` pieces a second time."""
    rows: list[int] = []
    pieces: list[int] = []
    for place, sentence in enumerate(active):
        for row, prefix in enumerate(sentence.live):
            barred = repeats([link.token for link in prefix.chain()], size)
            rows += [place * width + row] * len(barred)
            pieces += barred
    return rows, pieces


def _best(
    totals: Tensor, log_probs: Tensor, count: int, barred_rows: list[int], barred_pieces: list[int]
) -> tuple[list[list[float]], list[list[float]], list[list[int]]]:
    """The best ``count`` candidates of each sentence: their totals, log-probabilities and flat indices, best first.

    Equal totals are ordered by flat index (earlier prefix, then lower piece).

    Args:
        totals: [B, W] totals of the live prefixes, -inf for a row that only fills up.
        log_probs: [B * W, V].
        count: how many.
        barred_rows: with ``barred_pieces`` names the candidates that must not be written.
    """
    allowed = log_probs
    if barred_rows:
        allowed = log_probs.clone()
        allowed[barred_rows, barred_pieces] = -math.inf
    values, indices = best_of_rows(totals, allowed, count)
    pieces = log_probs.reshape(totals.size(0), -1).gather(1, indices).tolist()
    return values, pieces, indices.tolist()
