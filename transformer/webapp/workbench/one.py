"""One map, large: with its numbers, followed rows and columns, and the heads of its layer beside it."""

from __future__ import annotations

import streamlit as st

from transformer.analysis.maps import KindView, strongest_cells
from transformer.plots.heatmap import attention_map, least_width
from transformer.plots.mosaic import mosaic
from transformer.plots.rows import row_bars
from transformer.webapp import markup
from transformer.webapp.choices import SETS, as_one, map_name
from transformer.webapp.frame import View
from transformer.webapp.remarks import remark
from transformer.webapp.workbench.pictures import choose_head, picture

OVERVIEW = "heads_overview"


def show(view: View, maps: KindView) -> None:
    """Draw the view."""
    single, layer, head = as_one(maps, view.layer - 1, view.head - 1, view.choices)
    weights = single.weights[layer, head]
    title = map_name(view.kind, view.layer, view.head, view.choices)
    strong = [cell for cell in strongest_cells(weights, 8) if cell.weight >= 0.005]
    left, right = st.columns([5, 3], gap="medium")
    with left, st.container(gap="xxsmall"):
        st.html(f"<b>{markup.escape(title)}</b>")
        rows, columns = _followed(maps)
        picture(
            attention_map(
                single, layer, head, view.colours, stretched=view.choices.stretched, rows=rows, columns=columns
            ),
            "large_map",
            f"{view.card.name} {title}",
            f"Attention map, {title}. Strongest: "
            + "; ".join(f"{maps.sentence(cell.row, cell.column)} {cell.weight:.2f}" for cell in strong[:3]),
            least_width(single),
        )
        if rows:
            picture(
                row_bars(single, layer, head, rows, view.colours),
                "followed_rows",
                f"{view.card.name} {title} rows",
                "Bars: what the followed queries together give to each key",
                least_width(single),
            )
    with right, st.container(gap="xsmall"):
        st.html(f"<b>All heads of layer {view.layer}</b> <span class='under'>click one to enlarge it</span>")
        st.plotly_chart(
            mosaic(
                maps,
                [view.layer - 1],
                view.colours,
                across=2 if maps.heads <= 8 else 4,
                selected=(view.layer - 1, view.head - 1),
            ),
            theme=None,
            key=OVERVIEW,
            on_select=lambda: choose_head(OVERVIEW),
            selection_mode="points",
            config={"displayModeBar": False, "doubleClick": False},
            alt=f"Small maps of all {maps.heads} heads of layer {view.layer}",
        )
        st.html(markup.checks_line(view.record.checks))
        note = remark(maps, weights) if view.choices.combine == SETS[0] else ""
        if note:
            st.html(markup.notice("info", note))
    st.html(
        markup.table(
            f"The strongest cells of this map: {title}",
            (maps.rows.title, maps.columns.title, single.measure),
            [
                (
                    f"{cell.row + 1}. {maps.rows.labels[cell.row]}",
                    f"{cell.column + 1}. {maps.columns.labels[cell.column]}",
                    f"{cell.weight:.4f}",
                )
                for cell in strong
            ],
            numeric=(2,),
        )
    )


def _followed(maps: KindView) -> tuple[list[int], list[int]]:
    """Queries and keys to outline; of the queries the sum is drawn as well."""
    with st.container(horizontal=True, key="followed", gap="small"):
        rows = st.multiselect(
            "Follow queries",
            range(len(maps.rows.labels)),
            format_func=lambda row: f"{row + 1}. {maps.rows.labels[row]}",
            key=f"follow_rows_{maps.kind}_{len(maps.rows.labels)}",
            placeholder="outline rows and add them up",
        )
        columns = st.multiselect(
            "Follow keys",
            range(len(maps.columns.labels)),
            format_func=lambda column: f"{column + 1}. {maps.columns.labels[column]}",
            key=f"follow_columns_{maps.kind}_{len(maps.columns.labels)}",
            placeholder="outline columns",
        )
    return list(rows), list(columns)
