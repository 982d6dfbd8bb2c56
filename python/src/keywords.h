// SPDX-License-Identifier: MIT
// Keyword arguments as tables: a row has the name, the type, the default and the description of an argument, and reads it. The
// signatures, the stubs and the docstrings of Python are made of the same rows.
#pragma once
#include "call.h"
#include <initializer_list>
#include <string>
#include <vector>

namespace attune_python {

struct Keyword {
    const char *name, *type, *fallback, *description;
    void (*read)(Call &, void *into, nb::handle value, const char *name);
};

// A table of keyword arguments that are read into a struct.
class Keywords {
public:
    Keywords(std::initializer_list<Keyword>);
    // The rows of this table, but for some.
    Keywords without(std::initializer_list<const char *> names) const { return chosen(names, false); }
    // Some rows of this table.
    Keywords only(std::initializer_list<const char *> names) const { return chosen(names, true); }

    // Reads one argument; false: the table has no such name.
    bool read(Call &, PyObject *name, nb::handle value, void *into) const;
    const std::vector<Keyword> &rows() const { return rows_; }

private:
    explicit Keywords(std::vector<Keyword>);
    Keywords chosen(std::initializer_list<const char *> names, bool named) const;
    std::vector<Keyword> rows_;
    std::vector<PyObject *> interned_;  // Python interns the names of keyword arguments: most compare by address
};

// Where a table's arguments go in a call.
struct Into {
    const Keywords &table;
    void *target;
};
// Reads all keyword arguments of a call; None stands for an argument that is not given. TypeError for an unknown one.
void read_keywords(Call &, const char *function, const nb::kwargs &, std::initializer_list<Into>);

// Arguments that every function has: context, detached.
const Keywords &common_keywords();
// Those of functions that make arrays.
struct Wanted {
    nb::handle out, lse, weights, gradients;
};
const Keywords &out_keyword();

// A function of the module: its name, positional arguments "query, key, value", result, description and keyword tables become
// its signature and docstring.
struct Positional {
    const char *name, *type, *description, *fallback = nullptr;  // null: it must be given
};
struct Description {
    const char *name, *summary;
    std::vector<Positional> positional;
    const char *result, *result_description;
    std::vector<const Keywords *> tables;
    const char *more = "";

    std::string signature() const;
    std::string docstring() const;
};

// Numbers and words.
double number_of(const char *name, nb::handle);
std::int64_t integer_of(const char *name, nb::handle);
std::uint64_t natural_of(const char *name, nb::handle);
bool truth_of(const char *name, nb::handle);

// The value of a word out of a list, "top_left" of Causal and its like.
template<typename Value> struct Word {
    const char *word;
    Value value;
};
template<typename Value, std::size_t count>
Value word_of(const char *name, nb::handle given_word, const Word<Value> (&words)[count]) {
    std::string all;
    for (const Word<Value> &w : words) {
        if (PyUnicode_Check(given_word.ptr()) && PyUnicode_CompareWithASCIIString(given_word.ptr(), w.word) == 0)
            return w.value;
        all += std::string(all.empty() ? "" : ", ") + "\"" + w.word + "\"";
    }
    refuse(name, "must be one of " + all + ", got " + std::string(nb::repr(given_word).c_str()));
}

// Readers of a member of a struct.
template<auto member> struct MemberOf;
template<typename S, typename M, M S::*member> struct MemberOf<member> {
    static M &of(void *into) { return static_cast<S *>(into)->*member; }
};
template<auto member> void input_(Call &c, void *into, nb::handle v, const char *name) {
    MemberOf<member>::of(into) = c.input(name, v);
}
template<auto member> void integers_(Call &c, void *into, nb::handle v, const char *name) {
    MemberOf<member>::of(into) = c.integers(name, v);
}
template<auto member> void number_(Call &, void *into, nb::handle v, const char *name) {
    MemberOf<member>::of(into) = number_of(name, v);
}
template<auto member> void integer_(Call &, void *into, nb::handle v, const char *name) {
    MemberOf<member>::of(into) = integer_of(name, v);
}
template<auto member> void truth_(Call &, void *into, nb::handle v, const char *name) {
    MemberOf<member>::of(into) = truth_of(name, v);
}
template<auto member> void text_(Call &c, void *into, nb::handle v, const char *name) {
    MemberOf<member>::of(into) = c.text(name, v);
}
template<auto member> void handle_(Call &, void *into, nb::handle v, const char *) { MemberOf<member>::of(into) = v; }

}  // namespace attune_python
