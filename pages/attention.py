"""/attention : one large map, and all heads of its layer beside it."""

import streamlit as st

from transformer.analysis.maps import kind_view, strongest_cells
from transformer.plots import labels
from transformer.plots.heatmap import attention_map, least_width
from transformer.plots.mosaic import mosaic
from transformer.plots.theme import kind_colour
from transformer.webapp import frame, markup
from transformer.webapp.remarks import remark

MEANINGS = {
    "encoder": "Encoder self-attention: each {source} piece gathers what it needs from the whole {source} input.",
    "decoder": "Masked decoder self-attention: while writing a {target} piece the model looks back at the {target} "
    "pieces it has read; later ones are masked.",
    "cross": "Cross-attention: while writing a {target} piece the model looks at the {source} input.",
}
OVERVIEW = "heads_overview"


def choose_head() -> None:
    """Take over the head that was clicked; a second click on it, which deselects, changes nothing."""
    points = st.session_state[OVERVIEW]["selection"]["points"]
    if points:
        data = points[0]["customdata"]
        st.session_state["head"] = int(data[1] if isinstance(data, list) else data["1"])


view = frame.require()
maps = kind_view(view.record, view.kind, view.card.languages)
layer, head = view.layer - 1, view.head - 1
weights = maps.weights[layer, head]
colour = kind_colour(view.kind, view.colours)
meaning = markup.escape(MEANINGS[view.kind].format(**view.card.languages))
st.html(f'<div class="kind"><i style="background:{colour}"></i>{meaning}</div>')

left, right = st.columns([5, 3], gap="medium")
with left, st.container(gap="xxsmall"):
    st.html(f"<b>{markup.escape(labels.map_title(view.kind, view.layer, view.head))}</b>")
    strong = [cell for cell in strongest_cells(weights, 8) if cell.weight >= 0.005]
    with st.container(key="scroll_map"), st.container(key="map"):
        st.html(f"<style>.st-key-map{{min-width:{least_width(maps)}px}}</style>")
        st.plotly_chart(
            attention_map(maps, layer, head, view.colours),
            theme=None,
            key="large_map",
            alt=f"Attention map, {labels.map_title(view.kind, view.layer, view.head)}. Strongest: "
            + "; ".join(f"{maps.sentence(cell.row, cell.column)} {cell.weight:.2f}" for cell in strong[:3]),
            config={
                "displaylogo": False,
                "modeBarButtons": [["toImage"]],
                "toImageButtonOptions": {
                    "format": "png",
                    "scale": 2,
                    "filename": labels.file_stem(view.card.name, view.kind, view.layer, view.head),
                },
            },
        )
with right, st.container(gap="xsmall"):
    st.html(f"<b>All heads of layer {view.layer}</b> <span class='under'>click one to enlarge it</span>")
    st.plotly_chart(
        mosaic(maps, [layer], view.colours, across=2 if maps.heads <= 8 else 4, selected=(layer, head)),
        theme=None,
        key=OVERVIEW,
        on_select=choose_head,
        selection_mode="points",
        config={"displayModeBar": False, "doubleClick": False},
        alt=f"Small maps of all {maps.heads} heads of layer {view.layer}",
    )
    st.html(markup.checks_line(view.record.checks))
    note = remark(maps, weights)
    if note:
        st.html(markup.notice("info", note))

st.html(
    markup.table(
        f"The strongest cells of this map: {labels.map_title(view.kind, view.layer, view.head)}",
        (maps.rows.title, maps.columns.title, "weight"),
        [
            (
                f"{c.row + 1}. {maps.rows.labels[c.row]}",
                f"{c.column + 1}. {maps.columns.labels[c.column]}",
                f"{c.weight:.4f}",
            )
            for c in strong
        ],
        numeric=(2,),
    )
)
with st.expander("How to read this"):
    st.markdown(
        "Each row is a query and sums to 1: it shows how one position divides its attention over the keys in the "
        "columns. A decoder or cross row is named by the piece that is being written there; the model has by then "
        "read only the pieces before it. Attention weights say where a head looked, not how much that "
        "mattered for the result. Attention Is All You Need, Section 3.2."
    )
