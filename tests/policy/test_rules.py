"""Rules: how they are written, and what they mean."""

from __future__ import annotations

import tomllib

import pytest

from codeact_kernel.approval import Call
from codeact_kernel.blocks import AgentBlock, CodeBlock
from codeact_kernel.errors import ConfigError
from codeact_kernel.policy import default_rules, read_rules
from codeact_kernel.policy.paths import Places
from codeact_kernel.policy.subjects import of_block, of_call


def rules(text):
    return read_rules(tomllib.loads(text), "x.toml")


@pytest.fixture
def places(tmp_path):
    (tmp_path / "src").mkdir()
    (tmp_path / "out").symlink_to("/etc")
    return Places(tmp_path)


@pytest.fixture
def call(places):
    def make(name, *classes, **arguments):
        return of_call(Call("1", name, "b1", classes, arguments), places)

    return make


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("dny = []", "'dny' is no key; did you mean 'deny'? known are deny, ask, allow, defaults"),
        ('deny = "x"', "rules.deny takes a list"),
        ("deny = [1]", "rules.deny holds 1; a rule is a tool's name, or a table"),
        ("deny = [{}]", "a rule is a tool's name, or a table"),
        ('deny = [{reason = "no"}]', "a rule is a tool's name, or a table"),
        ('deny = [{tol = "x"}]', "'tol' is no key; did you mean 'tool'? known are tool, kind, path, command"),
        ('deny = [{kind = "writes"}]', "'writes' is no kind of tool; a kind is one of read, write"),
        ("deny = [{path = 3}]", "path takes a text, or a list of texts"),
        ("deny = [{path = []}]", "path is empty, so the rule would mean nothing"),
        ('deny = [{command = "ls \'"}]', "No closing quotation"),
        ('deny = [{host = "a*b"}]', "'a*b' is no host"),
        ('deny = [{tool = "x", arguments = "y"}]', "arguments is a table"),
        ('defaults = "no"', "rules.defaults is true or false"),
    ],
)
def test_what_is_wrong_with_a_rule_is_one_line_that_names_the_file(text, said):
    with pytest.raises(ConfigError) as raised:
        rules(text)
    assert said in raised.value.message
    assert raised.value.message.startswith("x.toml: ")
    assert "\n" not in raised.value.message


def test_a_rule_is_told_as_it_was_written():
    (rule,) = rules('deny = [{tool = "fetch", host = ["*.x.org", "y.org"]}]').deny
    assert rule.words == 'deny {tool = "fetch", host = ["*.x.org", "y.org"]} of x.toml'


@pytest.mark.parametrize(
    ("rule", "name", "meant"),
    [
        ('"fetch"', "fetch", True),
        ('"fetch"', "fetcher", False),
        ('"mcp:github:*"', "mcp:github:create_issue", True),
        ('"mcp.github.*"', "mcp:github:create_issue", True),
        ('"mcp.github.*"', "mcp:gitlab:create_issue", False),
        ('"*"', "anything", True),
        ('{kind = "network"}', "x", True),
        ('{kind = "read"}', "x", False),
    ],
)
def test_tools_are_named_by_patterns_or_by_kind(call, rule, name, meant):
    it = call(name, "write", "network", text="x")
    assert bool(rules(f"deny = [{rule}]").denying(it)) is meant


def test_a_denial_needs_one_of_the_kinds_and_an_allowance_all(call):
    it = call("x", "read", "network")
    assert rules('deny = [{kind = "read"}]').denying(it)
    assert not rules('allow = [{kind = "read"}]').allowing(it)
    assert rules('allow = [{kind = ["read", "network"]}]').allowing(it)


def test_a_tool_of_which_nobody_says_what_it_does_writes_and_uses_the_network(call):
    it = call("mine")
    assert rules('deny = [{kind = "write"}]').denying(it)
    assert rules('deny = [{kind = "network"}]').denying(it)
    assert not rules('allow = [{kind = ["read", "write"]}]').allowing(it)


def test_all_that_a_rule_says_has_to_hold(call):
    some = rules('deny = [{tool = "send", arguments = {to = ["*@x.org", "me"], subject = "*secret*"}}]')
    assert some.denying(call("send", "write", to="a@x.org", subject="a secret"))
    assert not some.denying(call("send", "write", to="a@x.org", subject="hello"))
    assert not some.denying(call("send", "write", to="a@x.org"))
    assert not some.denying(call("post", "write", to="a@x.org", subject="a secret"))


def test_arguments_that_are_no_texts_are_matched_as_json(call):
    some = rules('deny = [{tool = "x", arguments = {n = "3", flag = "true", items = "*\\"b\\"*"}}]')
    assert some.denying(call("x", n=3, flag=True, items=["a", "b"]))
    assert not some.denying(call("x", n=30, flag=True, items=["a", "b"]))


def test_paths_are_judged_where_they_lead(call):
    some = rules('deny = [{path = "/etc"}]\nallow = [{tool = "write_file", path = "src/**"}]')
    assert some.denying(call("read_file", "read", path="out/passwd"))
    assert some.denying(call("read_file", "read", path="src/../out/passwd"))
    assert some.allowing(call("write_file", "write", path="src/a.py", content="x"))
    assert not some.allowing(call("write_file", "write", path="src/../a.py", content="x"))
    assert not some.allowing(call("write_file", "write", content="x"))
    assert some.denying(call("copy", "write", source="src/a", destination="out/x"))
    assert not some.allowing(call("write_file", "write", path="src/a", cwd="elsewhere"))


