"""The backend of Django's tasks framework, as a project uses it. Run by test_suites.py."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from asgiref.sync import sync_to_async
from django.db import transaction
from django.test import TestCase, TransactionTestCase, override_settings
from django.utils import timezone

from holdfast.contrib.django import app
from holdfast.contrib.django.tasks_api import (
    InvalidTask,
    TaskResultDoesNotExist,
    TaskResultStatus,
    task_backends,
    task_enqueued,
    task_finished,
    task_started,
)
from holdfast.contrib.django.testing import arun_jobs, run_jobs
from holdfast.errors import UnknownOption
from tests.django_project import tasks


def ended(result: Any) -> Any:
    """Run what is due, and read the result again."""
    run_jobs()
    result.refresh()
    return result


class Heard:
    """The signals that were sent, in order, with the status that the result had then."""

    def __enter__(self) -> list[tuple[str, str]]:
        self.said: list[tuple[str, str]] = []
        self._signals = {"enqueued": task_enqueued, "started": task_started, "finished": task_finished}
        self._receivers = {}
        for name, signal in self._signals.items():
            self._receivers[name] = self._receiver(name)
            signal.connect(self._receivers[name])
        return self.said

    def _receiver(self, name: str) -> Any:
        def receive(sender: Any, task_result: Any, **_: Any) -> None:
            assert sender is type(task_backends["default"])
            self.said.append((name, str(task_result.status)))

        return receive

    def __exit__(self, *_: object) -> None:
        for name, signal in self._signals.items():
            signal.disconnect(self._receivers[name])


class Enqueueing(TestCase):
    def test_a_task_is_stored_as_a_ready_job_under_its_path(self) -> None:
        result = tasks.echo.enqueue(1, [2], three={"four": 5})
        self.assertEqual((result.status, result.attempts, result.errors), (TaskResultStatus.READY, 0, []))
        self.assertEqual((result.args, result.kwargs), ([1, [2]], {"three": {"four": 5}}))
        job = app.jobs.get(result.id)
        self.assertEqual((job.task, job.queue, job.max_attempts), ("tests.django_project.tasks.echo", "default", 1))

    def test_a_result_read_again_equals_the_one_that_enqueue_returned(self) -> None:
        later = timezone.now() + timedelta(hours=1)
        for task in (tasks.add, tasks.add.using(priority=-7, queue_name="mail"), tasks.add.using(run_after=later)):
            result = task.enqueue(1, b=2)
            self.assertEqual(tasks.add.get_result(result.id), result)

    async def test_async_code_enqueues_runs_and_reads(self) -> None:
        result = await tasks.multiply.aenqueue(6, 7)
        self.assertEqual(await tasks.multiply.aget_result(result.id), result)
        await arun_jobs()
        await result.arefresh()
        self.assertEqual(result.return_value, 42)

    def test_only_json_can_be_passed(self) -> None:
        with self.assertRaisesMessage(TypeError, "Unsupported type"):
            tasks.echo.enqueue(datetime.now(tz=timezone.get_current_timezone()))

    def test_a_higher_priority_runs_first(self) -> None:
        low, high = tasks.echo.using(priority=-5).enqueue("low"), tasks.echo.using(priority=5).enqueue("high")
        run_jobs(until_empty=False)
        low.refresh()
        high.refresh()
        self.assertLess(high.started_at, low.started_at)

    def test_a_deferred_task_runs_when_its_time_has_come(self) -> None:
        later = timezone.now() + timedelta(hours=1)
        result = tasks.add.using(run_after=later).enqueue(1, 2)
        self.assertEqual(ended(result).status, TaskResultStatus.READY)
        run_jobs(at=later + timedelta(seconds=1))
        result.refresh()
        self.assertEqual((result.return_value, result.task.run_after), (3, later))

    @override_settings(USE_TZ=False, TIME_ZONE="Asia/Tokyo")
    def test_without_time_zones_times_are_naive_and_local(self) -> None:
        later = datetime(2999, 1, 1, 12)
        result = tasks.add.using(run_after=later).enqueue(1, 2)
        self.assertEqual(app.jobs.get(result.id).not_before, 32_472_154_800_000_000)
        again = tasks.add.get_result(result.id)
        self.assertEqual((again.task.run_after, again.enqueued_at.tzinfo), (later, None))

    def test_a_queue_is_served_if_the_backend_names_it(self) -> None:
        self.assertEqual(ended(tasks.add.using(queue_name="reports").enqueue(1, 2)).return_value, 3)
        with self.assertRaisesMessage(InvalidTask, "Queue 'elsewhere' is not valid for backend"):
            tasks.add.using(queue_name="elsewhere")

    @override_settings(TASKS={"default": {"BACKEND": "holdfast.contrib.django.HoldfastBackend", "QUEUES": []}})
    def test_a_queue_that_cannot_be_stored_is_an_invalid_task(self) -> None:
        with self.assertRaisesMessage(InvalidTask, "the queue's name"):
            tasks.add.using(queue_name="two words")

    def test_a_task_of_another_backend_can_be_sent_to_this_one(self) -> None:
        result = tasks.anywhere.using(backend="default").enqueue()
        self.assertEqual((result.status, result.backend), (TaskResultStatus.READY, "default"))
        self.assertEqual(ended(result).status, TaskResultStatus.SUCCESSFUL)


class Transactions(TransactionTestCase):
    def test_a_rollback_leaves_no_task(self) -> None:
        with transaction.atomic():
            result = tasks.add.enqueue(1, 2)
            self.assertEqual(tasks.add.get_result(result.id), result)
            transaction.set_rollback(True)
        with self.assertRaises(TaskResultDoesNotExist):
            tasks.add.get_result(result.id)

    def test_a_savepoint_takes_its_tasks_with_it(self) -> None:
        with transaction.atomic():
            kept = tasks.add.enqueue(1, 2)
            with transaction.atomic():
                gone = tasks.add.enqueue(3, 4)
                transaction.set_rollback(True)
        self.assertEqual(ended(kept).return_value, 3)
        with self.assertRaises(TaskResultDoesNotExist):
            gone.refresh()


class Running(TestCase):
    def test_a_success_has_its_value_and_its_times(self) -> None:
        result = ended(tasks.add.enqueue(1, 2))
        self.assertEqual((result.status, result.return_value, result.attempts), (TaskResultStatus.SUCCESSFUL, 3, 1))
        self.assertTrue(result.enqueued_at <= result.started_at <= result.finished_at)
        self.assertEqual(result.last_attempted_at, result.started_at)

    def test_a_failure_has_the_path_of_its_exception_and_the_traceback(self) -> None:
        result = ended(tasks.fail.enqueue("no ink"))
        self.assertEqual((result.status, result.attempts), (TaskResultStatus.FAILED, 1))
        (error,) = result.errors
        self.assertIs(error.exception_class, tasks.OutOfInk)
        self.assertTrue(error.traceback.startswith("Traceback") and error.traceback.endswith("OutOfInk: no ink\n"))
        with self.assertRaisesMessage(ValueError, "Task failed"):
            result.return_value  # noqa: B018

    def test_exceptions_of_python_have_their_path_too(self) -> None:
        for task, kind in ((tasks.fail_async, ValueError), (tasks.leave, SystemExit), (tasks.return_object, TypeError)):
            result = ended(task.enqueue())
            self.assertEqual([error.exception_class for error in result.errors], [kind])

    def test_a_message_that_looks_like_an_exception_does_not_change_the_path(self) -> None:
        result = ended(tasks.fail.enqueue("a\nshop.OutOfInkwell: b"))
        self.assertIs(result.errors[0].exception_class, tasks.OutOfInk)

    def test_the_context_tells_the_id_and_the_attempt(self) -> None:
        result = tasks.tell.using(priority=3).enqueue()
        self.assertEqual(ended(result).return_value, [result.id, 1, "RUNNING", 0, 3])

    def test_a_cancelled_task_has_failed_with_the_reason(self) -> None:
        result = tasks.add.enqueue(1, 2)
        app.jobs.cancel(result.id, reason="not needed")
        result.refresh()
        self.assertEqual(result.status, TaskResultStatus.FAILED)
        (error,) = result.errors
        self.assertEqual(error.exception_class_path, "holdfast.errors.JobCancelled")
        self.assertIn("not needed", error.traceback)
        self.assertTrue(issubclass(error.exception_class, Exception))


class Results(TestCase):
    def test_there_is_none_for_an_unknown_id_or_a_job_of_holdfasts_own(self) -> None:
        for id in ("123", "", "no\nid", tasks.native.enqueue().id):
            with self.assertRaises(TaskResultDoesNotExist):
                task_backends["default"].get_result(id)

    async def test_async_code_is_told_so_too(self) -> None:
        with self.assertRaises(TaskResultDoesNotExist):
            await tasks.add.aget_result("123")

    def test_that_of_another_task_is_a_mismatch(self) -> None:
        result = tasks.add.enqueue(1, 2)
        with self.assertRaisesMessage(Exception, "Task does not match"):
            tasks.echo.get_result(result.id)


class Retrying(TestCase):
    def test_a_retried_task_is_ready_again_and_keeps_its_errors(self) -> None:
        result = tasks.twice.enqueue()
        self.assertEqual(ended(result).status, TaskResultStatus.READY)
        self.assertEqual((result.attempts, len(result.errors), result.is_finished), (1, 1, False))
        first = result.started_at
        run_jobs(at=timezone.now() + timedelta(hours=1))
        result.refresh()
        self.assertEqual((result.status, result.attempts, len(result.errors)), (TaskResultStatus.SUCCESSFUL, 2, 1))
        self.assertEqual(result.return_value, ["tests.django_project.tasks.OutOfInk"])
        self.assertEqual((result.started_at, len(result.worker_ids)), (first, 2))
        self.assertGreater(result.last_attempted_at, first)

    def test_one_call_may_have_more_attempts(self) -> None:
        result = tasks.fail.using(max_attempts=2).enqueue()
        self.assertEqual(ended(result).status, TaskResultStatus.READY)
        run_jobs(at=timezone.now() + timedelta(hours=1))
        result.refresh()
        self.assertEqual((result.status, result.attempts, len(result.errors)), (TaskResultStatus.FAILED, 2, 2))

    def test_a_retry_by_hand_counts_the_attempts_before_it(self) -> None:
        result = ended(tasks.fail.enqueue())
        app.jobs.retry(result.id)
        ended(result)
        self.assertEqual((result.attempts, len(result.errors)), (2, 2))


class Options(TestCase):
    def test_a_duplicate_is_the_task_that_holds_the_key(self) -> None:
        unique = tasks.add.using(dedupe_key="once")
        with Heard() as said:
            first, second = unique.enqueue(1, 2), unique.enqueue(3, 4)
        self.assertEqual((second.id, second.args), (first.id, [1, 2]))
        self.assertEqual(said, [("enqueued", "READY")])

    def test_options_of_calls_add_up(self) -> None:
        result = tasks.add.using(title="Sum", priority=1).using(tags=["books"]).enqueue(1, 2)
        job = app.jobs.get(result.id)
        self.assertEqual((job.title, job.priority, job.tags), ("Sum", 1, '["books"]'))

    def test_an_unknown_option_is_refused_with_a_hint(self) -> None:
        with self.assertRaisesMessage(UnknownOption, "did you mean 'dedupe_key'?"):
            tasks.add.using(dedup_key="once")
        with self.assertRaisesMessage(UnknownOption, "it is an option of the task"):
            tasks.add.using(isolate="process")

    def test_the_check_reports_wrong_options(self) -> None:
        wrong = {"timeout": -1, "tasks": {"shop.*": {"max_retries": 3}}}
        with override_settings(
            TASKS={"default": {"BACKEND": "holdfast.contrib.django.HoldfastBackend", "OPTIONS": wrong}}
        ):
            found = list(task_backends["default"].check())
        self.assertEqual([one.id for one in found], ["holdfast.E021", "holdfast.E021"])
        self.assertIn("timeout", found[0].msg)
        self.assertIn("max_attempts", found[1].hint)
        self.assertEqual(list(task_backends["default"].check()), [])


class Signals(TestCase):
    def test_a_success_is_enqueued_started_and_finished(self) -> None:
        for task in (tasks.add, tasks.multiply):
            with Heard() as said:
                ended(task.enqueue(1, 2))
            self.assertEqual(said, [("enqueued", "READY"), ("started", "RUNNING"), ("finished", "SUCCESSFUL")])

    def test_only_the_last_failure_is_finished(self) -> None:
        with Heard() as said:
            tasks.fail.using(max_attempts=2).enqueue()
            run_jobs()
            run_jobs(at=timezone.now() + timedelta(hours=1))
        self.assertEqual(
            said, [("enqueued", "READY"), ("started", "RUNNING"), ("started", "RUNNING"), ("finished", "FAILED")]
        )

    def test_a_receiver_that_fails_does_not_fail_the_task(self) -> None:
        def broken(**_: Any) -> None:
            raise RuntimeError("a bug of the receiver")

        task_started.connect(broken)
        try:
            with self.assertLogs("django.dispatch", "ERROR"):
                self.assertEqual(ended(tasks.add.enqueue(1, 2)).return_value, 3)
        finally:
            task_started.disconnect(broken)

    async def test_a_receiver_of_an_async_task_may_use_the_database(self) -> None:
        found: list[Any] = []

        def look(task_result: Any, **_: Any) -> None:
            found.append(tasks.multiply.get_result(task_result.id).status)

        task_started.connect(look)
        try:
            await tasks.multiply.aenqueue(2, 3)
            await arun_jobs()
        finally:
            await sync_to_async(task_started.disconnect)(look)
        self.assertEqual(found, [TaskResultStatus.RUNNING])
