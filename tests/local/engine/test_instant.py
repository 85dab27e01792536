from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from databricks_bridge.local.engine import InstantEngine, NotebookResult, NotebookRun

DONE = NotebookResult(succeeded=True, exit_value="1", error=None, error_trace=None)
RUN = NotebookRun(1, "t", Path("m"), Path("v"), Path("n.py"), {}, "http://127.0.0.1:1", "dapi-secret", Path("log"))


async def test_a_plain_or_an_async_function_answers() -> None:
    async def later(request: NotebookRun) -> NotebookResult:
        return DONE

    for engine in (InstantEngine(lambda request: DONE), InstantEngine(later)):
        await engine.start()
        assert await engine.run(RUN) is DONE
        await engine.close()


def test_the_token_is_not_in_the_repr() -> None:
    assert "dapi-secret" not in repr(RUN)


def test_importing_the_engine_imports_no_spark() -> None:
    program = (
        "import sys; from databricks_bridge.local.engine import SparkEngine, InstantEngine; "
        "sys.exit(int('pyspark' in sys.modules or 'pandas' in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
