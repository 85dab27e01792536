"""`databricks-bridge local links|switch|test-trigger|model-event`: what is asked of a running deployment, over HTTP."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from databricks_bridge.core.errors import BridgeError, InvalidArgument
from databricks_bridge.local.managing import DONE, Found, chosen, exit_code, parser_of, running
from databricks_bridge.local.rest import Rest

Answer = tuple[Any, list[str]]
"""What a word found: for programs, and as lines for people."""


def main(argv: Sequence[str]) -> int:
    """`argv` begins with the word; the exit code: 0 done, 1 nothing runs or it was refused, 2 a call that cannot work."""
    return exit_code(lambda: _said(argv))


def _said(argv: Sequence[str]) -> int:
    options = _parser(argv[0]).parse_args(argv[1:])
    value, lines = _DOES[argv[0]](options, running(options))
    print(json.dumps(value, indent=2) if options.json else "\n".join(lines))
    return DONE


def _links(options: argparse.Namespace, found: Found) -> Answer:
    wanted = [_chosen(options, found)] if options.workspace else list(found.workspaces().values())
    links = {rest.name: rest.call("POST", "/local/sign-in-links") for rest in wanted}
    lines = [f"{name}: {link['url']}" for name, link in links.items()]
    minutes = min((int(link["expires_in"]) // 60 for link in links.values()), default=0)
    return links, [*lines, f"Each opens the pages of its workspace once, within {minutes} minutes."]


def _switch(options: argparse.Namespace, found: Found) -> Answer:
    rest = next(iter(found.workspaces().values()), None)
    if rest is None:
        raise BridgeError(f"the deployment in {found.home} is not ready yet")
    if options.name is None:
        switches = rest.call("GET", "/local/switches")
    elif options.value is None:
        raise InvalidArgument(f"{options.name} on or off?")
    else:
        switches = rest.call("POST", "/local/switches", {options.name: options.value == "on"})
    return switches, [f"{name}: {'on' if on else 'off'}" for name, on in switches.items()]


def _test_trigger(options: argparse.Namespace, found: Found) -> Answer:
    rest = _chosen(options, found)
    job_id = int(options.job) if options.job.isascii() and options.job.isdigit() else rest.job_id(options.job)
    if job_id is None:
        raise InvalidArgument(f"the workspace {rest.name} has no job named {options.job}")
    triggers = rest.call("POST", "/local/test-trigger", {"job_id": job_id})["triggers"]
    lines = [_line(trigger) for trigger in triggers] or ["the job has no trigger"]
    return {"job_id": job_id, "triggers": triggers}, lines


def _model_event(options: argparse.Namespace, found: Found) -> Answer:
    body = {"event": options.event, "model": options.model, "alias": options.alias}
    happened = _chosen(options, found).call("POST", "/local/model-events", body)
    return happened, [f"{happened['event']} of {happened['model']}"]


_DOES: Mapping[str, Callable[[argparse.Namespace, Found], Answer]] = {
    "links": _links,
    "switch": _switch,
    "test-trigger": _test_trigger,
    "model-event": _model_event,
}


def _line(trigger: Mapping[str, Any]) -> str:
    paused = " (it is paused)" if trigger["pause_status"] == "PAUSED" else ""
    return f"{'would fire' if trigger['would_fire'] else 'would not fire'}: {trigger['description']}{paused}"


def _chosen(options: argparse.Namespace, found: Found) -> Rest:
    return chosen(found.workspaces(), options.workspace)


def _parser(word: str) -> argparse.ArgumentParser:
    texts = {
        "links": "links that sign a browser in to the pages of each workspace, once",
        "switch": "the switches of the deployment, or set one of them",
        "test-trigger": "what the triggers of a job would do now, and why; it starts nothing",
        "model-event": "say that something happened to a model: there is no registry here",
    }
    parser = parser_of(word, texts[word])
    parser.add_argument("--json", action="store_true", help="print JSON")
    if word != "switch":
        parser.add_argument("--workspace", metavar="NAME", help="this one alone, or which where there are several")
    if word == "switch":
        parser.add_argument("name", nargs="?", metavar="NAME", help="such as every_commit")
        parser.add_argument("value", nargs="?", choices=("on", "off"))
    if word == "test-trigger":
        parser.add_argument("job", metavar="JOB", help="its id or exact name")
    if word == "model-event":
        parser.add_argument("event", metavar="EVENT", help="MODEL_CREATED, MODEL_VERSION_READY or MODEL_ALIAS_SET")
        parser.add_argument("model", metavar="MODEL", help="catalog.schema.model")
        parser.add_argument("--alias", help="of MODEL_ALIAS_SET")
    return parser
