"""What our sensors share: one look, in the worker or, deferred, in the triggerer, with the same answer."""

from __future__ import annotations

import asyncio
import time
from abc import abstractmethod
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeAlias

from airflow.sdk import BaseSensorOperator, PokeReturnValue
from airflow.sdk.configuration import conf
from airflow.sdk.exceptions import AirflowSensorTimeout, AirflowSkipException, AirflowTaskTimeout

from databricks_bridge.assets.retries import ends_for_good

if TYPE_CHECKING:
    from airflow.sdk import Context

    from databricks_bridge.triggers.polling import PollingTrigger

Answer: TypeAlias = dict[str, Any]
DEFAULT_TIMEOUT = conf.getfloat("sensors", "default_timeout")
"""Airflow's own, in seconds: read once and not for each sensor, where it is the dearest part of a parse."""
DEFAULT_DEFERRABLE = conf.getboolean("operators", "default_deferrable", fallback=False)
POKE_SECONDS = 30
LONGEST_CALL_SECONDS, SHORTEST_CALL_SECONDS = 120.0, 5.0


class WaitingSensor(BaseSensorOperator):
    """A sensor whose look is asynchronous. Poke, reschedule and `deferrable=True` behave alike."""

    # No constructor of its own: every level of them costs each sensor of each DAG file a tenth of its time.
    deferrable: bool
    _until: float | None = None
    """The end of the wait in this process, in monotonic seconds."""

    @property
    def _budget(self) -> float:
        """Seconds that one call to a workspace may take with all its retries: no longer than the sensor itself waits."""
        return min(LONGEST_CALL_SECONDS, max(SHORTEST_CALL_SECONDS, float(self.timeout)))

    @property
    def _longest_wait(self) -> timedelta:
        """Until the deadline of a deferred wait: Airflow itself applies `execution_timeout` only to what runs in a worker."""
        timeout = timedelta(seconds=self.timeout)
        return timeout if self.execution_timeout is None else min(timeout, self.execution_timeout)

    @abstractmethod
    async def _look_once(self, context: Context) -> Answer | None:
        """The answer when the wait is over, else None. Raises what is wrong for good."""

    async def _look_in_time(self, context: Context) -> Answer | None:
        """A look that takes no longer than what is left of the wait, whatever it waits for; then nothing has come."""
        left = float(self._longest_wait.total_seconds()) if self._until is None else self._until - time.monotonic()
        try:
            async with asyncio.timeout(max(SHORTEST_CALL_SECONDS, left)):
                return await self._look_once(context)
        except TimeoutError:
            self.log.warning("the look was not done when the time of the wait was over")
            return None

    @abstractmethod
    def _trigger(self, context: Context, poll_interval: float, deadline: str) -> PollingTrigger:
        """What goes on looking while the task is deferred."""

    @abstractmethod
    def _answer(self, event: dict[str, Any]) -> Answer:
        """The answer in a "ready" event of the trigger."""

    @property
    @abstractmethod
    def _awaited(self) -> str:
        """What was waited for, for the message of a time-out."""

    def _last_words(self) -> str:
        """Why nothing came, as far as that can be found out when the time is over; may be empty. Never raises."""
        return ""

    def poke(self, context: Context) -> PokeReturnValue:
        answer = asyncio.run(self._look_in_time(context))
        return PokeReturnValue(is_done=answer is not None, xcom_value=answer)

    @ends_for_good
    def execute(self, context: Context) -> Any:
        self._until = time.monotonic() + self._longest_wait.total_seconds()
        if self.deferrable:
            return self._look_or_defer(context, datetime.now(UTC) + self._longest_wait)
        try:
            return super().execute(context)
        except (AirflowSensorTimeout, AirflowSkipException) as ended:
            # With a cause it is an error that soft_fail or never_fail made a skip of: no time-out.
            if ended.__cause__ is not None or not (words := self._last_words()):
                raise
            raise type(ended)(f"{ended} {self._awaited}: {words}") from None

    @ends_for_good
    def resume_execution(self, next_method: str, next_kwargs: dict[str, Any] | None, context: Context) -> Any:
        # Not in execute_complete: there Airflow's `soft_fail` would make a skip of an error that is no time-out.
        return super().resume_execution(next_method, next_kwargs, context)

    def _look_or_defer(self, context: Context, deadline: datetime) -> Answer:
        self._until = time.monotonic() + (deadline - datetime.now(UTC)).total_seconds()
        answer = asyncio.run(self._look_in_time(context))
        if answer is not None:
            return answer
        left = max(deadline - datetime.now(UTC), timedelta(0))
        self.defer(
            trigger=self._trigger(context, float(self.poke_interval), deadline.isoformat()),
            method_name="execute_complete",
            # The trigger ends at its own deadline; Airflow's is for a trigger that cannot.
            timeout=left + timedelta(minutes=1),
        )
        raise AssertionError("defer() does not return")

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Answer:
        """Take the trigger's event, or look anew where it says so. Raises the error that it carries; at the deadline
        AirflowSensorTimeout, or AirflowTaskTimeout where `execution_timeout` is the shorter one.
        """
        from databricks_bridge.triggers.polling import raise_for

        raise_for(event)
        if event["status"] == "deadline":
            ended = AirflowTaskTimeout if self._longest_wait < timedelta(seconds=self.timeout) else AirflowSensorTimeout
            words = self._last_words()
            raise ended(f"{self._awaited}: not until {event['deadline']}{words and f'; {words}'}")
        if event["status"] == "read again":
            return self._look_or_defer(context, datetime.fromisoformat(event["deadline"]))
        answer = self._answer(event)
        self.log.info("%s", answer)
        return answer
