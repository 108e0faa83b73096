"""A sync task that asks: its user is asked where the host can, and the model otherwise."""

from typing import Any

import anyio
import pytest
from front import (
    User,
    ask,
    call,
    connected,
    delegate,
    host_of,
    outcome,
    refusal,
    requests_of,
    said,
    server_of,
    subagent,
    view,
)
from mcp_types import ElicitResult, ErrorData, InputRequiredResult

from mcp_subagents.config import SubAgentConfig
from mcp_subagents.server import DeliverySettings, delivery


def answers(worker: SubAgentConfig) -> list[object]:
    """What the subagent was told in its last request."""
    return [part.content for part in requests_of(worker)[-1][-1].parts]


async def test_the_user_is_asked_and_the_call_goes_on(era: str):
    worker, user = subagent(ask("Which database?"), "Postgres it is."), User("Postgres")
    async with host_of(worker, era=era, elicitation_callback=user) as host:
        task = await call(host, "task", description="Go.")
        assert (await call(host, "list_active_tasks")) == {"tasks": []}
    assert (task["status"], task["result"], task["questions"]) == ("completed", "Postgres it is.", [])
    assert user.asked == ["The subagent 'general-purpose' asks: Which database?"]
    assert answers(worker) == ["Postgres"]


async def test_several_questions_of_one_turn_and_one_of_the_next(era: str):
    worker = subagent([ask("A?", "q1"), ask("B?", "q2")], ask("C?", "q3"), "Done.")
    user = User("a", "b", "c")
    async with host_of(worker, era=era, elicitation_callback=user) as host:
        task = await call(host, "task", description="Go.")
    assert task["result"] == "Done."
    assert [each.rsplit(" ", 1)[-1] for each in user.asked] == ["A?", "B?", "C?"]
    assert answers(worker) == ["c"]


NO_ANSWERS = [
    pytest.param(ElicitResult(action="decline"), id="declined"),
    pytest.param(ElicitResult(action="cancel"), id="cancelled"),
    pytest.param(ElicitResult(action="accept", content={"answer": "  "}), id="empty"),
    pytest.param(ElicitResult(action="accept", content={"other": "x"}), id="without the answer"),
    pytest.param(ElicitResult(action="accept", content={"answer": 3}), id="of another type"),
    pytest.param(ElicitResult(action="accept"), id="without content"),
    pytest.param(ElicitResult(action="accept", content={"answer": "x" * 200_001}), id="too long"),
]


@pytest.mark.parametrize("answer", NO_ANSWERS)
async def test_without_an_answer_the_model_gets_the_question(answer: ElicitResult, era: str):
    async with host_of(subagent(ask("Which?"), "Done."), era=era, elicitation_callback=User(answer)) as host:
        result = await host.call_tool("task", {"description": "Go."})
        task = view(result)
        assert (task["status"], task["mode"]) == ("waiting_for_answer", "sync")
        assert task["questions"] == [{"question_id": "q1", "question": "Which?"}]
        assert "It asks (question_id q1): Which?" in said(result)
        assert task["next"] == f'It waits for you: call answer_subagent (task_id "{task["task_id"]}").'
        answered = await call(host, "answer_subagent", task_id=task["task_id"], answer="This.")
    assert (answered["status"], answered["result"]) == ("completed", "Done.")


async def test_a_host_that_cannot_ask_gets_the_question_and_its_answer_is_waited_for_like_the_task(era: str):
    worker = subagent(ask("Which?"), ask("Sure?", "q2"), "Done.")
    async with host_of(worker, era=era) as host:
        task = await call(host, "task", description="Go.")
        assert task["questions"] == [{"question_id": "q1", "question": "Which?"}]
        task = await call(host, "answer_subagent", task_id=task["task_id"], answer="This.")
        assert task["questions"] == [{"question_id": "q2", "question": "Sure?"}]
        task = await call(host, "answer_subagent", task_id=task["task_id"], answer="Yes.", question_id="q2")
    assert (task["result"], task["attempt"]) == ("Done.", 3)
    assert answers(worker) == ["Yes."]


