"""All white space, and the table of words in C."""

import sys

import pytest

from slsgd_mx.data.numbers import Dictionary, describe_numbers, make_numbers

SPACES = [chr(i) for i in range(sys.maxunicode + 1) if chr(i).isspace()]


def made_table():
    """An empty table in C; the test is skipped without a compiler."""
    numbers = make_numbers()
    if isinstance(numbers, Dictionary):
        pytest.skip(f"the word table is {describe_numbers()}")
    return numbers
