"""Commits that Airflow may not have been told of: a try that comes after a commit returns that commit.

A worker may be lost between the commit and the word of it. The next try of the same DAG run, task and map index finds
nothing pending then, but it did not do nothing: what was committed is its result.
"""

from __future__ import annotations

from dataclasses import replace

from databricks_bridge.core import parameters
from databricks_bridge.core.positions import TablePosition
from databricks_bridge.core.record import COMMITS_KEPT, Claim, Commit, Record, Target
from databricks_bridge.core.task_try import TaskTry


def remembered(record: Record, commit: Commit) -> tuple[Commit, ...]:
    """The commits of this record with one more. Of each task the newest is kept, of all of them the newest few."""
    others = [one for one in record.commits if one.task is None or not _same(one.task, commit.task)]
    return (*others, commit)[-COMMITS_KEPT:]


def commit_of(record: Record | None, task: TaskTry | None) -> Commit | None:
    """What any earlier try of this task committed last, None where that is not known."""
    found = (one for one in reversed(record.commits if record else ()) if _same(one.task, task))
    return next(found, None)


def untold_commit(record: Record | None, task: TaskTry | None) -> Commit | None:
    """What an earlier try committed, where this one is its retry. A task that a person cleared processes what is pending."""
    commit = commit_of(record, task)
    again = commit is not None and commit.task is not None and task is not None and task.retries(commit.task)
    return commit if again else None


def committed_as(record: Record, token: str) -> Commit | None:
    """The commit of the claim with this token or id."""
    return next((one for one in record.commits if one.token == token), None)


def claim_again(commit: Commit, subscription: str, target: Target, record: Record) -> Claim:
    """The claim of external work as it was handed out, from its commit."""
    as_of = {one.alias: one.to.at for one in commit.ranges if isinstance(one.to, TablePosition)}
    rendered = parameters.render(subscription, commit.epoch, 0, commit.token, commit.ranges, {}, as_of=as_of)
    at = record.last_claimed_at or record.history[-1].at
    return replace(Claim(commit.ranges, commit.token, 0, target, rendered, at), task=commit.task)


def _same(one: TaskTry | None, other: TaskTry | None) -> bool:
    return one is not None and other is not None and one.instance == other.instance
