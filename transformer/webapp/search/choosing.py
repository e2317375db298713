"""Which node is looked at, and the beginning that a search is forced to take."""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from transformer.analysis.tree import TreeLayout
from transformer.webapp import markup, parameters
from transformer.webapp.decoding import path
from transformer.webapp.search.found import Found, name, pieces, same_text
from transformer.webapp.workbench.pictures import clicked

if TYPE_CHECKING:
    from transformer.decoding.trace import BeamTrace
    from transformer.webapp.frame import View

TREE = "search_tree"
_ANEW, _BEFORE = "search_anew", "search_node_before"


def forced() -> tuple[int, ...]:
    """Ids of the beginning that is forced, which the decoding page shares; empty for a free search."""
    if st.session_state.pop(_ANEW, False):
        st.rerun()  # the whole app: the frame draws the box of the parameter
    return path.ids(path.parse(str(st.session_state.get("prefix") or "")))


def chosen(view: View, prefix: tuple[int, ...], trace: BeamTrace) -> int:
    """The node of the URL; after another setting the one with the same text; else the best translation's end."""
    search = (view.translator.fingerprint, view.sentence, view.search, prefix)
    before, tokens = st.session_state.get(_BEFORE, (search, None))
    if before != search and st.session_state.get("node"):
        same = same_text(trace, tokens)
        st.session_state["node"] = "" if same is None else str(same)
    number = parameters.node_box()
    there = number is not None and number < len(trace.nodes)
    node = number if number is not None and there else trace.hypotheses[0]
    st.session_state[_BEFORE] = (search, trace.tokens(node))
    if number is not None and not there:
        st.html(
            markup.notice(
                "warning",
                f"The link asks for node {number} of the search tree, which is not there: it can be 0 to "
                f"{len(trace.nodes) - 1}. The end of the best translation is shown.",
            )
        )
    return node


def picker(found: Found, layout: TreeLayout) -> None:
    """Every node that is drawn, the translations first: for the keyboard and for touch."""
    trace = found.trace
    nodes = [*trace.hypotheses, *(node for node in layout.nodes if node not in trace.hypotheses)]
    st.session_state["node_picker"] = found.node
    st.selectbox(
        "Node",
        nodes,
        format_func=lambda node: name(trace, node),
        key="node_picker",
        on_change=lambda: choose(st.session_state["node_picker"]),
        width="stretch",
        help="Or click on a node in the picture. Type here to find a piece.",
    )


def click() -> None:
    """Take over the node that was clicked; a second click on it, which deselects, changes nothing."""
    data = clicked(TREE)
    if data:
        choose(int(data[0]))


def choose(node: int | None) -> None:
    """Look at a node; a callback."""
    st.session_state["node"] = "" if node is None else str(node)


def search_on(found: Found) -> None:
    """The button that searches again behind the node."""
    tokens = found.trace.tokens(found.node)
    st.button(
        "Search on from here",
        key="search_on",
        on_click=_force,
        args=(path.written(path.picked((), tokens[:-1], tokens[-1])) if tokens else "",),
        disabled=not tokens or tokens == found.prefix or found.told.status == "finished",
        help="Searches again with this beginning forced. The page Decoding then steps through it, too.",
    )


def free(label: str) -> None:
    """The button that takes the forced beginning away."""
    st.button(label, key="search_free", on_click=_force, args=("",))


def banner(view: View, trace: BeamTrace) -> None:
    """What a forced beginning has come to, beside the free search."""
    last = next(index for index, node in enumerate(trace.nodes) if node.step == trace.forced)
    best, without = trace.nodes[trace.hypotheses[0]], view.translation.best
    text = view.translator.tokenizer.decode(trace.tokens(trace.hypotheses[0])).strip() or "(empty)"
    st.html(
        markup.notice(
            "info",
            f"Every translation of this search is forced to begin with “{pieces(trace, last, 30)}”.\n"
            f"Best: {text} (score {best.score:.3f}). The free search, as in the ribbon above: {without.text.strip()} "
            f"(score {without.score:.3f}).",
        )
    )
    free("Back to the free search")


def _force(prefix: str) -> None:
    st.session_state.update({"prefix": prefix, "node": "", _ANEW: True})