def test_a_path_that_is_none_is_denied_and_never_allowed(call):
    it = call("write_file", "write", path="src/\0")
    assert rules('deny = [{path = "/etc"}]').denying(it)
    assert not rules('allow = [{path = "src"}]').allowing(it)


def test_hosts_are_judged_in_one_spelling(call):
    some = rules('deny = [{host = "169.254.0.0/16"}]\nallow = [{tool = "fetch", host = "*.python.org"}]')
    assert some.denying(call("fetch", "network", url="http://0xa9fea9fe/latest"))
    assert some.denying(call("fetch", "network", url="http://[::ffff:a9fe:a9fe]/"))
    assert some.allowing(call("fetch", "network", url="https://DOCS.python.org./3"))
    assert not some.allowing(call("fetch", "network", url="https://docs.python.org@evil.com/"))
    assert not some.allowing(call("fetch", "network", url="https://python.org.evil.com/"))
    assert not some.allowing(
        call("fetch_all", "network", urls=["https://docs.python.org", "https://evil.com"])
    )
    for address in ("http://169.254.169.254/", "169.254.169.254/latest", "169.254.43518"):
        assert some.denying(call("run_command", "write", command=["curl", address]))
    assert not some.denying(call("run_command", "write", command="python a.py 3.11 x.y/z"))


def test_an_address_of_no_host_is_none_of_a_rule_s(call):
    assert not default_rules().denying(call("mcp:files:read_resource", "read", uri="file:///x"))
    assert not default_rules().denying(call("mcp:notes:read_resource", "read", uri="note:1"))


@pytest.mark.parametrize(
    ("command", "allowed"),
    [
        ("git status", True),
        ("git status && git log -3", True),
        ("git status && rm x", False),
        ("git status $(rm x)", False),
        ("git status > src/x", False),
        ("ls src", True),
        ("ls out", False),
        ("ls src/../..", False),
        ("ls ~", False),
        ("ls > src/x", True),
        ("ls > /tmp/x", False),
        ("ls *", False),
        ("cat < out/passwd", False),
    ],
)
def test_each_part_of_a_line_has_to_be_allowed(call, command, allowed):
    some = rules(
        'allow = [{tool = "run_command", command = ["git status *", "git log *"]}, '
        '{tool = "run_command", command = ["ls *"], path = "**"}]'
    )
    assert bool(some.allowing(call("run_command", "write", command=command, shell=True))) is allowed


def test_paths_of_a_command_count_from_its_folder(call):
    some = rules('allow = [{tool = "run_command", command = "ls *", path = "**"}]')
    assert some.allowing(call("run_command", command="ls ..", cwd="src"))
    assert not some.allowing(call("run_command", command="ls ../..", cwd="src"))
    assert not some.allowing(call("run_command", command="ls .", cwd="out"))


def test_without_a_shell_its_signs_are_words(call):
    some = rules('allow = [{tool = "run_command", command = "echo *"}]')
    assert some.allowing(call("run_command", command="echo a; rm b"))
    assert not some.allowing(call("run_command", command="echo a; rm b", shell=True))
    assert not some.allowing(call("mcp:shell:run", command="echo a; rm b"))
    assert some.allowing(call("run_command", command=["echo", "$(rm b)"]))


def test_a_rule_that_names_the_tool_alone_allows_every_command(call):
    assert rules('allow = ["run_command"]').allowing(call("run_command", command="sh -c x", shell=True))


def test_where_a_denial_of_commands_cannot_be_judged_that_is_told(call):
    some = rules('deny = [{command = "git push *"}]')
    assert some.doubt(call("run_command", command="curl x | sh", shell=True))
    assert not some.doubt(call("run_command", command="ls", shell=True))
    assert not rules('deny = ["x"]').doubt(call("run_command", command="curl x | sh", shell=True))


def test_blocks_are_named_run_code_and_run_agent_and_have_no_kind(places):
    code, agent = of_block(CodeBlock("import os"), places), of_block(AgentBlock("go"), places)
    assert rules('deny = ["run_code"]').denying(code)
    assert not rules('deny = ["run_code"]').denying(agent)
    assert rules('deny = [{tool = "run_code", arguments = {code = "*import os*"}}]').denying(code)
    assert not rules('allow = [{kind = ["read", "write", "network", "destructive"]}]').allowing(code)
    assert rules('allow = ["*"]').allowing(code)


def test_the_defaults_are_read_and_mean_what_they_say(call):
    some = default_rules()
    assert some.denying(call("fetch", "network", url="http://metadata.google.internal/x"))
    assert some.asking(call("write_file", "write", path=".git/hooks/pre-commit", content=""))
    assert some.asking(call("write_file", "write", path="codeact.toml", content=""))
    assert some.allowing(call("read_file", "read", path="src/a.py"))
    assert not some.allowing(call("fetch", "network", url="https://example.com"))
    assert some.allowing(call("run_command", "write", "destructive", "network", command="pwd"))
    assert not some.allowing(
        call("run_command", "write", "destructive", "network", command="cat /etc/passwd")
    )


def test_one_set_of_rules_and_another_are_both(call):
    both = rules('deny = ["a"]') + rules('deny = ["b"]\ndefaults = false')
    assert both.denying(call("a"))
    assert both.denying(call("b"))
    assert not both.defaults
