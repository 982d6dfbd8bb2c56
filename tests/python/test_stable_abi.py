# SPDX-License-Identifier: MIT
"""One wheel serves Python 3.12 and later, because the package calls nothing of CPython but its stable ABI of 3.12. The tests
run where each Python has a wheel of its own, so a call beyond that ABI would show in scripts/wheel alone."""
import pathlib
import re

import abi3info
import pytest

SOURCES = sorted((pathlib.Path(__file__).resolve().parents[2] / "python" / "src").glob("*"))
TABLES = [table for name, table in vars(abi3info).items() if name.isupper() and "FEATURE" not in name]
STABLE = {getattr(name, "name", name) for table in TABLES for name, entry in table.items()
          if (entry.added.major, entry.added.minor) <= (3, 12)}
# Macros and inline functions that CPython's headers define in the limited API, by functions of the stable ABI.
OF_HEADERS = {"PyDict_Check", "PyList_Check", "PyLong_Check", "PyTuple_Check", "PyUnicode_Check", "PyObject_TypeCheck",
              "PyGILState_UNLOCKED", "Py_False", "Py_None", "Py_True", "Py_INCREF", "Py_TYPE", "Py_VISIT", "Py_XDECREF"}


def names_of(source):
    code = re.sub(r"//.*", "", source)
    code = re.sub(r'"(?:[^"\\]|\\.)*"', "", code)
    return set(re.findall(r"\b_?Py(?:[A-Z][A-Za-z]*)?_[A-Za-z_]+\b", code))


@pytest.mark.parametrize("source", SOURCES, ids=lambda file: file.name)
def test_calls_of_the_stable_abi(source):
    assert names_of(source.read_text()) <= STABLE | OF_HEADERS


def test_other_calls_are_found():
    beyond = names_of('call(PyObject_CallOneArg(f, x), "PyTuple_Size", PyTuple_GET_ITEM(t, 0));  // _PyObject_New') - OF_HEADERS
    assert beyond == {"PyObject_CallOneArg", "PyTuple_GET_ITEM"} and not beyond & STABLE and "PyObject_Vectorcall" in STABLE
