"""Templated arguments: what is known at parse is checked there, the rest after rendering, and nothing is started before."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk import DAG, XComArg, task, task_group

from databricks_bridge import DatabricksIncrementalRunOperator
from databricks_bridge.core.errors import InvalidArgument, LedgerError, NotFound
from databricks_bridge.core.parameters import of_run
from tests.operators.conftest import DELAYS, SOON, Bench


def operator(**arguments: Any) -> DatabricksIncrementalRunOperator:
    given: dict[str, Any] = {"task_id": "t", "subscription": DELAYS, "job_name": "gold", "poll_interval": SOON}
    return DatabricksIncrementalRunOperator(**(given | arguments))


def rendered(one: DatabricksIncrementalRunOperator, **context: Any) -> DatabricksIncrementalRunOperator:
    with DAG("d", max_active_runs=1):
        one.render_template_fields(context)
    return one


def test_every_template_field_is_rendered() -> None:
    one = rendered(
        operator(
            databricks_conn_id="{{ x }}",
            job_name="{{ x }}",
            job_parameters={"region": "{{ x }}"},
            range={"flights": ("{{ x }}", "{{ x }}")},
            on_nothing_new="{{ x }}",
            max_generations="{{ x }}",
        ),
        x="7",
    )
    assert (one.databricks_conn_id, one.job_name, one.job_parameters) == ("7", "7", {"region": "7"})
    assert (one.range, one.on_nothing_new, one.max_generations) == ({"flights": ("7", "7")}, "7", "7")
    assert rendered(operator(job_name=None, job_id="{{ x }}"), x="7").job_id == "7"


def test_rendered_arguments_reach_the_run(bench: Bench) -> None:
    one = bench.operator(
        job_name=None,
        job_id="{{ job }}",
        databricks_conn_id="{{ conn }}",
        job_parameters={"region": "{{ region }}"},
        range='{"flights": [{{ from_ }}, {{ to }}]}',
        max_generations="{{ most }}",
    )
    bench.run(rendered(one, job=bench.job_id, conn="gold", region="NY", from_=-1, to="0", most=2))
    (run,) = bench.runs()
    assert (of_run(run)["region"], bench.bounds()) == ("NY", [(-1, 0)])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"job_name": None, "job_id": "{{ x }}"}, "job_id of DatabricksIncrementalRunOperator is 'gold-job'"),
        ({"job_parameters": "{{ x }}"}, "job_parameters is str; give a mapping"),
        ({"range": "{{ x }}"}, "range is the text 'gold-job', which is no JSON"),
        ({"range": {"flights": ("{{ x }}", 7)}}, "range of flights has the version 'gold-job'"),
        ({"on_nothing_new": "{{ x }}"}, "on_nothing_new is 'gold-job'"),
        ({"max_generations": "{{ x }}"}, "max_generations is 'gold-job'"),
    ],
    ids=lambda one: next(iter(one)) if isinstance(one, dict) else "",
)
def test_a_template_that_renders_to_nonsense_starts_nothing(bench: Bench, arguments: Any, words: str) -> None:
    one = rendered(bench.operator(**arguments), x="gold-job")
    with pytest.raises(InvalidArgument, match=words):
        bench.run(one)
    assert (bench.runs(), bench.store.rows) == ([], {})


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"job_name": None}, "needs exactly one of job_id and job_name"),
        ({"job_id": "{{ x }}"}, "needs exactly one of job_id and job_name"),
        ({"job_name": None, "job_id": "gold"}, "give the job's number"),
        ({"job_parameters": {"bridge_token": "{{ x }}"}}, "begin with bridge_"),
        ({"job_parameters": {"flights_end": "{{ x }}"}}, "which the claim itself sets"),
        ({"max_generations": "0"}, "max_generations is '0'"),
        ({"max_generations": True}, "max_generations is True"),
        ({"postcondition": "{{ x }}"}, "postcondition is"),
    ],
)
def test_what_is_known_at_parse_is_refused_at_parse(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidArgument, match=words):
        operator(**arguments)


def test_the_output_of_another_task_is_waited_for() -> None:
    with DAG("d", max_active_runs=1):

        @task
        def given() -> Any:
            return None

        output: Any = given()
        assert isinstance(output, XComArg)
        one = operator(job_parameters=output, range=output)
        assert {up.task_id for up in one.upstream_list} == {"given"}
        two = operator(task_id="u", job_parameters={"region": output}, range={"flights": output})
        assert {up.task_id for up in two.upstream_list} == {"given"}


def test_A15_parameters_of_another_kind_are_refused_before_anything_is_called() -> None:
    """`notebook_params` and the like cannot be mixed with the job parameters that tell a run its range."""
    for other in ("notebook_params", "python_params", "jar_params"):
        with pytest.raises(TypeError, match=other):
            operator(**{other: {"region": "NY"}})


def test_A15_an_empty_mapping_is_respected_and_no_params_of_the_dag_are_added(bench: Bench) -> None:
    with DAG("d", max_active_runs=1, params={"env": "prod", "region": "NY"}):
        one = bench.operator(job_parameters={})
    bench.run(one)
    (run,) = bench.runs()
    assert "env" not in of_run(run)
    assert of_run(run)["region"] == ""
    assert {name for name, value in of_run(run).items() if value} == {
        "bridge_subscription",
        "bridge_epoch",
        "bridge_generation",
        "bridge_token",
        "bridge_ranges",
        "bridge_full_rebuild",
        "flights_table",
        "flights_start",
        "flights_end",
        "flights_as_of",
    }


def test_A14_a_job_that_is_named_twice_is_an_error_with_both_ids_and_none_is_created(bench: Bench) -> None:
    other = bench.api.post("create", name="gold", tasks=[], parameters=[])["job_id"]
    with pytest.raises(InvalidArgument, match=rf"2 jobs .*{bench.job_id}, {other}"):
        bench.run()
    with pytest.raises(NotFound, match="no job called 'Gold'"):
        bench.run(bench.operator(job_name="Gold"))
    assert len(bench.api.get("list")["jobs"]) == 2


def test_in_a_task_group_claim_and_commit_find_each_other() -> None:
    with DAG("d", max_active_runs=1):

        @task_group
        def partner() -> None:
            DELAYS.claim() >> DELAYS.commit()
            operator(task_id="consume")

        partner()
        other = DELAYS.claim(task_id="again").operator
    assert other.dag.task_ids == ["partner.claim_delays", "partner.commit_delays", "partner.consume", "again"]
    assert other.dag.get_task("partner.consume").inlets == [DELAYS.asset]


def test_claim_and_commit_in_a_task_group_pass_the_claim_on(bench: Bench) -> None:
    with DAG("d", max_active_runs=1):

        @task_group
        def partner() -> None:
            DELAYS.claim() >> DELAYS.commit()

        partner()
        dag: Any = DELAYS.claim(task_id="other").operator.dag
    claim, commit = (dag.get_task(f"partner.{name}_delays") for name in ("claim", "commit"))
    claimed = claim.execute(bench.context(claim))
    context = bench.context(commit)
    handed_out = {"partner.claim_delays": claimed}
    context["ti"].xcom_pull = lambda task_ids: handed_out.get(task_ids)
    done = commit.execute(context)
    assert done["claim"] == claimed["claim"]
    assert bench.watermark() == 0


def test_E13_a_mapped_operator_unmaps_into_instances_of_their_own(bench: Bench) -> None:
    bench.commit()
    with DAG("d", max_active_runs=1):
        mapped: Any = DatabricksIncrementalRunOperator.partial(
            task_id="t",
            subscription=DELAYS,
            databricks_conn_id="gold",
            job_name="gold",
            inlets=[DELAYS.asset],
            poll_interval=SOON,
        ).expand(range=[{"flights": [-1, 0]}, {"flights": [0, 1]}])
    assert mapped.inlets == [DELAYS.asset]
    for index, bounds in enumerate(({"flights": [-1, 0]}, {"flights": [0, 1]})):
        one = mapped.unmap({"range": bounds})
        assert one.inlets == [DELAYS.asset]
        bench.run(one, map_index=index)
    assert bench.bounds() == [(-1, 0), (0, 1)]
    assert bench.store.rows == {}


def test_a_mapped_operator_without_the_inlet_says_what_to_add_and_starts_nothing(bench: Bench) -> None:
    with DAG("d", max_active_runs=1):
        mapped: Any = DatabricksIncrementalRunOperator.partial(
            task_id="t", subscription=DELAYS, databricks_conn_id="gold", job_name="gold"
        ).expand(job_parameters=[{"region": "NY"}])
    one = mapped.unmap({"job_parameters": {"region": "NY"}})
    with pytest.raises(
        LedgerError, match=r"mapped task 't' lacks the inlet .*inlets=\[subscription\.asset\] to partial\(\)"
    ):
        bench.run(one, map_index=0)
    assert (bench.runs(), bench.store.rows) == ([], {})


def test_in_a_mapped_task_group_the_operator_brings_its_inlet(bench: Bench) -> None:
    with DAG("d", max_active_runs=1):

        @task_group
        def each(region: str) -> None:
            operator(task_id="consume", databricks_conn_id="gold", job_parameters={"region": "NY"})

        each.expand(region=["NY", "CA"])
        dag: Any = DELAYS.claim(task_id="other").operator.dag
    one = dag.get_task("each.consume")
    assert one.inlets == [DELAYS.asset]
    bench.run(one, map_index=1)
    assert bench.watermark() == 0
