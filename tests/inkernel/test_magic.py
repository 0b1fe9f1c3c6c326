"""The parts of `%agent` that need no kernel."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pandas as pd
import pytest
from IPython.core.inputtransformer2 import TransformerManager

from codeact_kernel.inkernel import dataparcels
from codeact_kernel.inkernel.magic.describing import described, mentioned, rows_of
from codeact_kernel.inkernel.magic.failure import Failures
from codeact_kernel.inkernel.magic.line import make_parser, questions, read_line
from codeact_kernel.inkernel.magic.link import AgentError, Link
from codeact_kernel.inkernel.magic.pages import HELLO, Pages
from codeact_kernel.inkernel.magic.running import Running
from codeact_kernel.inkernel.magic.values import chosen, pack, unpack


def read(line):
    said, rest = read_line(line, make_parser())
    plain = vars(make_parser().parse_args([]))
    return {name: value for name, value in vars(said).items() if value != plain[name]}, rest


@pytest.mark.parametrize(
    ("line", "options", "task"),
    [
        ("find it", {}, "find it"),
        ("-m gpt -n df,helper don't {x} 'lie", {"model": "gpt", "names": "df,helper"}, "don't {x} 'lie"),
        ("--model=gpt --new   it's", {"model": "gpt", "new": True}, "it's"),
        ("-- -n is an option", {}, "-n is an option"),
        ('--steer "not that one"', {"steer": "not that one"}, ""),
        ("--tools a.py --tools b.py go", {"tools": ["a.py", "b.py"]}, "go"),
        ("--no", {"no": ""}, ""),
        ("--sent", {"sent": 0}, ""),
        ("--sent 3", {"sent": 3}, ""),
        ("--sent --new x", {"sent": 0, "new": True}, "x"),
        ("--no 'too wide'", {"no": "too wide"}, ""),
        ("--max-cost 0.5 --max-time 2h x", {"max_cost": 0.5, "max_time": "2h"}, "x"),
        ("", {}, ""),
    ],
)
def test_options_stand_in_front_and_the_rest_is_the_task_as_it_is(line, options, task):
    assert read(line) == (options, task)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("--modle x", "unrecognized arguments: --modle"),
        ("-m", "expected one argument"),
        ("--max-turns many", "invalid int value"),
        ('--steer "open', "a quotation mark is not closed"),
    ],
)
def test_a_wrong_option_is_said_in_a_sentence(line, why):
    with pytest.raises(AgentError, match=why):
        read(line)


@pytest.mark.parametrize(
    ("cell", "is_called"),
    [
        ("%agent why is it empty?", True),
        ("x = 1\n  %agent -n df what is df?\n", True),
        ("%agent?", False),
        ("%agent??", False),
        ("%agents?", False),
        ("len?", False),
    ],
)
def test_a_question_is_no_wish_for_help(cell, is_called):
    transform = TransformerManager()
    transform.cleanup_transforms.append(questions)
    made = transform.transform_cell(cell)
    assert ("run_line_magic('agent'" in made) == is_called
    assert ("pinfo" in made) != is_called


def test_names_are_found_in_the_task():
    names = ["df", "x", "größe", "agent"]
    assert mentioned("Is df.x empty? Look at größe, not at dfs", names) == ["df", "x", "größe"]


def test_a_table_is_described_by_its_columns_and_no_value_is_told():
    table = pd.DataFrame({"name": ["secret-1", "secret-2"], "size": [1.5, 2.5]})
    (line,) = described({"df": table}, 0)
    assert line.startswith("- df: pandas.DataFrame, 2x2, columns name (")
    assert "size (float64)" in line
    assert "secret" not in line
    assert "secret-1" in "".join(described({"df": table}, 1))
    assert "secret-2" not in "".join(described({"df": table}, 1))


def test_what_cannot_be_looked_at_is_named_only():
    class Bad:
        @property
        def shape(self):
            raise RuntimeError

        def __repr__(self):
            raise RuntimeError

    lines = described({"bad": Bad(), "text": "secret", "many": list(range(9)), "f": len}, 0)
    assert [line.partition(":")[0] for line in lines] == ["- bad", "- text", "- many", "- f"]
    assert lines[1:3] == ["- text: str, 6 characters", "- many: list, 9 members"]


@pytest.mark.parametrize(("mode", "rows"), [("none", None), ("schema", 0), ("sample:3", 3)])
def test_a_mode_says_how_many_rows_are_told(mode, rows):
    assert rows_of(mode) == rows


@pytest.mark.parametrize("mode", ["all", "sample", "sample:21", ""])
def test_a_mode_that_is_none_is_said(mode):
    with pytest.raises(AgentError, match="it takes none, schema, or sample:N"):
        rows_of(mode)


# -- values ---------------------------------------------------------------------------------------------------


def test_names_that_are_not_there_are_said():
    assert chosen("a, b", {"a": 1, "b": 2}) == {"a": 1, "b": 2}
    assert chosen(None, {}) == {}
    with pytest.raises(AgentError, match="there is no c and no d in this notebook"):
        chosen("a,c,d", {"a": 1})


def test_what_cannot_be_copied_is_named_with_the_reason(tmp_path):
    shell = SimpleNamespace(user_ns={}, user_ns_hidden={})
    with pytest.raises(AgentError, match=r"file: a builtins\.generator, TypeError: cannot pickle"):
        pack({"file": (line for line in ()), "x": 1}, str(tmp_path), shell)


def test_what_comes_back_is_data_and_its_file_is_gone(tmp_path):
    file = tmp_path / "back"
    dataparcels.write_data(str(file), {"value": {"a": [1, 2.5]}}, None)
    assert unpack(str(file), {}, objects=False) == {"a": [1, 2.5]}
    assert not file.exists()


def test_objects_come_back_only_where_they_are_trusted(tmp_path):
    shell = SimpleNamespace(user_ns={}, user_ns_hidden={})
    for objects in False, True:
        file = pack({"value": {1, 2}}, str(tmp_path), shell)
        if objects:
            assert unpack(file, {}, objects=True) == {1, 2}
        else:
            with pytest.raises(AgentError, match="cannot be read here: this is no parcel"):
                unpack(file, {}, objects=False)


# -- the host ---------------------------------------------------------------------------------------------------

ECHO = """
import json, socket, sys
line = socket.socket(fileno=int(sys.argv[1]))
def say(message):
    body = json.dumps(message).encode()
    line.sendall(len(body).to_bytes(4, "big") + body)
