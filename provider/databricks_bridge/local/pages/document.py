"""One document around every page, which says what this is, and the headers that go with it. No assets from anywhere."""

from __future__ import annotations

import base64
import hashlib
import html
from collections.abc import Mapping

from databricks_bridge.local.pages.style import STYLE

SHOW_RUN = r"""
function show() {
  const run = /^#job\/\d+\/run\/(\d+)$/.exec(location.hash);
  const line = document.getElementById("run"), link = line.querySelector("a");
  line.hidden = run === null;
  if (run) { link.href = "/local/runs/" + run[1]; link.textContent = "run " + run[1]; }
}
addEventListener("hashchange", show);
show();
"""
"""The part of an address after its # never reaches a server, so the link to the run's page is made in the browser."""
KEEP_RUN = r"""
const run = /^#job\/\d+\/run\/(\d+)$/.exec(location.hash);
if (run) document.querySelector("input[name=next]").value = "/local/runs/" + run[1];
"""
"""Whoever followed a link to a run and has to sign in first comes out at that run."""


def document(title: str, body: str, *, head: str = "", top: str = "", main: str = "") -> str:
    """A whole page. `title` is text; `body`, `head` and `top` are HTML, whose parts have been through `text`.

    `main` is the class of the page's main part.
    """
    kind = f' class="{main}"' if main else ""
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><title>{text(title)}</title>'
        f"<style>{STYLE}</style>{head}</head><body>"
        '<div class="note">This is a <b>local stand-in, not Databricks</b>: for development and tests, on this machine '
        f"only.</div>{top}<main{kind}>{body}</main></body></html>"
    )


def text(value: object) -> str:
    """`value` as text that may stand anywhere in HTML, attributes too."""
    return html.escape(str(value))


def script(source: str) -> str:
    return f"<script>{source}</script>"


def headers() -> Mapping[str, str]:
    """What every page is sent with: it runs these scripts alone, loads nothing, is framed by nobody and kept nowhere.

    The referrer is kept for this site: with "no-referrer" browsers would send forms from the origin "null".
    """
    scripts = " ".join(map(_hashed, (SHOW_RUN, KEEP_RUN)))
    return {
        "Content-Security-Policy": f"default-src 'none'; style-src {_hashed(STYLE)}; script-src {scripts}; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
        "Cache-Control": "no-store",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Referrer-Policy": "same-origin",
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
    }


def _hashed(source: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()}'"
