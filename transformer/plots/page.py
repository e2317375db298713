"""One record as one HTML file that opens without a network: tokens, checks, all heads, and a large map with pickers."""

from __future__ import annotations

import base64
import html
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import plotly.graph_objects as go
from plotly.offline import get_plotlyjs

from transformer.analysis.maps import KindView, kind_view
from transformer.capture.record import KINDS, AttentionRecord
from transformer.plots import labels
from transformer.plots.heatmap import attention_map, least_width, masked_weights
from transformer.plots.mosaic import mosaic
from transformer.plots.theme import LIGHT, MONO, SANS, kind_colour

_STYLE = """
body { font: 16px/1.5 %(sans)s; color: %(text)s; background: %(background)s; margin: 0 auto; max-width: 1200px;
  padding: 1.5rem; }
h1 { font-size: 1.5rem; line-height: 1.3; } h2 { font-size: 1.15rem; margin-top: 2rem; }
.pieces span { font-family: %(mono)s; background: %(surface)s; border-radius: 4px; padding: 0 .4rem;
  margin: 0 .3rem .3rem 0; display: inline-block; white-space: pre; }
.pieces small { color: %(muted)s; }
.muted { color: %(muted)s; } .good { color: %(good)s; } .bad { color: %(bad)s; }
.scroll { overflow-x: auto; } .pickers { display: flex; flex-wrap: wrap; gap: 1rem; margin: .5rem 0; }
select { font: inherit; padding: .2rem .4rem; }
"""

_SCRIPT = """
const data = JSON.parse(document.getElementById("record").textContent);
const byId = name => document.getElementById(name);
const [kind, layer, head] = ["kind", "layer", "head"].map(byId);
for (const view of Object.values(data)) {
  const bytes = Uint8Array.from(atob(view.weights), sign => sign.charCodeAt(0));
  view.values = new Float32Array(bytes.buffer);
}
function fill(select, count, first) {
  const before = Math.min(Number(select.value) || first, count);
  select.replaceChildren(...Array.from({length: count}, (_, i) => new Option(i + 1, i + 1)));
  select.value = before;
}
function draw() {
  const view = data[kind.value], [layers, heads, rows, columns] = view.shape;
  fill(layer, layers, layers); fill(head, heads, 1);
  const start = ((layer.value - 1) * heads + (head.value - 1)) * rows * columns;
  const z = Array.from({length: rows}, (_, r) =>
    Array.from(view.values.subarray(start + r * columns, start + (r + 1) * columns), w => Number.isNaN(w) ? null : w));
  const number = w => w >= 0.995 ? "1.0" : w >= 0.005 ? w.toFixed(2).slice(1) : "";
  const text = view.numbers ? z.map(row => row.map(number)) : undefined;
  const trace = {...view.figure.data[0], z, text};
  byId("map").style.minWidth = view.width + "px";
  byId("title").textContent = `${kind.value} attention · layer ${layer.value} · head ${head.value}`;
  const filename = `attention-${kind.value}-layer${layer.value}-head${head.value}`;
  const config = {responsive: true, displaylogo: false, modeBarButtons: [["toImage"]]};
  config.toImageButtonOptions = {filename, scale: 2};
  Plotly.react("map", [trace], view.figure.layout, config);
}
for (const select of [kind, layer, head]) select.addEventListener("change", draw);
for (const [name, view] of Object.entries(data)) {
  const place = byId("overview-" + name);
  Plotly.newPlot(place, view.overview.data, view.overview.layout, {responsive: true, displayModeBar: false});
  place.on("plotly_click", event => {
    const [l, h] = event.points[0].customdata;
    kind.value = name; draw(); layer.value = l; head.value = h; draw();
    byId("title").scrollIntoView({block: "start"});
  });
}
draw();
"""