say({"tell": "ready", "folder": "here"})
while head := line.recv(4):
    asked = json.loads(line.recv(int.from_bytes(head, "big")))
    if asked["do"] == "die":
        sys.exit("the reason")
    say({"tell": "heard", "do": asked["do"]})
    about = {"error": "not that"} if asked["do"] == "bad" else {"ok": True, "x": asked.get("x")}
    say({"re": asked["number"], **about})
"""


@pytest.fixture
def heard():
    return []


@pytest.fixture
def link(heard):
    link = Link(heard.append, (sys.executable, "-c", ECHO))
    yield link
    link.close()


def test_the_host_is_asked_and_answers_and_says_what_it_has_to(link, heard):
    assert link.folder == "here"
    assert link.ask("something", x=[1])["x"] == [1]
    assert heard == [{"tell": "heard", "do": "something"}]
    with pytest.raises(AgentError, match="not that"):
        link.ask("bad")
    link.close()
    link.close()
    assert not link.is_alive


def test_a_host_that_dies_says_why_to_all_who_wait(link, heard):
    with pytest.raises(AgentError, match="the agent's host has ended: the reason"):
        link.ask("die")
    with pytest.raises(AgentError, match="the reason"):
        link.ask("something")


def test_a_host_that_does_not_start_says_why():
    with pytest.raises(AgentError, match="the agent's host has ended: SyntaxError"):
        Link(lambda message: None, (sys.executable, "-c", "this is no Python"))


# -- pages --------------------------------------------------------------------------------------------------------


class Comm:
    def __init__(self, name, manager):
        self.comm_id, self.topic = name, name.encode()
        self.manager = manager

    def on_msg(self, function):
        self.say = function

    def on_close(self, function):
        self.gone = function


class Kernel:
    """What of a kernel pages need: messages that are sent are kept by comm."""

    def __init__(self):
        self.sent, self.iopub_socket, self.session = {}, None, self

    def send(self, socket, kind, content, parent, ident):
        assert kind == "comm_msg"
        self.sent.setdefault(content["comm_id"], []).append(content["data"])


class Room:
    """Pages and their kernel."""

    def __init__(self):
        self.asked, self.kernel = [], Kernel()
        self.pages = Pages(self.ask, lambda: [{"run": "old"}], "1.0", self.kernel)

    def ask(self, do, **about):
        self.asked.append((do, about))
        if do == "stop_block":
            raise AgentError("no block x runs")
        return {"snapshot": {"n": 3, "ops": []}}

    def come(self, session, settings=None):
        comm = Comm(f"comm of {session}", self)
        opening = {"header": {"session": session}, "content": {"data": {"v": 1, "settings": settings}}}
        self.pages._opened(comm, opening)
        return comm

    def say(self, comm, **said):
        comm.say({"content": {"data": {"number": 7, **said}}})
        return self.kernel.sent[comm.comm_id][-1]


RUN = {"run": "r", "cell": "c", "task": "t", "live": True}


@pytest.fixture
def room():
    return Room()


def test_a_page_that_comes_hears_what_there_is_and_the_host_hears_of_it(room):
    comm = room.come("s1", {"model": "m"})
    assert room.kernel.sent[comm.comm_id] == [{"hello": {"v": 1, "version": "1.0", "runs": [{"run": "old"}]}}]
    assert room.asked == [("pages", {"there": True})]
    assert room.pages.settings_of("s1") == {"model": "m"}
    comm.gone(None)
    assert room.asked[-1] == ("pages", {"there": False})


def test_only_the_page_whose_cell_it_is_is_told_what_changes(room):
    one, other = room.come("s1"), room.come("s2")
    assert room.pages.begun(RUN, "s1", 0)
    room.pages.cells("r", 0, [{"op": "bar"}])
    assert room.kernel.sent[one.comm_id][1:] == [{"begun": RUN}, {"run": "r", "n": 0, "ops": [{"op": "bar"}]}]
    assert room.kernel.sent[other.comm_id][1:] == [{"begun": RUN}]


def test_a_run_of_a_cell_that_no_page_has_is_shown_by_none(room):
    room.come("s1")
    assert not room.pages.begun(RUN, "nbclient", 0.01)
    room.pages.cells("r", 0, [])
    assert len(room.kernel.sent["comm of s1"]) == 2


def test_another_page_may_show_a_run_only_when_the_first_is_silent_or_gone(room, monkeypatch):
    one, other = room.come("s1"), room.come("s2")
    room.pages.begun(RUN, "s1", 0)
    assert room.say(other, do="show", run="r") == {"re": 7, "error": "another page shows this run"}
    assert room.say(one, do="show", run="r")["snapshot"]["n"] == 3
    room.pages._shows["r"].heard -= 10
    assert room.say(other, do="show", run="r")["ok"]
    other.gone(None)
    assert room.say(one, do="show", run="r")["ok"]


def test_what_a_page_wants_goes_to_the_host_and_a_no_comes_back(room):
    comm = room.come("s1")
    assert room.say(comm, do="steer", run="r", text="left") == {"re": 7, "ok": True}
    assert room.asked[-1] == ("steer", {"run": "r", "text": "left"})
    assert room.say(comm, do="stop_block", run="r", block="x") == {"re": 7, "error": "no block x runs"}
    assert "does not know 'fly'" in room.say(comm, do="fly")["error"]
    assert HELLO == "codeact.hello"


# -- the last error ---------------------------------------------------------------------------------------------


class Shell:
    """What of a shell remembers errors: cells are told to it."""

    def __init__(self):
        self.events, self.hears = self, None

    def register(self, name, function):
        self.hears = function

    def unregister(self, name, function):
        self.hears = None

    def transform_cell(self, cell):
        return cell

    def run(self, cell, namespace):
        error = None
        try:
            exec(compile(cell, "<cell>", "exec"), namespace)
        except BaseException as raised:
            error = raised
        info = SimpleNamespace(raw_cell=cell)
        self.hears(SimpleNamespace(info=info, error_in_exec=error, error_before_exec=None))


def test_of_an_error_the_cells_behind_it_are_told_the_newest_definition_first_run_first():
    shell, names = Shell(), {}
    failures = Failures(shell)
    with pytest.raises(AgentError, match="no cell has failed"):
        failures.told()
    cells = ["path = 'a'", "size = 1", "rows = [path]", "other = 2", "size = 0", "rows[0] / size"]
    for cell in cells:
        shell.run(cell, names)
    told = failures.told()
    assert "TypeError: unsupported operand" in told
    assert "path = 'a'\n\nrows = [path]\n\nsize = 0\n```" in told
    assert "other" not in told
    assert "size = 1" not in told
    failures.close()
    assert shell.hears is None


def test_a_stop_and_the_agents_own_cells_are_no_error_to_fix():
    shell = Shell()
    failures = Failures(shell)
    shell.run("raise KeyboardInterrupt", {})
    shell.hears(
        SimpleNamespace(
            info=SimpleNamespace(raw_cell="%agent x"), error_in_exec=AgentError("no"), error_before_exec=None
        )
    )
    with pytest.raises(AgentError, match="no cell has failed"):
        failures.told()


# -- a run as its cell sees it ----------------------------------------------------------------------------------


class Quiet:
    """What of a shell and a link a run needs."""

    def __init__(self, *interrupts):
        self.asked, self.display_pub = [], self

    def publish(self, data, metadata, **how):
        pass

    def ask(self, do, **about):
        self.asked.append(do)
        raise AgentError("the agent is not at work")


END = {"tell": "ended", "stop": "answered", "message": "", "answer": "4", "file": None, "at": "b1"}


def run_of(quiet):
    return Running(quiet, quiet, {"run": "r"}, terminal=False)


def test_a_stop_that_comes_too_late_takes_no_answer_away():
    quiet = Quiet()
    running = run_of(quiet)

    class Pressed:
        """What waits is interrupted once, and then there is the end."""

        def __init__(self):
            self.left = [KeyboardInterrupt, END]

        def get(self, timeout):
            if isinstance(said := self.left.pop(0), dict):
                return said
            raise said

    running._said = Pressed()
    assert running.wait(ask=False) == END
    assert quiet.asked == ["stop"]


def test_what_cannot_be_bound_in_the_background_is_told_and_ends_nothing_else(capsys):
    running = run_of(Quiet())

    def bind(end):
        raise AgentError("it cannot be read here")

    running.leave(bind)
    running.take(END)
    assert capsys.readouterr().out == "it cannot be read here\n"
    assert (running.end["stop"], running.end["message"]) == ("failed", "it cannot be read here")