async def test_an_answer_to_a_background_task_is_not_waited_for(era: str):
    async with host_of(subagent(ask("Which?"), "Done."), era=era) as host:
        task_id = await delegate(host)
        await outcome(host, task_id)
        task = await call(host, "answer_subagent", task_id=task_id, answer="This.")
        assert (task["mode"], task["questions"], task["result"]) == ("async", [], None)
        assert (await outcome(host, task_id))["result"] == "Done."


async def test_several_open_questions_are_answered_one_by_one(era: str):
    worker = subagent([ask("A?", "q1"), ask("B?", "q2")], "Done.")
    async with host_of(worker, era=era) as host:
        task_id = (await call(host, "task", description="Go."))["task_id"]
        asking = await call(host, "check_task", task_id=task_id)
        assert asking["next"].endswith(f'call answer_subagent (task_id "{task_id}") for each question_id.')
        which = refusal(await host.call_tool("answer_subagent", {"task_id": task_id, "answer": "b"}))
        assert which.startswith(f"Task {task_id!r} has several questions open. Name one of these as question_id: 'q1'")
        half = await call(host, "answer_subagent", task_id=task_id, answer="b", question_id="q2")
        assert (half["status"], [each["question_id"] for each in half["questions"]]) == ("waiting_for_answer", ["q1"])
        whole = await call(host, "answer_subagent", task_id=task_id, answer="a")
        late = refusal(await host.call_tool("answer_subagent", {"task_id": task_id, "answer": "c"}))
    assert whole["result"] == "Done."
    assert answers(worker) == ["a", "b"]
    assert late == f"Task {task_id!r} asks nothing: it is completed."


async def test_the_user_is_asked_what_comes_up_after_an_answer_of_the_model(era: str):
    user = User(ElicitResult(action="decline"), "Really.")
    worker = subagent(ask("A?"), ask("B?", "q2"), "Done.")
    async with host_of(worker, era=era, elicitation_callback=user) as host:
        task = await call(host, "task", description="Go.")
        assert task["status"] == "waiting_for_answer"
        task = await call(host, "answer_subagent", task_id=task["task_id"], answer="a")
    assert (task["result"], len(user.asked)) == ("Done.", 2)
    assert answers(worker) == ["Really."]


async def test_a_model_that_answers_one_of_several_is_given_the_others(era: str):
    user = User(ElicitResult(action="decline"), ElicitResult(action="decline"))
    worker = subagent([ask("A?", "q1"), ask("B?", "q2")], "Done.")
    async with host_of(worker, era=era, elicitation_callback=user) as host:
        task_id = (await call(host, "task", description="Go."))["task_id"]
        asked = list(user.asked)
        half = await call(host, "answer_subagent", task_id=task_id, answer="a", question_id="q1")
        assert [each["question_id"] for each in half["questions"]] == ["q2"]
        assert user.asked == asked
        assert (await call(host, "answer_subagent", task_id=task_id, answer="b"))["result"] == "Done."


async def test_a_user_who_is_slower_than_the_patience_keeps_nobody():
    asked = anyio.Event()

    async def think(context: Any, params: Any) -> ElicitResult:
        asked.set()
        await anyio.sleep_forever()
        raise AssertionError

    delivery = DeliverySettings(sync_patience=0.3)
    async with host_of(subagent(ask("Which?")), era="legacy", delivery=delivery, elicitation_callback=think) as host:
        await call(host, "list_active_tasks")
        task = await call(host, "task", description="Go.")
    assert asked.is_set()
    assert task["questions"] == [{"question_id": "q1", "question": "Which?"}]


async def test_a_form_that_cannot_be_shown_is_a_question_for_the_model():
    async def broken(context: Any, params: Any) -> ErrorData:
        return ErrorData(code=-32603, message="no screen")

    async with host_of(subagent(ask("Which?")), era="legacy", elicitation_callback=broken) as host:
        task = await call(host, "task", description="Go.")
    assert task["questions"] == [{"question_id": "q1", "question": "Which?"}]


