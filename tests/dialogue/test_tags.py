"""The tag grammar where the written cases are silent."""

import pytest
from dialogue_helpers import blocks_of, compiles, faults_of, joined, parts_of, prose_of, read

from codeact_kernel.blocks import AgentBlock, Cancel, CodeBlock, Prose
from codeact_kernel.dialogue.tags import TagReader


def only_block(reply, finish="stop"):
    items, _ = read(reply, finish)
    (block,) = blocks_of(items)
    assert not faults_of(items)
    return block


def only_fault(reply, finish="stop", **options):
    items, _ = read(reply, finish, **options)
    (fault,) = faults_of(items)
    return fault


# When a block is certain.


def test_a_block_is_returned_with_the_last_character_of_its_closing_tag():
    reader = TagReader(compiles)
    assert not reader.feed("<run_code id=a>\nprint(1)\n</run_code")
    assert reader.feed(">") == [CodeBlock("print(1)", "a")]


def test_a_block_on_one_line_waits_for_the_end_of_the_line():
    reader = TagReader(compiles)
    assert not reader.feed("<run_code>print(1)</run_code>")
    assert joined(reader.feed("\n")) == [CodeBlock("print(1)")]


def test_prose_streams_and_only_a_possible_tag_is_held_back():
    reader = TagReader(compiles)
    assert reader.feed("Let me") == [Prose("Let me")]
    assert reader.feed(" look\n<run_co") == [Prose(" look")]
    assert joined(reader.feed("ast>")) == [Prose("\n<run_coast>")]


def test_what_follows_a_closing_tag_on_its_line_is_read_like_the_start_of_a_line():
    items, _ = read("<run_code>\n1\n</run_code><run_code>\n2\n</run_code> and on")
    assert items == [CodeBlock("1"), CodeBlock("2"), Prose(" and on")]


def test_an_indented_closing_tag_closes_and_a_longer_word_does_not():
    assert only_block("<run_code>\nx = 1\n   </run_code>").code == "x = 1"
    assert only_block("<run_code>\n</run_coder>\n</run_code>").code == "</run_coder>"


def test_a_closing_tag_may_repeat_the_id():
    assert only_block('<run_code id="a">\n1\n</run_code id="a">').code == "1"


def test_a_line_with_two_closing_tags_is_one_payload():
    block = only_block("<run_code>print('</run_code>')</run_code>")
    assert block.code == "print('</run_code>')"


# Attributes.


def test_a_tag_may_go_on_over_several_lines():
    block = only_block('<run_agent name="scout"\n           namespace="a b"\n>\nGo.\n</run_agent>')
    assert block == AgentBlock("Go.", "scout", ("a", "b"))


def test_a_value_may_hold_an_angle_bracket_or_the_other_quote():
    fault = only_fault("<run_code id='a>\"b'>\n1\n</run_code>")
    assert fault.kind == "attribute"
    assert "'a>\"b'" in fault.message


def test_a_forgotten_quote_costs_one_block():
    items, _ = read('<run_code id="a>\nprint("1")\n</run_code>\n<run_code id=b>\n2\n</run_code>')
    assert [fault.kind for fault in faults_of(items)] == ["attribute"]
    assert blocks_of(items) == [CodeBlock("2", "b")]


def test_a_tag_without_its_bracket_is_a_fault_and_no_answer():
    fault = only_fault("<run_code\nprint(1)\n</run_code>")
    assert fault.kind == "attribute"
    assert "cannot be read" in fault.message


def test_a_misspelt_attribute_is_told_with_the_closest_and_with_all():
    fault = only_fault("<run_code id=dl timout=5s>\n1\n</run_code>")
    assert (fault.kind, fault.id, fault.runs) == ("attribute", "dl", False)
    for words in (
        'run_code "dl"',
        '"timout"',
        'did you mean "timeout"?',
        "id, timeout, heartbeat, after, lane",
    ):
        assert words in fault.message


