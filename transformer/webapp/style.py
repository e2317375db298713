"""The app's style sheet, made from the palette so that pictures and page always agree."""

from __future__ import annotations

import dataclasses

from transformer.plots.theme import MONO, Palette

_SEGMENTS = ":is(.st-key-pickers, .st-key-views, .st-key-choices, .st-key-shown_strategy)"
"""Where radio buttons are dressed as segments; ``@segments`` in the rules."""
_IN_LINE = ":is(.st-key-pickers, .st-key-views)"
"""Where their label stands beside them; ``@in_line``."""
_RULES = """
[class*="st-key-hidden"], [data-testid="stLayoutWrapper"]:has(> [class*="st-key-hidden"]) { display: none; }
.st-key-heads_pickers :is(.st-key-views, .st-key-kind, .st-key-more_choices) { display: none; }
[class*="st-key-scroll_"] { overflow-x: auto; }
.stMainBlockContainer { padding: 2.4rem 2.5rem 3rem; max-width: 1360px; }
.st-key-examples { margin-top: -0.7rem; column-gap: 1.1rem; flex-wrap: nowrap; overflow-x: auto; scrollbar-width: thin;
  mask-image: linear-gradient(to right, black calc(100% - 2.5rem), transparent); padding-right: 2.5rem; }
.st-key-examples > * { flex: none; }
.st-key-examples button { padding: 0; min-height: 1.4rem; text-align: left; color: var(--muted); }
.st-key-examples button p { font-size: .86rem; text-decoration: underline; text-underline-offset: 3px;
  text-decoration-color: var(--line); }
.st-key-examples button:hover { color: var(--text); }
@segments [data-testid="stRadioGroup"] { gap: 0; padding: 0; min-height: 0; width: fit-content;
  border: 1px solid var(--line); border-radius: 6px; overflow: hidden; }
@segments [data-testid="stRadioOption"] { padding: .35rem .85rem; margin: 0; cursor: pointer; }
@segments [data-testid="stRadioOption"] > div > div:first-child:not([data-testid]) { display: none; }
@segments [data-testid="stRadioOption"]:has(input:checked) { background: var(--text); }
@segments [data-testid="stRadioOption"]:has(input:checked) p { color: var(--background); font-weight: 600; }
@segments [data-testid="stRadioOption"]:has(input:focus-visible) { box-shadow: inset 0 0 0 3px var(--cross); }
@in_line [data-testid="stRadio"] { display: flex; align-items: center; gap: .55rem; }
@in_line [data-testid="stRadio"] > label { margin: 0; min-height: 0; color: var(--muted);
  white-space: nowrap; flex: none; }
.st-key-choices { min-width: min(35rem, 78vw); }
.st-key-target_choice { min-width: min(22rem, 78vw); }
.name { font-size: .88rem; color: var(--muted); margin-bottom: -.4rem; }
.name b { color: var(--text); margin-right: .5rem; }
.direction { color: var(--muted); font-size: .86rem; margin-top: -.6rem; white-space: nowrap; }
.about { color: var(--muted); font-size: .8rem; line-height: 1.25; }
.notice { border-left: 4px solid var(--muted); background: var(--surface); color: var(--text);
  padding: .6rem .9rem; border-radius: 4px; overflow-wrap: anywhere; white-space: pre-line; }
.notice-warning { border-color: var(--warning); }
.notice-error { border-color: var(--bad); }
.ribbon { border: 1px solid var(--line); border-radius: 8px; padding: .5rem .8rem; min-height: 5.2rem;
  display: grid; gap: .35rem; max-height: 13rem; overflow-y: auto; }
.ribbon .row { display: grid; grid-template-columns: 7.4rem 1fr; align-items: baseline; }
.tongue { color: var(--muted); font-weight: 600; font-size: .86rem; overflow-wrap: anywhere; }
.chips { display: flex; flex-wrap: wrap; gap: .3rem; padding: 2px; min-width: 0; }
.chip { unicode-bidi: plaintext; }
.chip { font-family: var(--mono); font-size: .88rem; line-height: 1.5; padding: 0 .4rem; border-radius: 4px;
  background: var(--surface); color: var(--text); cursor: default; white-space: pre; max-width: 100%;
  overflow: hidden; text-overflow: ellipsis; flex: none; }
.chip.shaded { background: color-mix(in srgb, var(--probability) calc(var(--share) * .55), var(--background)); }
.chip.special { color: var(--muted); }
.chip.shaded.special { color: var(--text); }
.chip u { text-decoration: underline; text-decoration-color: var(--bad); text-decoration-thickness: 2px;
  text-underline-offset: 3px; }
.chip:focus-visible, .chip:focus { outline: 2px solid var(--text); outline-offset: 1px; }
.chip small { display: block; font-size: .74rem; color: var(--text); text-align: center; }
.sure .chip { padding: .2rem .5rem; font-size: 1rem; text-align: center; }
.chip.looked { background: color-mix(in srgb, var(--cross) calc(var(--share) * .6), var(--background)); }
.chip.muted { text-decoration: line-through; opacity: .7; }
.chip.closed { min-width: 2rem;
  background: repeating-linear-gradient(45deg, var(--line) 0 2px, var(--masked) 2px 7px); }
.chip.newest { outline: 2px solid var(--text); outline-offset: 1px; font-weight: 600; }
.chip.later { opacity: .45; }
.chip.picked, .chip.typed { border-bottom: 3px solid var(--decoder); }
.way { display: grid; gap: .35rem; min-height: 3.6rem; }
.translation { font-size: 1.75rem; line-height: 1.3; font-weight: 600; overflow-wrap: anywhere; }
.under { color: var(--muted); font-size: .92rem; }
.attempt { border-top: 1px solid var(--line); padding-top: .4rem; color: var(--text); max-width: 48rem; }
.attempt b { color: var(--cross); margin-right: .4rem; }
.kind { font-size: 1rem; }
.kind i { display: inline-block; width: .75rem; height: .75rem; border-radius: 2px; margin-right: .45rem; }
.stMain [data-testid="stPageLink-NavLink"] { padding-left: 0; }
.stMain [data-testid="stPageLink-NavLink"] p { text-decoration: underline; text-underline-offset: 3px; }
.st-key-examples_flawed button p, .st-key-own_translation button p { text-decoration: underline;
  text-underline-offset: 3px; }
.checks { font-size: .88rem; color: var(--muted); }
.checks summary { font-weight: 600; cursor: pointer; }
.checks ul { list-style: none; margin: .3rem 0 0; padding: 0; }
.good { color: var(--good); }
.bad { color: var(--bad); }
.checks small { color: var(--muted); }
.scroll { overflow-x: auto; }
table.figures { border-collapse: collapse; font-size: .92rem; }
.under + .scroll { margin-top: .9rem; }
table.figures caption { text-align: left; color: var(--muted); padding-bottom: .3rem; }
table.figures th { text-align: left; font-weight: 600; color: var(--muted); }
table.figures th, table.figures td { padding: .25rem .9rem .25rem 0; border-bottom: 1px solid var(--line);
  vertical-align: top; }
table.figures .number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
table.figures td { color: var(--text); }
@media (max-width: 640px) {
  .stMainBlockContainer { padding: 3.6rem 1rem 2rem; }
  .ribbon .row { grid-template-columns: 1fr; }
  .translation { font-size: 1.35rem; }
}
"""


def style_sheet(colours: Palette) -> str:
    """A ``<style>`` element with the palette as variables and the rules of every page."""
    values = {key: value for key, value in dataclasses.asdict(colours).items() if key != "name"}
    variables = "".join(f"--{key}:{value};" for key, value in values.items())
    rules = _RULES.replace("@segments", _SEGMENTS).replace("@in_line", _IN_LINE)
    return f"<style>:root{{{variables}--mono:{MONO};}}{rules}</style>"
