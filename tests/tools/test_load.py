"""Tools are found by the name of a file, a module or an entry point."""

from __future__ import annotations

import sys

import pytest

from codeact_kernel.errors import ConfigError
from codeact_kernel.tools import as_tools, load_tools


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Puts a package on the path, as pip would leave it there."""
    before = set(sys.modules)

    def put(name, source, *points, version="1"):
        place = tmp_path / name
        place.mkdir()
        (place / f"{name}.py").write_text(source)
        info = place / f"{name}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        lines = "\n".join(["[codeact_kernel.tools]", *points])
        (info / "entry_points.txt").write_text(lines + "\n")
        monkeypatch.syspath_prepend(str(place))

    yield put
    for name in set(sys.modules) - before:
        del sys.modules[name]


SOURCE = """
from codeact_kernel.tools import tool

def sun(): "Tell when the sun rises."
def rain(): "Tell how much it rains."
def _hidden(): pass
class Wind:
    def __call__(self): "Tell the wind."

both = [tool(sun, name="sunrise"), rain]
written = tool(rain, kind="write")
nothing = []
number = 3
wind = Wind()
"""


def names(source):
    return list(as_tools(load_tools(source)))


def test_tools_are_loaded_from_a_file_and_from_a_module(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text("from json import dumps\ndef one(): pass\ndef _hidden(): pass\ndef two(): pass\n")
    assert [f.__name__ for f in load_tools(str(path))] == ["one", "two"]
    path.write_text("def one(): pass\ndef two(): pass\nTOOLS = [two]\n")
    assert [f.__name__ for f in load_tools(str(path))] == ["two"]
    assert "getcwd" not in [f.__name__ for f in load_tools("textwrap")]


@pytest.mark.parametrize(("name", "text"), [("none.py", None), ("empty.py", ""), ("broken.py", "1/0")])
def test_tools_that_cannot_be_loaded_are_said_in_one_line(tmp_path, name, text):
    path = tmp_path / name
    if text is not None:
        path.write_text(text)
    with pytest.raises(ConfigError) as error:
        load_tools(str(path))
    assert name in error.value.message
    assert "\n" not in error.value.message


@pytest.mark.parametrize(
    ("target", "tools"),
    [
        ("weatherly:sun", ["sun"]),
        ("weatherly:written", ["rain"]),
        ("weatherly:both", ["sunrise", "rain"]),
        ("weatherly:wind", ["Wind"]),
        ("weatherly", ["sun", "rain"]),
    ],
)
def test_an_entry_point_leads_to_a_function_a_tool_a_list_or_a_module(install, target, tools):
    install("weatherly", SOURCE, f"weather = {target}", "other = nosuch")
    assert names("weather") == tools


def test_an_entry_point_counts_before_a_module_of_its_name_and_after_builtin_and_files(install, tmp_path):
    install(
        "weatherly", SOURCE, "weatherly = weatherly:sun", "builtin = weatherly:sun", "mine.py = weatherly:sun"
    )
    assert names("weatherly") == ["sun"]
    assert "read_file" in names("builtin")
    (tmp_path / "mine.py").write_text("def one(): pass\n")
    assert names(str(tmp_path / "mine.py")) == ["one"]
    with pytest.raises(ConfigError, match="FileNotFoundError"):
        load_tools("mine.py")


def test_one_name_in_two_packages_is_an_error_that_names_both(install):
    install("weatherly", SOURCE, "weather = weatherly:sun")
    install("climate", SOURCE, "weather = climate:sun")
    with pytest.raises(ConfigError) as error:
        load_tools("weather")
    for part in ("weatherly:sun of weatherly", "climate:sun of climate", "name the module instead"):
        assert part in error.value.message
    assert names("climate") == ["sun", "rain"]


def test_a_name_that_is_none_is_told_with_those_that_there_are(install):
    with pytest.raises(ConfigError, match=r"No module named 'nosuch'$"):
        load_tools("nosuch")
    install("weatherly", SOURCE, "weather = weatherly:both", "sun = weatherly:sun")
    with pytest.raises(
        ConfigError, match=r"No module named 'nosuch'; installed packages offer sun, weather$"
    ):
        load_tools("nosuch")


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("weatherly:number", "the entry point weather leads to 3, which is no tool"),
        ("weatherly:nothing", "weather offers no tools"),
        ("weatherly:nosuch", "the tools weather cannot be loaded: AttributeError"),
        ("notthere:sun", "the tools weather cannot be loaded: ModuleNotFoundError"),
    ],
)
def test_an_entry_point_that_leads_nowhere_is_said_in_one_line(install, target, message):
    install("weatherly", SOURCE, f"weather = {target}")
    with pytest.raises(ConfigError) as error:
        load_tools("weather")
    assert error.value.message.startswith(message)
    assert "\n" not in error.value.message


def test_what_the_decorator_made_in_a_module_is_offered_as_its_functions_are(tmp_path):
    path = tmp_path / "mixed.py"
    path.write_text(
        "from codeact_kernel.tools import tool\n"
        "@tool(kind='read')\ndef a(): ...\ndef b(): ...\n@tool\ndef _hidden(): ...\n"
    )
    assert names(str(path)) == ["a", "b"]