@pytest.mark.parametrize(
    ("attributes", "words"),
    [
        ("lane=fast", "'fast' is no lane: write main, async or worker"),
        ("timeout=0", "'0' is no duration"),
        ("heartbeat=-1s", "'-1s' is no duration"),
        ("timeout", "timeout has no value"),
        ("id=a id=b", "id is given twice"),
        ("id='two words'", "'two words' cannot be used"),
        ("id='dl#2'", "'dl#2' cannot be used"),
        ("name=a", 'did you mean "id"?'),
        (f"id={'a' * 65}", "cannot be used"),
    ],
)
def test_a_bad_attribute_is_told_precisely(attributes, words):
    fault = only_fault(f"<run_code {attributes}>\n1\n</run_code>")
    assert fault.kind == "attribute"
    assert words in fault.message


def test_an_unnamed_block_is_told_by_its_place():
    items, _ = read("<run_code>\n1\n</run_code>\n<run_code x=1>\n2\n</run_code>")
    assert "block 2 of your reply" in faults_of(items)[0].message


def test_an_agent_takes_names_and_not_ids():
    assert 'did you mean "name"?' in only_fault("<run_agent id=a>\nGo.\n</run_agent>").message
    assert "'1x' cannot be used" in only_fault("<run_agent namespace='a, 1x'>\nGo.\n</run_agent>").message


def test_an_id_that_is_alive_is_a_duplicate_also_under_its_number():
    fault = only_fault("<run_code id=dl>\n1\n</run_code>", in_use=["dl#2"])
    assert (fault.kind, fault.id) == ("duplicate", "dl")
    assert '"dl"' in fault.message
    assert "alive" in fault.message


def test_ids_and_names_are_one_set():
    fault = only_fault("<run_code id=a>\n1\n</run_code>\n<run_agent name=a>\nGo.\n</run_agent>")
    assert (fault.kind, fault.id) == ("duplicate", "a")


def test_a_block_that_did_not_run_has_not_taken_its_id():
    items, _ = read("<run_code id=a x=1>\n1\n</run_code>\n<run_code id=a>\n2\n</run_code>")
    assert blocks_of(items) == [CodeBlock("2", "a")]


def test_a_tag_that_closes_itself_is_empty():
    assert only_fault("<run_code id=a/>").kind == "empty"
    assert only_fault("<run_agent/>").kind == "empty"


def test_a_bare_value_may_hold_a_slash():
    block = only_block("<run_agent model=vendor/flash>\nGo.\n</run_agent>")
    assert block.model == "vendor/flash"


# Payloads.


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        ("\n\n\nx\n", "\n\nx"),
        ("\nx\n\n", "x\n"),
        ("\n    x = '''\n    a\n      b'''\n", "x = '''\na\n  b'''"),
        ("\n  if x:\n\n    y\n", "if x:\n\n  y"),
        ("\n\tx\n  y\n", "\tx\n  y"),
        ("\n```py\n  x\n```\n", "x"),
        ("\n\n```\nx\n```\n\n", "x"),
        ("\n```python\n```\n", ""),
        ("\n```bash\nls\n```\n", "```bash\nls\n```"),
        ("\n```python\nx\n", "```python\nx"),
        ('\n```python\ns = """\n```sh\nls\n```\n"""\n```\n', 's = """\n```sh\nls\n```\n"""'),
        (" x = 1\ny = 2\n", "x = 1\ny = 2"),
        ("for i in x:\n    y\n", "for i in x:\n    y"),
        ("   \nx\n", "x"),
        ("\r\nx\r\n\r\n", "x\n"),
        ("\na\rb\n", "a\rb"),
        ("\na\u2028</run_code>\n", "a\u2028</run_code>"),
    ],
)
def test_a_payload_is_made_regular(raw, code):
    assert only_block(f"<run_code>{raw}</run_code>").code == code


def test_text_behind_an_indented_tag_is_indented_as_much():
    assert only_block("  <run_code>import os\n  os\n  </run_code>").code == "import os\nos"


def test_a_task_keeps_its_fence():
    assert only_block("<run_agent>\n```\nGo.\n```\n</run_agent>").task == "```\nGo.\n```"


@pytest.mark.parametrize(
    "raw", ["  x", "```\nx\n```", "a\r\nb\r", "x\n\n", "", "</run_code>", "\n</run_code>\n"]
)
def test_inside_a_boundary_nothing_is_changed(raw):
    assert only_block(f"<run_code boundary=k3>\n{raw}\n</run_code boundary=k3>").code == raw


