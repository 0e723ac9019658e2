"""Messages for wrong values, asserted once for everything that uses them."""

from types import SimpleNamespace

import numpy as np
import pytest

from slsgd_mx.errors import ConfigError
from slsgd_mx.validation import check_between, require_name, require_new_name, require_whole


@pytest.mark.parametrize("value", [1, 15, np.int64(3), np.uint8(15)])
def test_whole_number_in_range_becomes_an_int(value):
    checked = check_between("size", value, 1, 15)
    assert checked == value and type(checked) is int


@pytest.mark.parametrize("value", [0, -1, 16, 2.5, True, "5", None, np.float64(3)])
def test_other_values_are_refused_with_the_range(value):
    with pytest.raises(ConfigError) as error:
        check_between("size", value, 1, 15)
    assert str(error.value) == f"size={value} is out of range: needs 1 <= size <= 15"


@pytest.mark.parametrize(
    "value, message",
    [
        (2, "size=2 is out of range: needs size >= 3"),
        (3.0, "size=3.0 must be a whole number, size >= 3"),
        (True, "size=True must be a whole number, size >= 3"),
    ],
)
def test_attribute_must_be_whole(value, message):
    with pytest.raises(ConfigError) as error:
        require_whole(SimpleNamespace(size=value), size=3)
    assert str(error.value) == message
    require_whole(SimpleNamespace(size=3), size=3)


def test_names():
    known = {"one": 1, "two": 2}
    require_name("name", "two", known)
    require_new_name("name", "three", known)
    with pytest.raises(ConfigError, match="name='three' is unknown: choose one of one, two"):
        require_name("name", "three", known)
    with pytest.raises(ConfigError, match="name 'two' exists already: choose another name"):
        require_new_name("name", "two", known)
