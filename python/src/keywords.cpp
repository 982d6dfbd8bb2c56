// SPDX-License-Identifier: MIT
#include "keywords.h"
#include <cmath>
#include <cstring>

namespace attune_python {
namespace {

// Lines of at most 100 columns, each after `indent` spaces; the first one stands after `first` columns of other text.
std::string wrapped(const std::string &text, std::size_t indent, std::size_t first) {
    std::string out, word;
    std::size_t column = first;
    for (std::size_t n = 0; n <= text.size(); n++) {
        if (n < text.size() && text[n] != ' ') {
            word += text[n];
            continue;
        }
        if (column + word.size() > 100) {
            out.pop_back();
            out += "\n" + std::string(indent, ' ');
            column = indent;
        }
        out += word + " ";
        column += word.size() + 1;
        word.clear();
    }
    out.pop_back();
    return out;
}

void read_context(Call &call, void *, nb::handle value, const char *name) {
    if (!nb::isinstance<Contexts>(value)) refuse(name, "must be an attune.Context");
    call.contexts = nb::cast<Contexts *>(value);
}
void read_detached(Call &call, void *, nb::handle value, const char *name) {
    call.takes_tensors_of_autograd = truth_of(name, value);
}
constexpr Word<Layout> layouts[] = {{"dense", Layout::dense}, {"heads_in_rows", Layout::heads_in_rows}};
void read_layout(Call &call, void *, nb::handle value, const char *name) { call.layout = word_of(name, value, layouts); }

}  // namespace

Keywords::Keywords(std::initializer_list<Keyword> rows) : Keywords(std::vector<Keyword>(rows)) {}

Keywords::Keywords(std::vector<Keyword> rows) : rows_(std::move(rows)) {
    for (const Keyword &row : rows_) interned_.push_back(PyUnicode_InternFromString(row.name));
}

Keywords Keywords::chosen(std::initializer_list<const char *> names, bool named) const {
    std::vector<Keyword> rows;
    for (const Keyword &row : rows_) {
        bool found = false;
        for (const char *name : names) found |= std::strcmp(name, row.name) == 0;
        if (found == named) rows.push_back(row);
    }
    return Keywords(std::move(rows));
}

bool Keywords::read(Call &call, PyObject *name, nb::handle value, void *into) const {
    std::size_t found = 0;
    while (found < rows_.size() && interned_[found] != name) found++;
    if (found == rows_.size())  // a name that was made at run time
        for (found = 0; found < rows_.size() && PyUnicode_Compare(interned_[found], name) != 0;) found++;
    if (found == rows_.size()) return false;
    if (given(value)) rows_[found].read(call, into, value, rows_[found].name);
    return true;
}

void read_keywords(Call &call, const char *function, const nb::kwargs &given_arguments, std::initializer_list<Into> tables) {
    PyObject *name = nullptr, *value = nullptr;
    // The common arguments first: whether tensors of autograd are taken decides how others are read.
    for (Py_ssize_t at = 0; PyDict_Next(given_arguments.ptr(), &at, &name, &value);)
        common_keywords().read(call, name, value, nullptr);
    for (Py_ssize_t at = 0; PyDict_Next(given_arguments.ptr(), &at, &name, &value);) {
        bool known = common_keywords().read(call, name, nb::none(), nullptr);
        for (const Into &into : tables)
            if (!known) known = into.table.read(call, name, value, into.target);
        if (known) continue;
        PyErr_Format(PyExc_TypeError, "%s() got an unexpected keyword argument '%U'", function, name);
        throw nb::python_error();
    }
}

const Keywords &common_keywords() {
    static const Keywords *const table = new Keywords{
        {"layout", "str", "'dense'", "Memory of a new 4-D result: \"dense\", or \"heads_in_rows\", (B, S, H, D).", read_layout},
        {"detached", "bool", "False", "Take torch tensors that require a gradient, and record none.", read_detached},
        {"context", "Context | None", "None", "Threads and scratch; None: the Context of the process, all cores.",
         read_context},
    };
    return *table;
}

const Keywords &out_keyword() {
    static const Keywords *const table = new Keywords{
        {"out", "ArrayLike | None", "None", "Output, written in place; None: a new array.", handle_<&Wanted::out>},
    };
    return *table;
}

std::string Description::signature() const {
    std::string text = "def " + std::string(name) + "(";
    for (const Positional &p : positional)
        text += std::string(p.name) + ": " + p.type + (p.fallback ? std::string(" = ") + p.fallback : "") + ", ";
    if (!tables.empty()) text += "*, ";
    for (const Keywords *table : tables)
        for (const Keyword &k : table->rows()) text += std::string(k.name) + ": " + k.type + " = " + k.fallback + ", ";
    if (text.ends_with(", ")) text.resize(text.size() - 2);
    return text + ") -> " + result;
}

std::string Description::docstring() const {
    std::string text = wrapped(summary, 0, 0) + "\n\nArgs:\n";
    const auto add = [&](const char *argument, const char *description) {
        const std::string head = "    " + std::string(argument) + ": ";
        text += head + wrapped(description, 8, head.size()) + "\n";
    };
    for (const Positional &p : positional) add(p.name, p.description);
    for (const Keywords *table : tables)
        for (const Keyword &k : table->rows()) add(k.name, k.description);
    text += "\nReturns:\n    " + wrapped(result_description, 4, 4) + "\n";
    if (*more) text += "\n" + wrapped(more, 0, 0) + "\n";
    return text + "\nRaises:\n    ValueError: an argument is wrong; the message names it.\n"
                  "    UnsupportedError: the call is legal, but not served by this build (a ValueError).\n"
                  "    MemoryError: no memory for scratch.\n";
}

double number_of(const char *name, nb::handle value) {
    const double number = PyFloat_AsDouble(value.ptr());
    if (number == -1 && PyErr_Occurred()) {
        PyErr_Clear();
        refuse(name, "must be a number, got " + std::string(nb::repr(value).c_str()));
    }
    return number;
}

std::int64_t integer_of(const char *name, nb::handle value) {
    const nb::object index = nb::steal(PyNumber_Index(value.ptr()));
    const long long number = index.is_valid() ? PyLong_AsLongLong(index.ptr()) : -1;
    if (number == -1 && PyErr_Occurred()) {
        PyErr_Clear();
        refuse(name, "must be an integer of 64 bits, got " + std::string(nb::repr(value).c_str()));
    }
    return number;
}

std::uint64_t natural_of(const char *name, nb::handle value) {
    const nb::object index = nb::steal(PyNumber_Index(value.ptr()));
    const unsigned long long number = index.is_valid() ? PyLong_AsUnsignedLongLong(index.ptr()) : ~0ull;
    if (number == ~0ull && PyErr_Occurred()) {
        PyErr_Clear();
        refuse(name, "must be an integer from 0 to 2^64 - 1, got " + std::string(nb::repr(value).c_str()));
    }
    return number;
}

bool truth_of(const char *name, nb::handle value) {
    if (value.ptr() == Py_True) return true;
    if (value.ptr() == Py_False) return false;
    refuse(name, "must be True or False, got " + std::string(nb::repr(value).c_str()));
}

}  // namespace attune_python
