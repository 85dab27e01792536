"""Shows the proof and says whether it holds."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from demo.history import Facts, Verdict

CHECKS = (
    "the ranges cut every version of both sources into pieces, in order, nothing left out, nothing done twice",
    "the killed task came back as try 2 and followed the run that try 1 had started",
    "data that came while a gold run was under way was left to the next claim",
    "Databricks started every bronze and silver run by itself",
    "at most one audit run for each bronze run",
    "gold equals gold computed once from all raw records by plain pandas",
)


def show(console: Console, facts: Facts, verdict: Verdict) -> None:
    """Everything but the last line."""
    console.print(_ranges(verdict))
    console.print(_starts(facts))
    if verdict.holds:
        _show_kill(console, facts)
        for check in CHECKS:
            console.print(f" ok {check}", highlight=False, markup=False)
        console.print(f"    gold: {len(facts.gold)} hours, all equal", highlight=False, markup=False)
    for finding in verdict.findings[:20]:
        console.print(f"  x {finding}", highlight=False, markup=False, soft_wrap=True)
    if len(verdict.findings) > 20:
        console.print(f"  x and {len(verdict.findings) - 20} more", highlight=False, markup=False)


def _show_kill(console: Console, facts: Facts) -> None:
    if facts.killed is not None:
        tries = ", ".join(f"try {number} {state}" for number, state in facts.killed.tries)
        console.print(
            f"    killed: {facts.killed.dag_run}: {tries}; run {facts.killed.run_id_at_kill} before, "
            f"{facts.killed.run_id_now} after",
            highlight=False,
            markup=False,
            soft_wrap=True,
        )


def _ranges(verdict: Verdict) -> Table:
    table = Table(
        title="Ranges committed: of each gold run, one for each source",
        caption="rows in: changes of that source in the range; rows out: hours of gold that the run wrote",
        title_justify="left",
        caption_justify="left",
    )
    for column in ("source", "(from, to]", "run", "generation"):
        table.add_column(column)
    table.add_column("rows in", justify="right")
    table.add_column("rows out", justify="right")
    for line in verdict.committed:
        table.add_row(
            line.range.alias,
            f"({line.range.start}, {line.range.end}]",
            str(line.run.run_id),
            line.run.generation,
            str(line.run.rows_in.get(line.range.alias, "")),
            str(line.run.rows_out),
        )
    return table


def _starts(facts: Facts) -> Table:
    table = Table(title="Who started what", title_justify="left")
    for column in ("workspace", "job", "started by"):
        table.add_column(column)
    table.add_column("runs", justify="right")
    counts: dict[tuple[str, str, str], int] = {}
    for run in facts.fired_runs:
        key = (run.workspace, run.job, run.trigger)
        counts[key] = counts.get(key, 0) + 1
    for (workspace, job, trigger), count in counts.items():
        table.add_row(workspace, job, trigger, str(count))
    table.add_row("analytics", "delays-by-weather", "Airflow", str(len(facts.gold_runs)))
    table.add_row("ops", "bronze-audit", "Airflow", str(len(facts.audit_runs)))
    return table
