"""The notebook in examples/: small, executed when it was stored, and it runs."""

import json
import re
from pathlib import Path

import pytest

import slsgd_mx

NOTEBOOK = Path(slsgd_mx.__file__).resolve().parent.parent / "examples" / "first_attack.ipynb"


def outputs(notebook):
    return [output for cell in notebook["cells"] for output in cell.get("outputs", ())]


def test_it_is_stored_with_small_outputs_and_names_no_folder_of_its_author():
    text = NOTEBOOK.read_text(encoding="utf-8")
    assert len(text) < 300_000 and "/tmp" not in text and "/home" not in text
    notebook = json.loads(text)
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    assert any("image/png" in output.get("data", {}) for output in outputs(notebook))
    assert not [output for output in outputs(notebook) if output["output_type"] == "error"]


def test_it_runs(tmp_path):
    """With two epochs; what it prints has the lines that are stored, with other numbers."""
    nbclient = pytest.importorskip("nbclient", reason='needs pip install "slsgd-mx[notebook]"')
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    stored = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    text, count = re.subn(r"EPOCHS = \d+", "EPOCHS = 2", NOTEBOOK.read_text(encoding="utf-8"))
    assert count == 1
    notebook = nbformat.reads(text, 4)
    folder = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(notebook, timeout=600, resources=folder).execute()

    def shape(found):
        lines = ["".join(output.get("text", "")) for output in outputs(found)]
        return [re.sub(r"[\d.]+", "0", line) for line in lines]

    assert shape(notebook) == shape(stored)
    assert any("image/png" in output.get("data", {}) for output in outputs(notebook))