async def test_somebody_else_may_answer_while_the_user_thinks():
    """In the newer era, where the host asks by itself; in the older one the form is taken away, see below."""
    era = "2026-07-28"
    worker = subagent(ask("Which?"), "Done.")
    server = server_of(worker)
    async with connected(server, era) as other:

        async def overtaken(context: Any, params: Any) -> ElicitResult:
            [task] = (await call(other, "list_active_tasks"))["tasks"]
            await call(other, "answer_subagent", task_id=task["task_id"], answer="Theirs.")
            return ElicitResult(action="accept", content={"answer": "Mine."})

        async with connected(server, era, elicitation_callback=overtaken) as host:
            task = await call(host, "task", description="Go.")
    assert task["result"] == "Done."
    assert answers(worker) == ["Theirs."]


async def test_a_form_that_stays_open_does_not_keep_the_call_when_somebody_else_has_answered():
    """In the newer era the host itself waits for its user, and comes back when it likes."""
    server = server_of(subagent(ask("Which?"), "Done."))
    shown, closed = anyio.Event(), anyio.Event()

    async def stays_open(context: Any, params: Any) -> ElicitResult:
        shown.set()
        try:
            await anyio.sleep_forever()
        finally:
            closed.set()
        raise AssertionError

    task: dict[str, Any] = {}
    async with connected(server, "legacy") as other:
        async with connected(server, "legacy", elicitation_callback=stays_open) as host:
            async with anyio.create_task_group() as group:

                async def answer_elsewhere() -> None:
                    await shown.wait()
                    [task] = (await call(other, "list_active_tasks"))["tasks"]
                    await call(other, "answer_subagent", task_id=task["task_id"], answer="Theirs.")

                group.start_soon(answer_elsewhere)
                # It would last for 45 seconds; the whole block is bounded by less.
                task = await call(host, "task", description="Go.")
            await closed.wait()
    assert task["result"] == "Done."


async def test_an_answer_that_is_none_at_all_is_the_host_s_mistake_and_the_model_gets_the_question():
    async def gibberish(context: Any, params: Any) -> Any:
        return ElicitResult.model_construct(action="perhaps")

    async with host_of(subagent(ask("Which?"), "Done."), era="legacy", elicitation_callback=gibberish) as host:
        task = await call(host, "task", description="Go.")
    assert task["questions"] == [{"question_id": "q1", "question": "Which?"}]


async def test_a_user_is_not_asked_in_the_last_moment(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(delivery, "SOON", 1000.0)
    monkeypatch.setattr(delivery.Deadline, "left", 5.0)
    user = User("Never asked.")
    async with host_of(subagent(ask("Which?"), "Done."), era="legacy", elicitation_callback=user) as host:
        task = await call(host, "task", description="Go.")
    assert (task["status"], user.asked) == ("waiting_for_answer", [])


async def test_a_call_that_comes_back_with_answers_is_the_same_task():
    worker = subagent(ask("Which?"), "Done.", "A second task.")
    user = User("This.")
    async with host_of(worker, era="2026-07-28", elicitation_callback=user) as host:
        first = await host.session.call_tool("task", {"description": "Go."}, allow_input_required=True)
        assert isinstance(first, InputRequiredResult)
        assert list(first.input_requests or {}) == ["q1"]
        [waiting] = (await call(host, "list_active_tasks"))["tasks"]
        answer = ElicitResult(action="accept", content={"answer": "This."})
        task = await call_again(host, first, {"q1": answer})
        # The same answer once more, as after a lost connection: it is heard once, and starts nothing.
        again = await call_again(host, first, {"q1": answer})
    assert task["task_id"] == waiting["task_id"] == again["task_id"]
    assert task["result"] == again["result"] == "Done."
    assert len(requests_of(worker)) == 2


async def call_again(host: Any, before: InputRequiredResult, said: dict[str, Any]) -> dict[str, Any]:
    arguments = {"description": "Go."}
    result = await host.session.call_tool(
        "task", arguments, input_responses=said, request_state=before.request_state, allow_input_required=True
    )
    return view(result)


async def test_a_call_that_comes_back_with_nothing_has_the_question_itself():
    async with host_of(subagent(ask("Which?")), era="2026-07-28", elicitation_callback=User()) as host:
        first = await host.session.call_tool("task", {"description": "Go."}, allow_input_required=True)
        assert isinstance(first, InputRequiredResult)
        task = await call_again(host, first, {})
    assert task["questions"] == [{"question_id": "q1", "question": "Which?"}]
