"""What the metadata of a record have to be, as the documentation says it."""

from __future__ import annotations

import json
from pathlib import Path

from jsonschema import Draft202012Validator

SCHEMA = Path(__file__).parents[2] / "docs" / "record.schema.json"


def misfits(notebook):
    """What of a notebook is not as the schema says; empty where all of it is."""
    validator = Draft202012Validator(json.loads(SCHEMA.read_text()))
    return [f"{error.json_path}: {error.message[:300]}" for error in validator.iter_errors(notebook)]
