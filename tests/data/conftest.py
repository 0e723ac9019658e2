"""The fixture of tests that run with the table of words in C and without it."""

import pytest
from helpers.word_tables import made_table

from slsgd_mx.system.libraries import VARIABLE


@pytest.fixture(params=["compiled", "numpy"])
def kernel(request, monkeypatch):
    """The table in C, then the dictionary in Python."""
    monkeypatch.setenv(VARIABLE, request.param)
    if request.param == "compiled":
        made_table()
    return request.param
