"""How the pages look: one sheet for all, light or dark as the system is."""

STYLE = """
:root { color-scheme: light dark; --ink: #1d2733; --soft: #556172; --line: #d5dce4; --ground: #f6f8fa; --card: #ffffff;
  --note: #fff4d6; --note-ink: #5c4300; --good: #1a6b3c; --bad: #b3261e; --busy: #1f5fbf; --on-busy: #ffffff; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6eaf0; --soft: #a3b0bf; --line: #36424f; --ground: #12171e; --card: #1a212b;
    --note: #3a2f10; --note-ink: #f3d98b; --good: #6fcf97; --bad: #ff8a80; --busy: #8ab4f8; --on-busy: #10233f; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
.note { background: var(--note); color: var(--note-ink); padding: .5rem 1rem; text-align: center; font-size: .875rem; }
.top { border-bottom: 1px solid var(--line); background: var(--card); }
.top > div { max-width: 68rem; margin: 0 auto; padding: .35rem 1rem; display: flex; flex-wrap: wrap; align-items: center;
  gap: .25rem 1.25rem; }
.top b { overflow-wrap: anywhere; }
.top nav { display: flex; flex-wrap: wrap; gap: .25rem; flex: 1; }
.top nav a { padding: .3rem .6rem; border-radius: 6px; text-decoration: none; color: var(--ink); }
.top nav a:hover { background: var(--ground); }
.top nav a[aria-current] { background: var(--ground); box-shadow: inset 0 -2px var(--busy); font-weight: 600; }
main { max-width: 68rem; margin: 0 auto; padding: 1.25rem 1rem 3rem; }
main.narrow { max-width: 30rem; }
h1 { font-size: 1.5rem; line-height: 1.25; margin: 0 0 .5rem; overflow-wrap: anywhere; }
h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
h3 { font-size: 1rem; margin: 1.25rem 0 .5rem; overflow-wrap: anywhere; }
p { margin: .5rem 0; overflow-wrap: anywhere; }
.soft { color: var(--soft); }
.state { font-weight: 600; white-space: nowrap; }
.good { color: var(--good); } .bad { color: var(--bad); } .busy { color: var(--busy); }
.wide { overflow-x: auto; background: var(--card); border: 1px solid var(--line); border-radius: 6px; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .45rem .8rem; border-top: 1px solid var(--line); }
tr:first-child > *, thead + tbody > tr:first-child > * { border-top: 0; }
thead th { border-bottom: 1px solid var(--line); }
th { color: var(--soft); font-weight: 500; white-space: nowrap; }
tbody th { width: 12rem; }
td { overflow-wrap: break-word; }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
a { color: var(--busy); }
code, .code { font: 13px/1.5 ui-monospace, monospace; overflow-wrap: anywhere; }
pre { margin: 0; padding: .75rem; white-space: pre-wrap; }
thead + tbody .code { overflow-wrap: break-word; }
.id { font-variant-numeric: tabular-nums; white-space: nowrap; }
.said { border: 1px solid var(--line); border-left: 4px solid var(--busy); background: var(--card); border-radius: 6px;
  padding: .5rem .9rem; margin: .75rem 0; overflow-wrap: anywhere; }
.said.bad { border-left-color: var(--bad); } .said.good { border-left-color: var(--good); }
.said > :first-child { margin-top: 0; } .said > :last-child { margin-bottom: 0; }
.row:empty { display: none; }
.row { display: flex; flex-wrap: wrap; gap: .5rem; margin: .75rem 0; align-items: end; }
button { font: inherit; padding: .35rem .9rem; border-radius: 6px; border: 1px solid var(--busy); cursor: pointer;
  background: var(--busy); color: var(--on-busy); }
button.quiet { background: var(--card); color: var(--busy); }
:is(a, button, input, textarea, select, summary, [tabindex]):focus-visible { outline: 3px solid var(--busy);
  outline-offset: 2px; border-radius: 4px; }
.fields { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(16rem, 100%), 1fr)); gap: .75rem 1rem;
  background: var(--card); border: 1px solid var(--line); border-radius: 6px; padding: .9rem; }
.fields .whole { grid-column: 1 / -1; }
label { display: block; font-weight: 500; overflow-wrap: anywhere; }
label .soft { font-weight: 400; }
input, textarea, select { font: inherit; color: inherit; background: var(--ground); border: 1px solid var(--soft);
  border-radius: 6px; padding: .35rem .5rem; width: 100%; max-width: 100%; min-height: 2.3rem; }
.row input, .row select { width: auto; }
input[type=checkbox] { width: auto; min-height: 0; margin: 0 .4rem 0 0; }
textarea { font: 13px/1.5 ui-monospace, monospace; min-height: 6rem; resize: vertical; }
[aria-invalid] { border-color: var(--bad); }
summary { cursor: pointer; color: var(--busy); }
details > .wide { margin-top: .5rem; }
@media (max-width: 40rem) {
  th, td { padding: .4rem .6rem; }
  tbody th { width: 9rem; white-space: normal; overflow-wrap: anywhere; }
  .top b { flex: 1; }
  .top nav { order: 1; flex-basis: 100%; }
  .top nav a { padding: .3rem .45rem; } }
"""