def test_a_boundary_between_windows_line_ends_is_not_part_of_the_payload():
    assert only_block("<run_code boundary=k>\r\na\r\nb\r\n</run_code boundary=k>").code == "a\r\nb"


@pytest.mark.parametrize(
    "foreign", ["</run_code>", '</run_code boundary="old">', "</run_code boundary='k3 '>"]
)
def test_an_old_or_foreign_token_closes_nothing(foreign):
    reply = f"<run_code boundary=k3>\nx = '''\n{foreign}\n'''\n</run_code boundary = 'k3'>"
    assert only_block(reply).code == f"x = '''\n{foreign}\n'''"


def test_a_token_does_not_close_a_block_without_one():
    code = "x = '''\n</run_code boundary=\"a\">\n'''"
    assert only_block(f"<run_code>\n{code}\n</run_code>").code == code


# Ends of a reply.


@pytest.mark.parametrize("end", ["</run_code>", "</run_code>\n", "</run_code>  \n\n"])
def test_a_closing_tag_that_ends_the_last_line_closes(end):
    assert only_block(f"<run_code>\nx = 1\nprint(x){end}").code == "x = 1\nprint(x)"
    assert only_block(f"<run_code>print(1){end}").code == "print(1)"


def test_a_closing_tag_that_ends_the_last_line_of_a_cut_reply_does_not():
    assert only_fault("<run_code>\nprint(1)</run_code>", "length").kind == "cut"
    assert only_fault("<run_code>print(1)</run_code>", None).kind == "cut"


def test_an_unclosed_block_that_compiles_runs_and_the_model_is_told():
    items, _ = read("Look.\n<run_code id=a>\nprint(1)\n")
    fault = faults_of(items)[0]
    assert items == [Prose("Look."), CodeBlock("print(1)", "a"), fault]
    assert (fault.kind, fault.id, fault.runs) == ("unclosed", "a", True)
    assert "</run_code>" in fault.message


def test_an_unclosed_block_behind_a_filter_or_without_code_does_not_run():
    assert only_fault("<run_code>\nprint(1)", "content_filter").kind == "unclosed"
    assert not blocks_of(read("<run_code>\n  \n")[0])


def test_a_closing_tag_inside_the_last_lines_is_named_as_the_reason():
    fault = only_fault("<run_code>\nprint(1)</run_code>\nThat was it.")
    assert (fault.kind, fault.runs) == ("unclosed", False)
    assert "at the start of a line" in fault.message


def test_an_unclosed_agent_never_starts():
    items, _ = read("<run_agent name=s>\nGo.")
    assert not blocks_of(items)
    assert [fault.kind for fault in faults_of(items)] == ["unclosed"]


def test_a_reply_that_ends_inside_an_opening_tag_is_told():
    assert only_fault("Now:\n<run_code id=a").kind == "unclosed"


def test_a_cut_reply_goes_on_at_the_last_character():
    reader = TagReader(compiles)
    items = [
        *reader.feed("<run_code id=a>\n1\n</run_code>\n<run_code id=b>\nprint("),
        *reader.finish("length"),
    ]
    assert items == [CodeBlock("1", "a")]
    assert reader.cut
    reader.resume()
    assert not reader.cut
    assert not reader.feed("2)\n</run_c")
    assert not reader.finish(None)
    assert reader.cut
    reader.resume()
    assert reader.feed("ode>\n") == [CodeBlock("print(2)", "b")]
    assert not reader.finish("stop")
    assert not reader.cut
    assert reader.text == "<run_code id=a>\n1\n</run_code>\n<run_code id=b>\nprint(2)\n</run_code>"


def test_a_cut_block_never_runs_and_the_model_is_told_which():
    reader = TagReader(compiles)
    reader.feed("<run_code id=b>\nprint(2)")
    assert not reader.finish("length")
    (fault,) = reader.give_up()
    assert (fault.kind, fault.id, fault.runs) == ("cut", "b", False)
    assert not reader.cut
    assert not reader.give_up()
    assert not reader.feed("\n</run_code>")