def record_page(record: AttentionRecord, languages: Mapping[str, str]) -> str:
    """A whole HTML document about one record; plotly.js is inside, so the file opens offline (about 5 MB).

    Args:
        record: the captured pass.
        languages: the names under ``source`` and ``target``.
    """
    views = {kind: kind_view(record, kind, languages) for kind in KINDS}
    data = {kind: _embedded(view) for kind, view in views.items()}
    # "<" cannot appear in the JSON, so no token can end the script element
    text = json.dumps(data, ensure_ascii=False).replace("<", "\\u003c")
    colours = {**vars(LIGHT), "sans": SANS, "mono": MONO}
    overviews = "".join(
        f'<h3 style="color:{kind_colour(kind, LIGHT)}">{kind} attention</h3>'
        f'<p class="muted">rows: {_escape(view.rows.title)}; columns: {_escape(view.columns.title)}</p>'
        f'<div class="scroll"><div id="overview-{kind}"></div></div>'
        for kind, view in views.items()
    )
    options = "".join(f"<option{' selected' if kind == 'cross' else ''}>{kind}</option>" for kind in KINDS)
    source, target = languages.get("source", "source"), languages.get("target", "target")
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{_escape("Attention: " + record.source_text)}</title>
<style>{_STYLE % colours}</style>
<script>{get_plotlyjs()}</script>
</head>
<body>
<h1><span dir="auto">{_escape(record.source_text)}</span> → <span dir="auto">{_escape(record.target_text)}</span></h1>
{_pieces(source, record.source_tokens)}
{_pieces(target, record.output_tokens)}
{_checks(record)}
<h2>One head</h2>
<div class="pickers"><label>Kind <select id="kind">{options}</select></label>
<label>Layer <select id="layer"></select></label> <label>Head <select id="head"></select></label></div>
<p><b id="title"></b></p>
<div class="scroll"><div id="map"></div></div>
<p class="muted">Each row is a query and sums to 1: it shows how one position divides its attention over the keys in the
columns. Attention weights say where a head looked, not how much that mattered for the result.</p>
<h2>All heads; click one to see it above</h2>
{overviews}
<p class="muted">Weights of the model: sha256 {_escape(record.checkpoint_sha256)}</p>
<script type="application/json" id="record">{text}</script>
<script>{_SCRIPT}</script>
</body>
</html>
"""


def _embedded(view: KindView) -> dict[str, Any]:
    """What the page's script needs of one kind: figures without weights, and all weights [L, H, T, S] as float32."""
    large = attention_map(view, view.layers - 1, 0, LIGHT)
    weights = [masked_weights(view, layer, head) for layer in range(view.layers) for head in range(view.heads)]
    figure = _plain(large)
    figure["data"] = figure["data"][:1]  # the script draws one trace, and Plotly chooses the colour of its numbers
    for key in ("z", "textfont"):
        figure["data"][0].pop(key, None)
    numbers = figure["data"][0].pop("text", None) is not None
    overview = mosaic(view, range(view.layers), LIGHT, across=view.heads, tile=90)
    return {
        "shape": list(view.weights.shape),
        "weights": base64.b64encode(np.stack(weights).astype("<f4").tobytes()).decode("ascii"),
        "figure": figure,
        "numbers": numbers,
        "width": least_width(view),
        "overview": _plain(overview),
    }


def _plain(figure: go.Figure) -> dict[str, Any]:
    """A figure as JSON values without Plotly's own template."""
    values: dict[str, Any] = json.loads(figure.to_json())
    values["layout"].pop("template", None)
    return values


def _checks(record: AttentionRecord) -> str:
    lines = "".join(
        f'<li class="{"good" if check.ok else "bad"}">{"✓" if check.ok else "✗"} {_escape(check.name)}: '
        f'{check.value:.2g} (at most {check.limit:.2g}). <span class="muted">{_escape(check.detail)}</span></li>'
        for check in record.checks
    )
    return f"<details{'' if record.ok else ' open'}><summary>{_verdict(record)}</summary><ul>{lines}</ul></details>"


def _verdict(record: AttentionRecord) -> str:
    failed = sum(not check.ok for check in record.checks)
    if failed:
        return f'<b class="bad">{failed} of {len(record.checks)} checks of these numbers failed</b>'
    return f'<b class="good">All {len(record.checks)} checks of these numbers hold</b>'


def _pieces(language: str, tokens: list[str]) -> str:
    chips = "".join(f"<span>{_escape(labels.visible(token))}</span>" for token in tokens)
    return f'<p class="pieces"><small>{_escape(language)}, {len(tokens)} pieces</small><br>{chips}</p>'


def _escape(text: str) -> str:
    return html.escape(text, quote=True)
