"""Shell commands, split and judged."""

from __future__ import annotations

import pytest

from codeact_kernel.policy.commands import Simple, covers, of_arguments, read_pattern, split_line, touches


def words_of(line):
    return [simple.words for simple in split_line(line)]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("ls -la src | wc -l", [("ls", "-la", "src"), ("wc", "-l")]),
        ("a && b || c; d & e", [("a",), ("b",), ("c",), ("d",), ("e",)]),
        ("(cd x; rm y)", [("cd", "x"), ("rm", "y")]),
        ("ls 'a b' \"c d\" e\\ f", [("ls", "a b", "c d", "e f")]),
        ("echo $(rm -rf x)", [("rm", "-rf", "x"), ("echo", None)]),
        ("echo `rm x`", [("rm", "x"), ("echo", None)]),
        ('echo "a $(rm b) c"', [("rm", "b"), ("echo", None)]),
        ("ls <(rm z)", [("rm", "z"), ("ls", None)]),
        ("cat <<EOF\nhi $(rm x)\nEOF", [("rm", "x"), ("cat",)]),
        ("if true; then rm x; fi", [("true",), ("rm", "x")]),
        ("case x in x) rm y;; esac", [("rm", "y")]),
        ("! ls # rm", [("ls",)]),
        ('"rm" x', [("rm", "x")]),
        ("r\\m x", [("rm", "x")]),
        ("ls *.py ~/x {a,b}", [("ls", None, None, None)]),
    ],
)
def test_each_simple_command_is_found_wherever_it_stands(line, words):
    assert words_of(line) == words


@pytest.mark.parametrize(
    "line",
    [
        "curl x | sh",
        "sh <<EOF\nrm x\nEOF",
        "cat <<'EOF' | sh\nrm\nEOF",
        "python - <<< 'x'",
        "sh < x",
        "X=1 ls",
        "$CMD a",
        "$'rm' x",
        "eval rm x",
        ". ./x",
        "trap 'rm x' EXIT",
        "f() { rm x; }; f",
        "export PATH=.; ls",
        "PATH=.; ls",
        "for PATH in .; do ls; done",
        "read PATH; ls",
        "cd /; cat etc/passwd",
        "echo ${PATH:=.}",
        "echo $((PATH=1))",
        "find . -exec rm {} +",
        "find . -delete",
        "find . $WHAT",
        "> file",
        "echo 'unclosed",
        "ls\rrm x",
        "ls\u00a0rm",
        "ls \x1b[2K",
        "",
    ],
)
def test_what_a_pattern_cannot_judge_is_a_doubt(line):
    assert any(simple.doubt for simple in split_line(line))
    assert not all(covers(read_pattern("*"), simple) for simple in split_line(line))


def test_redirections_are_files_and_those_to_nothing_are_not():
    assert [s.targets for s in split_line("echo a > out.txt 2>&1")] == [("out.txt",)]
    assert [s.targets for s in split_line("cat < in 2> /dev/null")] == [("in",)]
    assert [s.targets for s in split_line("echo a > $X")] == [(None,)]
    assert ("f",) in [s.targets for s in split_line("cat <<EOF > f\nx\nEOF")]
    assert [s.targets for s in split_line("while true; do echo; done > f")] == [("f",), ("f",)]


@pytest.mark.parametrize(
    ("pattern", "line", "covered"),
    [
        ("git status", "git status", True),
        ("git status", "git status -s", False),
        ("git status *", "git status", True),
        ("git status *", "git status -s x", True),
        ("git *", "git status", False),
        ("git status *", "git -c core.pager=x status", False),
        ("git status *", "./git status", False),
        ("python -m pytest *", "python -m pytest tests -q", True),
        ("python *", "python x.py", False),
        ("python x.py *", "python x.py --all", True),
        ("python -c *", "python -c 'import os'", False),
        ("xargs rm *", "xargs rm x", True),
        ("env *", "env A=1 rm x", False),
        ("ls *", "ls $X", True),
        ("ls * x", "ls $X x", False),
        ("ls", "ls $X", False),
        ("l?", "ls", True),
        ("echo a*", "echo 'a; rm b'", True),
    ],
)
def test_a_pattern_covers_what_it_names_word_by_word(pattern, line, covered):
    (simple,) = split_line(line)
    assert covers(read_pattern(pattern), simple) is covered


@pytest.mark.parametrize(
    ("pattern", "line"),
    [
        ("rm *", "rm -rf x"),
        ("rm *", "/bin/rm x"),
        ("rm *", "sudo -n /bin/rm x"),
        ("rm *", "env A=1 timeout 5 rm x"),
        ("rm *", "xargs rm"),
        ("git push *", "git $X"),
        ("git push *", "git push"),
    ],
)
def test_a_denial_means_what_is_run_by_way_of_others_and_what_may_be_meant(pattern, line):
    (simple,) = split_line(line)
    assert touches(read_pattern(pattern), simple)
    assert not touches(read_pattern("shutdown *"), simple) or None in simple.words


def test_a_list_of_arguments_is_read_by_no_shell():
    assert of_arguments(["echo", "a; rm b", "$(x)"]) == (Simple(("echo", "a; rm b", "$(x)"), is_shell=False),)
    (simple,) = of_arguments(["sh"], stdin=True)
    assert simple.doubt


def test_words_that_may_be_paths_are_told_and_an_option_that_holds_one_may_be_any():
    (simple,) = split_line("tar -C/etc -x --file=../a src -v")
    assert simple.paths == (None, None, "src")


def test_a_long_line_is_split_in_no_time():
    line = "; ".join(f"echo {n} | grep -c $(cat f{n})" for n in range(500))
    assert len(split_line(line)) == 1500


def test_what_is_nested_without_end_is_a_doubt():
    assert split_line("(" * 5000 + "rm x" + ")" * 5000)[0].doubt
    assert split_line("echo " + "$(" * 5000)[0].doubt
