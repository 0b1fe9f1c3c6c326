"""The schema of the record in the documentation, and the notebooks that it describes."""

import copy
import json

from hypothesis import HealthCheck, given, settings
from jsonschema import Draft202012Validator
from schema import SCHEMA, misfits
from stories import SCOUT, opened, ran, story, streams_of_events, told

from codeact_kernel.blocks import LeftOut, StreamOutput
from codeact_kernel.events import Appended, Audited, Knowledge
from codeact_kernel.record import SCHEMA as VERSION
from codeact_kernel.record import NotebookFile, read_notebook, to_notebook
from codeact_kernel.signing import Signer
from codeact_kernel.transcript import Transcript


def test_the_schema_is_one_and_of_the_version_that_is_written():
    schema = json.loads(SCHEMA.read_text())
    Draft202012Validator.check_schema(schema)
    assert schema["$defs"]["notebook"]["properties"]["schema"] == {"const": VERSION}


def test_a_notebook_fits_it_after_every_single_event():
    transcript = Transcript()
    assert misfits(to_notebook(transcript)) == []
    for event in (*story(), Audited(3, "head")):
        transcript.apply(event)
        assert misfits(to_notebook(transcript)) == []


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(streams_of_events())
def test_whatever_happens_it_fits(events):
    assert misfits(to_notebook(told(*events))) == []


def test_a_file_fits_it_with_its_signature_and_what_is_said_beside_the_blocks(tmp_path):
    long = [StreamOutput("stdout", "a"), LeftOut(10_000, 5, file="outputs/dl.txt")]
    transcript = opened(*ran(SCOUT, *long), Appended(1, Knowledge("All is known.", "nothing lives")))
    assert NotebookFile(tmp_path / "run.ipynb", signer=Signer(b"k" * 32)).write(transcript) is None
    notebook = read_notebook(tmp_path / "run.ipynb")
    assert misfits(notebook) == []
    assert "signature" in notebook["metadata"]["codeact"]
    kinds = [cell["metadata"]["codeact"]["kind"] for cell in notebook["cells"]]
    assert kinds == ["task", "run_agent", "beyond", "compaction"]


def test_it_refuses_what_is_not_described():
    notebook = to_notebook(told(*story()))
    for spoil in (
        lambda about, cell: about.pop("replies"),
        lambda about, cell: about.update(schema=2),
        lambda about, cell: about.update(more=1),
        lambda about, cell: about["replies"][0].pop("text"),
        lambda about, cell: about["context"][0].update(type="Other"),
        lambda about, cell: cell.update(kind="other"),
        lambda about, cell: cell.update(model=1),
    ):
        spoilt = copy.deepcopy(notebook)
        spoil(spoilt["metadata"]["codeact"], spoilt["cells"][0]["metadata"]["codeact"])
        assert misfits(spoilt)