def test_an_answer_that_was_cut_is_asked_for():
    reader = TagReader(compiles)
    reader.feed("The title is")
    reader.finish("length")
    assert reader.cut
    reader.resume()
    assert joined(reader.feed(" X.")) == [Prose(" X.")]
    assert not reader.finish("stop")
    assert not reader.cut


def test_prose_that_was_cut_behind_a_block_is_not_asked_for():
    items, reader = read("<run_code>\n1\n</run_code>\nNow we wai", "length")
    assert items == [CodeBlock("1"), Prose("Now we wai")]
    assert not reader.cut


def test_a_tag_that_was_cut_behind_a_block_is_asked_for():
    reader = TagReader(compiles)
    reader.feed("<run_code>\n1\n</run_code>\n<run_co")
    reader.finish("length")
    assert reader.cut


# Cancels, inventions, reasoning.


def test_a_cancel_has_its_line_for_itself():
    for tag in ('<cancel id="dl"/>', "<cancel id=dl>", "  <cancel id='dl'></cancel>  ", "<cancel id = dl />"):
        assert parts_of(read(f"No.\n{tag}\nGood.")[0])[1] == Cancel("dl")
    reply = '<cancel id="dl"/> would stop it.'
    assert read(reply)[0] == [Prose(reply)]


def test_a_cancel_may_name_a_numbered_id_and_needs_one():
    assert only_block("<cancel id=dl#2/>") == Cancel("dl#2")
    assert "needs an id" in only_fault("<cancel/>").message
    assert only_fault('<cancel "dl"/>').kind == "attribute"


def test_a_cancel_that_ends_a_cut_reply_still_cancels():
    assert blocks_of(read("<cancel id=dl/>", None)[0]) == [Cancel("dl")]


def test_invented_tags_without_a_block_are_prose():
    reply = "<run_code_result>\n42\n</run_code_result>\n<note>so</note>"
    assert read(reply)[0] == [Prose(reply)]


@pytest.mark.parametrize(
    "before", ["<run_code>\n1\n</run_code>", "<cancel id=a/>", "<run_code x=1>\n1\n</run_code>"]
)
@pytest.mark.parametrize(
    "tag",
    ["<run_code_result>", "<agent_result x", "<running/>", '<note from="user">', "  <reminder>", "<fault>"],
)
def test_what_is_invented_behind_a_block_is_dropped_and_told(before, tag):
    items, reader = read(f"{before}\nSo:\n{tag} id=1>\n<run_code>\nrm()\n</run_code>\n")
    assert faults_of(items)[-1].kind == "invented"
    assert len(blocks_of(items)) <= 1
    assert prose_of(items) == "So:"
    assert reader.text == f"{before}\nSo:"
    assert not reader.cut


def test_nothing_that_comes_after_an_invention_is_kept():
    reader = TagReader(compiles)
    reader.feed("<run_code>\n1\n</run_code>\n<run_code_result>\n42")
    assert not reader.feed("\n</run_code_result>\n<run_code>\n2\n</run_code>\n")
    assert not reader.finish("length")
    assert not reader.cut
    assert reader.text == "<run_code>\n1\n</run_code>"


def test_reasoning_is_left_out_only_at_the_start():
    items, reader = read(
        "\n <think>\n<run_code>\nrm()\n</run_code>\n</think><run_code>\n1\n</run_code>\n<think>x</think>"
    )
    assert parts_of(items) == [CodeBlock("1"), Prose("<think>x</think>")]
    assert reader.text == "<run_code>\n1\n</run_code>\n<think>x</think>"


def test_reasoning_without_an_end_is_no_answer():
    items, reader = read("<think>\n<run_code>\n1\n</run_code>")
    assert [fault.kind for fault in faults_of(items)] == ["unclosed"]
    assert not blocks_of(items)
    assert reader.text == ""


def test_reasoning_that_was_cut_is_asked_for():
    reader = TagReader(compiles)
    reader.feed("<think>\nhm")
    reader.finish("length")
    assert reader.cut
    reader.resume()
    assert joined(reader.feed("m</think>42")) == [Prose("42")]


def test_leading_and_trailing_white_space_is_no_prose():
    assert read("\n\n  An answer.\n\n")[0] == [Prose("  An answer.")]
    assert read(" \n")[0] == []
