// SPDX-License-Identifier: MIT
// The argument lists of all kernels that the runtime calls: what a generator declares as inputs and outputs, in its order. A
// program that makes kernels refuses one whose generator says otherwise (check_arguments.h); and the runtime fills in structs
// that are printed from the same lists (print_arguments.cpp), by name.
#pragma once
#include <map>
#include <string>
#include <vector>

namespace attune {

// A parameter of a generator that its argument list depends on. Values of one group have the same list; a group has the name of
// its first value. The parameter's default is in the first group. "user" is no parameter but the attention that a user wrote:
// none, one without a mask, one with a mask.
struct ArgumentChoice {
    std::string parameter;
    std::vector<std::vector<std::string>> groups;
};

// Parameters by name; those of a form hold names of groups.
using ParameterValues = std::map<std::string, std::string>;
// Holds where each of these parameters has one of its values.
using Condition = std::map<std::string, std::vector<std::string>>;

struct KernelArgument {
    // captures: of a user's attention, as many as its struct has.
    enum class Type { buffer, boolean, int32, uint32, uint64, f32, f64, captures };
    std::string name;
    Type type;
    int dimensions = 0, more_dimensions = 0;  // of a buffer; or as many as the second says, where that is not 0
    Condition when = {};
    std::string output = {};  // of a value of a Tuple: the name of its Func
};

// Arguments that the runtime fills in together, as struct <name>Arguments.
struct ArgumentPart {
    std::string name;
    std::vector<KernelArgument> arguments;
    Condition when = {};
};

// The arguments of a generator's kernels: those of all its parts whose condition holds, one after the other.
struct ArgumentLists {
    std::string generator;
    std::vector<ArgumentPart> parts;
    std::vector<ArgumentChoice> choices = {};
    std::string form = {};  // of the struct <form>Form, which says what the choices are
};
const std::vector<ArgumentLists> &all_argument_lists();

bool holds(const Condition &, const ParameterValues &form);
// "double", "buffer of rank 4".
std::string type_in_words(const KernelArgument &);

}  // namespace attune
