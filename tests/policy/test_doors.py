"""The gate and its two doors: modes, rules, people, and what the model reads."""

from __future__ import annotations

import asyncio
import inspect
import tomllib

import pytest

from codeact_kernel.approval import ALWAYS, NO, YES, Answer, Call, Passed
from codeact_kernel.blocks import AgentBlock, CodeBlock, Job, Outcome
from codeact_kernel.errors import ToolError
from codeact_kernel.events import ApprovalAsked, Decided
from codeact_kernel.policy import Doors, Gate, read_rules


class Person:
    """Somebody who is asked, and says what was prepared."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = []

    async def __call__(self, request):
        self.asked.append(request)
        answer = self.answers.pop(0)
        if callable(answer):
            answer = answer(request)
        return await answer if inspect.isawaitable(answer) else answer


class House:
    def __init__(self, folder, mode="auto", rules="", approver=None):
        self.events = []
        self.gate = Gate(folder, mode, read_rules(tomllib.loads(rules), "x.toml"), approver)
        self.doors = self.of("the agent")

    def of(self, agent):
        return Doors(self.gate, agent, self.events.append)

    async def block(self, code="x = 1", id="b1", doors=None):
        verdict = (doors or self.doors).block(Job(id, CodeBlock(code), 1))
        return await verdict if inspect.isawaitable(verdict) else verdict

    async def call(self, name, *classes, doors=None, **arguments):
        passed = (doors or self.doors).call(Call("7", name, "b1", classes, arguments))
        return await passed if inspect.isawaitable(passed) else passed

    async def refused(self, name, *classes, **arguments):
        with pytest.raises(ToolError) as raised:
            await self.call(name, *classes, **arguments)
        return raised.value.message

    @property
    def decided(self):
        return [event for event in self.events if isinstance(event, Decided)]


@pytest.fixture
def house(tmp_path):
    return lambda *args, **kwargs: House(tmp_path, *args, **kwargs)


READ, WRITE, NET = ("read",), ("write",), ("network",)
EFFECTS = {
    # mode: (block, read, write, destructive, network) without a rule
    "auto": "yyyyy",
    "ask": "?y???",
    "deny-writes": "yynny",
    "rules": "?y???",
}


@pytest.mark.parametrize("mode", EFFECTS)
async def test_each_mode_does_what_its_table_says(house, mode):
    it = house(mode, approver=Person())
    effects = [it.doors.block(Job("b", CodeBlock("1"), 1))]
    for kind in ("read", "write", "destructive", "network"):
        try:
            effects.append(it.doors.call(Call("1", "x", "b", (kind,), {})))
        except ToolError:
            effects.append("n")
    seen = ""
    for effect in effects:
        if inspect.iscoroutine(effect):
            effect.close()
            seen += "?"
        else:
            seen += "n" if effect == "n" or isinstance(effect, Outcome) else "y"
    assert seen == EFFECTS[mode]


@pytest.mark.parametrize("mode", EFFECTS)
async def test_a_denial_counts_in_every_mode_and_over_everything(house, mode):
    it = house(mode, 'deny = [{tool = "send", reason = "Use the outbox."}]\nallow = ["send"]\nask = ["send"]')
    said = await it.refused("send", "read")
    assert 'deny {tool = "send", reason = "Use the outbox."} of x.toml' in said
    assert "Use the outbox." in said


async def test_a_question_counts_over_an_allowance_and_that_over_the_mode(house):
    person = Person(NO)
    it = house("ask", 'ask = [{path = "secret"}]\nallow = ["write_file", "run_code"]', person)
    await it.call("write_file", "write", path="a")
    assert await it.block() == Job("b1", CodeBlock("x = 1"), 1)
    assert person.asked == []
    await it.refused("write_file", "write", path="secret/x")
    assert person.asked[0].why == 'ask {path = "secret"} of x.toml'


async def test_where_nobody_can_be_asked_it_is_denied_and_the_model_is_told_what_to_do(house):
    it = house("ask")
    said = await it.refused("send", "write")
    assert said == (
        "send was not called: a person would have to approve it (the mode ask asks about calls of kind write), and "
        "nobody is here to be asked. Do without it, or say in your answer what you would have done."
    )
    outcome = await it.block()
    assert outcome.status == "rejected"
    assert outcome.error.startswith(
        "It did not run: a person would have to approve it (the mode ask asks about each"
    )
    assert [(d.allowed, d.by) for d in it.decided] == [(False, "nobody")] * 2


async def test_what_a_person_says_happens(house):
    person = Person(YES, NO, Answer(False, "not on Fridays"), True, False)
    it = house("ask", approver=person)
    assert (await it.call("send", "write", to="a")).arguments is None
    assert "because the person said no. Ask for the same" in await it.refused("send", "write", to="a")
    assert "because the person said no: not on Fridays." in await it.refused("send", "write", to="a")
    assert isinstance(await it.block(), Job)
    assert "because the person said no" in (await it.block()).error
    assert [(d.door, d.allowed, d.by) for d in it.decided] == [
        ("call", True, "person"),
        ("call", False, "person"),
        ("call", False, "person"),
        ("block", True, "person"),
        ("block", False, "person"),
    ]
    assert it.decided[2].why.endswith(": not on Fridays")
    assert [type(event) for event in it.events] == [ApprovalAsked, Decided] * 5


async def test_a_plain_function_is_asked_in_a_thread_and_whatever_else_it_says_is_a_no(house):
    it = house("ask", approver=lambda request: request.arguments["to"] == "a")
    await it.call("send", "write", to="a")
    await it.refused("send", "write", to="b")
    assert "said 'yes', which is no answer" in await house("ask", approver=lambda r: "yes").refused("send")
    assert "failed: ZeroDivisionError" in await house("ask", approver=lambda r: 1 / 0).refused("send")
    assert "failed: KeyError" in await house("ask", approver=Person(lambda r: {}["x"])).refused("send")


async def test_always_holds_for_the_same_path_host_or_arguments_and_nothing_else(house):
    person = Person(ALWAYS, ALWAYS, ALWAYS, ALWAYS, *[NO] * 20)
    it = house("ask", approver=person)
    await it.call("edit_file", "write", path="a.py", old="x", new="y")
    await it.call("edit_file", "write", path="./sub/../a.py", old="p", new="q")
    await it.call("fetch", "network", url="https://example.com/a")
    await it.call("fetch", "network", url="https://EXAMPLE.com./b")
    await it.call("send", "write", to="a", text="x")
    await it.call("send", "write", text="x", to="a")
    await it.call("run_command", "write", command="make x")
    assert len(person.asked) == 4
    for name, arguments in [
        ("edit_file", {"path": "b.py", "old": "x", "new": "y"}),
        ("write_file", {"path": "a.py"}),
        ("fetch", {"url": "https://example.org/a"}),
        ("fetch", {"url": "https://example.com@example.org/a"}),
        ("fetch", {"url": "https://example.com", "path": "x"}),
        ("send", {"to": "b", "text": "x"}),
        ("send", {"to": "a"}),
        ("send", {"to": "a", "text": "x", "also": "y"}),
        ("run_command", {"command": "make x", "shell": True}),
        ("run_command", {"command": "make x", "cwd": "sub"}),
    ]:
        await it.refused(name, "write", **arguments)
    assert isinstance(await it.block(), Outcome)


async def test_always_for_a_block_is_for_all_blocks_of_its_kind_and_says_so(house):
    person = Person(ALWAYS, NO)
    it = house("ask", approver=person)
    assert isinstance(await it.block("a"), Job)
    assert isinstance(await it.block("something else"), Job)
    assert person.asked[0].always == "every run_code block, whatever is in it"
    outcome = await it.doors.block(Job("s", AgentBlock("go"), 1))
    assert outcome.status == "rejected"


async def test_a_denial_counts_over_an_always(house):
    it = house("ask", 'deny = [{tool = "fetch", arguments = {url = "*/b"}}]', Person(ALWAYS))
    await it.call("fetch", "network", url="https://example.com/a")
    assert "deny" in await it.refused("fetch", "network", url="https://example.com/b")


async def test_agents_share_what_was_always_allowed_and_each_is_named(house):
    person = Person(ALWAYS)
    it = house("ask", approver=person)
    await it.call("send", "write", to="a", doors=it.of("scout"))
    await it.call("send", "write", to="a", doors=it.of("scout.helper"))
    await it.call("send", "write", to="a")
    assert [request.agent for request in person.asked] == ["scout"]
    assert [(d.agent, d.by) for d in it.decided] == [
        ("scout", "person"),
        ("scout.helper", "always"),
        ("the agent", "always"),
    ]


async def test_one_question_is_open_at_a_time_and_an_always_answers_those_that_wait(house):
    open_now, most = 0, 0

    async def always(request):
        nonlocal open_now, most
        open_now, most = open_now + 1, max(most, open_now + 1)
        await asyncio.sleep(0)
        open_now -= 1
        return ALWAYS

    person = Person(*[always] * 1000)
    it = house("ask", approver=person)
    await asyncio.gather(*(it.call("send", "write", to="a") for _ in range(1000)))
    assert len(person.asked) == 1
    await asyncio.gather(*(it.call("send", "write", to=str(n)) for n in range(50)))
    assert len(person.asked) == 51
    assert most == 1


async def test_who_no_longer_waits_is_no_longer_asked_and_the_next_one_is(house):
    asked = asyncio.Event()

    async def never(request):
        asked.set()
        await asyncio.Event().wait()

    it = house("ask", approver=Person(never, YES))
    first = asyncio.create_task(it.call("send", "write", to="a"))
    await asked.wait()
    second = asyncio.create_task(it.call("send", "write", to="b"))
    first.cancel()
    assert await second == Passed()
    assert first.cancelled() or await asyncio.wait([first])


async def test_who_decides_gets_a_copy_and_what_was_judged_is_called(house):
    def tamper(request):
        request.arguments["items"].append("evil")
        return YES

    it = house("ask", approver=Person(tamper))
    given = {"items": ["good"]}
    passed = await it.doors.call(Call("1", "x", "b", ("write",), given))
    assert passed.arguments is None
    assert given == {"items": ["good"]}


async def test_what_a_person_has_changed_is_what_runs_and_is_told(house):
    person = Person(Answer(True, code="x = 2"), Answer(True, arguments={"to": "b"}))
    it = house("ask", approver=person)
    assert (await it.block()).block == CodeBlock("x = 2")
    assert (await it.call("send", "write", to="a")).arguments == {"to": "b"}
    assert [d.changed for d in it.decided] == ["x = 2", '{"to": "b"}']


async def test_what_a_person_has_changed_may_still_be_denied(house):
    changed = Answer(True, arguments={"to": "evil"})
    it = house("ask", 'deny = [{tool = "send", arguments = {to = "evil"}}]', Person(changed))
    assert "deny" in await it.refused("send", "write", to="a")
    assert [d.allowed for d in it.decided] == [False]


async def test_a_command_that_cannot_be_judged_is_asked_about(house):
    person = Person(NO)
    it = house("rules", 'deny = [{command = "git push *"}]\nallow = ["run_command"]', person)
    await it.call("run_command", "write", command="git pull")
    await it.refused("run_command", "write", command="curl x | sh", shell=True)
    assert "no rule can judge the command: sh reads what it does from somewhere else" in person.asked[0].why


async def test_where_its_paths_have_led_goes_with_a_call_that_rules_have_judged(house, tmp_path):
    it = house("auto", 'deny = [{path = "secret"}]')
    passed = await it.call("read_file", "read", path="sub/../a.py")
    assert passed.places == {"sub/../a.py": str(tmp_path / "a.py")}
    assert (await it.call("other", "read", text="a.py")).places == {}
    it = house("ask", 'allow = [{tool = "write_file", path = "src"}]')
    passed = await it.call("write_file", "write", path="src/../src/a.py")
    assert passed.places == {"src/../src/a.py": str(tmp_path / "src" / "a.py")}


async def test_paths_of_a_tool_count_from_its_own_folder(house, tmp_path):
    other = tmp_path / "other"
    it = house("ask", 'allow = [{tool = "write_file", path = "src"}]', Person(NO))
    passed = it.doors.call(Call("1", "write_file", "b", ("write",), {"path": "src/a"}, folder=str(other)))
    assert passed.places == {"src/a": str(other / "src" / "a")}


async def test_always_is_not_offered_for_arguments_that_cannot_be_told_apart(house):
    person = Person(ALWAYS, ALWAYS)
    it = house("ask", approver=person)
    for _ in range(2):
        await it.call("send", "write", what=object())
    assert [request.always for request in person.asked] == ["", ""]


async def test_calls_that_only_the_mode_lets_pass_are_known_as_such_once_one_was_judged(house):
    it = house("auto", 'deny = [{tool = "send", arguments = {to = "evil"}}]')
    assert not it.doors.passes("look", ("read",), ["at"])
    await it.call("look", "read", at="x")
    await it.call("send", "write", to="x")
    assert it.doors.passes("look", ("read",), ["at"])
    assert not it.doors.passes("look", ("read",), ["at", "to"])
    assert not it.doors.passes("look", ("write",), ["at"])
    assert not it.doors.passes("send", ("write",), ["to"])
    assert it.decided == []
    asking = house("ask", approver=Person(ALWAYS))
    await asking.call("send", "write", to="x")
    assert not asking.doors.passes("send", ("write",), ["to"])


@pytest.mark.parametrize("mode", ["auto", "ask", "rules", "deny-writes"])
@pytest.mark.parametrize(
    "arguments",
    [
        {"url": "http://169.254.169.254/latest"},
        {"url": "http://169.254.169.254./latest"},
        {"url": "http://[::ffff:169.254.169.254]/"},
        {"url": "http://0xA9.0xFE.0xA9.0xFE/"},
        {"url": "http://2852039166/"},
        {"url": "http://user:pw@169.254.169.254:80/"},
        {"url": "HTTP://METADATA.google.INTERNAL/"},
        {"URL": "http://169.254.169.254/"},
        {"urls": ["https://example.com", "http://169.254.169.254/"]},
        {"uri": "169.254.169.254/latest"},
        {"command": "curl -s http://169.254.169.254/ | cat", "shell": True},
        {"command": ["curl", "http://169.254.169.254/"]},
        {"cmd": "echo $(curl 169.254.169.254)"},
    ],
)
async def test_no_spelling_comes_past_a_denial_in_any_mode(house, mode, arguments):
    it = house(mode, approver=Person(*[True] * 3))
    assert "keys are handed out" in await it.refused("reach", "read", **arguments)


async def test_a_denial_that_was_judged_once_for_a_kind_of_call_is_judged_for_each(house):
    it = house("auto", 'deny = [{tool = "send", arguments = {to = "evil"}}]')
    for _ in range(3):
        await it.call("send", "write", to="good")
        await it.refused("send", "write", to="evil")
