"""The pages that a person sees: one document around them, which says what this is. No assets from anywhere else."""

from __future__ import annotations

import html

_STYLE = """
:root { color-scheme: light dark; --ink: #1d2733; --soft: #5a6675; --line: #d8dee6; --ground: #f6f8fa; --card: #ffffff;
  --note: #fff4d6; --note-ink: #5c4300; --good: #1a6b3c; --bad: #b3261e; --busy: #1f5fbf; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6eaf0; --soft: #9aa7b6; --line: #333e4c; --ground: #12171e; --card: #1a212b;
    --note: #3a2f10; --note-ink: #f3d98b; --good: #6fcf97; --bad: #ff8a80; --busy: #8ab4f8; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
.note { background: var(--note); color: var(--note-ink); padding: .6rem 1.5rem; }
main { max-width: 64rem; margin: 0 auto; padding: 1.5rem; }
h1 { font-size: 1.5rem; margin: 0 0 .25rem; overflow-wrap: anywhere; }
h2 { font-size: 1.05rem; margin: 2rem 0 .5rem; }
p { margin: .5rem 0; }
.soft { color: var(--soft); }
.state { font-weight: 600; }
.good { color: var(--good); } .bad { color: var(--bad); } .busy { color: var(--busy); }
.wide { overflow-x: auto; background: var(--card); border: 1px solid var(--line); border-radius: 6px; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .45rem .9rem; border-top: 1px solid var(--line); }
tr:first-child > * { border-top: 0; }
th { color: var(--soft); font-weight: 500; white-space: nowrap; }
td { overflow-wrap: break-word; }
a { color: var(--busy); }
code, .code { font: 13px/1.5 ui-monospace, monospace; overflow-wrap: anywhere; }
.id { font-variant-numeric: tabular-nums; white-space: nowrap; }
"""


def document(title: str, body: str, *, head: str = "") -> str:
    """A whole page. `title` is text; `body` and `head` are HTML, whose parts have been through `text`."""
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><title>{text(title)}</title>'
        f"<style>{_STYLE}</style>{head}</head><body>"
        '<div class="note">This is a <b>local stand-in, not Databricks</b>: for development and tests, on this machine '
        f"only.</div><main>{body}</main></body></html>"
    )


def text(value: object) -> str:
    return html.escape(str(value))
