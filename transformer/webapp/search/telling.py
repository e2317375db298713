"""In words: how the search went, what became of a node, and why."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from transformer.analysis.beam import LOST, OPEN, OUTSCORED, RETURNED, WON
from transformer.analysis.tree import TreeLayout
from transformer.plots.labels import percent
from transformer.plots.tree import ordinal
from transformer.webapp import markup
from transformer.webapp.search.found import Found, pieces

if TYPE_CHECKING:
    from transformer.decoding.trace import BeamTrace
    from transformer.webapp.resources import Search

_SHOWN = 6
"""Rows of the table of what took a node's place."""


def settings(search: Search) -> str:
    """The settings of a search that are not off."""
    parts = [f"beam size {search.beam}", f"length penalty {search.length_penalty:g}"]
    parts += [f"coverage penalty {search.coverage_penalty:g}"] if search.coverage_penalty else []
    parts += [f"no {search.no_repeat_ngram} pieces in a row twice"] if search.no_repeat_ngram else []
    return ", ".join([*parts, f"at most {search.max_extra} pieces more than the source"])


def summary(search: Search, trace: BeamTrace, layout: TreeLayout) -> str:
    """One line of numbers."""
    ended = sum(node.status == "finished" for node in trace.nodes)
    left = f", {layout.left_out} pruned ones not drawn" if layout.left_out else ""
    return (
        f'<div class="under">{len(trace.nodes) - 1} candidates in {trace.steps} steps{left}; {ended} came to an end '
        f"(squares), {len(trace.hypotheses)} are listed. The fuller a node, the more probable its piece. Now: "
        f"{markup.escape(settings(search))} (change it in the decoding settings at the left).</div>"
    )


def title(found: Found) -> str:
    """What became of the node, in a few words."""
    told = found.told
    if found.node in found.trace.hypotheses:
        place = found.trace.hypotheses.index(found.node)
        return f"The {'best' if place == 0 else ordinal(place + 1)} translation" + (
            "" if told.status == "finished" else ", cut off"
        )
    if not told.step:
        return "The root: every translation begins here"
    if told.outcome == WON:
        return "On the way to the best translation"
    if told.outcome == RETURNED:
        return f"On the way to the {_listed([ordinal(place + 1) for place in told.hypotheses])} translation"
    if told.outcome == OUTSCORED:
        return "It came to an end, but others scored better"
    if told.outcome == OPEN:
        return "Still in the beam when the search stopped"
    return f"Lost at step {told.lost_at}"


def numbers(found: Found) -> str:
    """The node's figures as a table."""
    told, search = found.told, found.view.search
    if not told.step:
        return ""
    looked = len(found.trace.at_step(told.step))
    place = f"{told.rank + 1} of the {looked} candidates of the step" if looked > 1 else f"{told.rank + 1}"
    if told.step <= found.trace.forced:
        place = f"forced; {told.rank + 1} among all pieces"
    share = found.trace.nodes[found.node].coverage
    divisor = ((5 + told.step) / 6) ** search.length_penalty
    rows = [
        ("step", f"{told.step} of {found.trace.steps}"),
        ("this piece", f"{percent(math.exp(told.log_prob))} (log-probability {told.log_prob:.2f})"),
        ("rank", place),
        ("log-probability so far", f"{told.total:.3f} ({percent(math.exp(told.total))})"),
        ("divided by", f"((5 + {told.step}) / 6)^{search.length_penalty:g} = {divisor:.3f}"),
        *([("coverage penalty", f"{share:.3f}")] if search.coverage_penalty else []),
        ("score", f"{told.score:.3f}"),
    ]
    return markup.table("Its numbers", ("", ""), rows)


def why(found: Found) -> str:
    """Why it was lost, or how close it came; plain text, empty where the title says it all."""
    told, trace = found.told, found.trace
    if told.outcome == LOST:
        return _why_lost(found)
    if told.outcome == OUTSCORED:
        ends = [i for i, node in enumerate(trace.nodes) if node.status == "finished" and found.node in trace.path(i)]
        end = max(ends, key=lambda index: trace.nodes[index].score)
        weakest = trace.nodes[trace.hypotheses[-1]].score
        what = "It" if end == found.node else f"“{pieces(trace, end)}”, the best end behind it,"
        return (
            f"{what} has a score of {trace.nodes[end].score:.3f}; the last of the {len(trace.hypotheses)} translations "
            f"listed has {weakest:.3f}. With more alternatives (n-best) it may be listed."
        )
    if told.outcome == OPEN:
        view = found.view
        limit = min(len(view.translation.source) + view.search.max_extra, view.translator.max_source_pieces)
        if trace.steps >= limit:
            return f"The longest allowed length, {limit} pieces, was reached before it came to an end."
        return (
            "The search stopped because nothing still in the beam could score better than the translations listed, not "
            "even if every further piece were certain."
        )
    return ""


def _why_lost(found: Found) -> str:
    told, trace = found.told, found.trace
    stayed = len(told.displaced)
    if told.lost_at == told.step:
        text = f"{stayed} candidates of step {told.step} were more probable, and the beam was full."
        whose = "It has"
    else:
        text = (
            f"It was kept at step {told.step}"
            + (
                ""
                if told.lost_at == told.step + 1
                else f" and what followed from it up to step {(told.lost_at or 1) - 1}"
            )
            + f". At step {told.lost_at} {stayed} other candidates were more probable than any way on from it."
        )
        whose = "Its best way on has"
    if told.needed is None or told.gap is None:
        return text
    times = math.exp(min(told.gap, 700.0))
    if told.gap_is_bound:
        return (
            f"{text} To stay, a log-probability of {told.needed:.3f} was needed; its best way on was not among the "
            f"{len(trace.at_step(told.lost_at or 0))} candidates looked at, so it had at least {told.gap:.3f} less."
        )
    return (
        f"{text} {whose} a log-probability of {told.needed - told.gap:.3f}; {told.needed:.3f} was needed to stay: "
        f"{told.gap:.3f} more, {times:.3g} times the probability."
    )


def displaced(found: Found) -> str:
    """What took the node's place, weakest first, as a table; empty if nothing did."""
    told, trace = found.told, found.trace
    if not told.displaced:
        return ""
    rows = []
    for node, total in told.displaced[::-1][:_SHOWN]:
        one = trace.nodes[node]
        rows.append((str(one.rank + 1), pieces(trace, node), f"{total:.3f}", one.status))
    more = len(told.displaced) - len(rows)
    caption = f"What was kept instead at step {told.lost_at}" + (f" (and {more} better ones)" if more > 0 else "")
    return markup.table(caption, ("rank", "written so far", "log-probability", ""), rows, numeric=(0, 2))


def _listed(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
