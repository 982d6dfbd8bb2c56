// SPDX-License-Identifier: MIT
// Argument lists of all kernels that the runtime calls: the inputs and outputs that a generator declares, in its order. A
// program that makes kernels refuses one whose generator differs (check_arguments.h), and the runtime fills in structs, printed
// from the same lists (print_arguments.cpp), by name.
#pragma once
#include <map>
#include <string>
#include <vector>

namespace attune {

// A parameter of a generator on which its argument list depends. Values of one group have the same list; a group has the name
// of its first value. The parameter's default is in the first group. "user" is no parameter but the attention that a user
// wrote: none, one without a mask, one with a mask.
struct ArgumentChoice {
    std::string parameter;
    std::vector<std::vector<std::string>> groups;
};

// Values of parameters by name; of a form: names of groups.
using ParameterValues = std::map<std::string, std::string>;
// Satisfied where each of these parameters has one of its values.
using Condition = std::map<std::string, std::vector<std::string>>;

struct KernelArgument {
    // captures: inputs of a user's attention, one for each capture of its struct.
    enum class Type { buffer, boolean, int32, uint32, uint64, f32, f64, captures };
    std::string name;
    Type type;
    int dimensions = 0, more_dimensions = 0;  // rank of a buffer, and another rank that is allowed (0: none)
    Condition when = {};
    std::string output = {};  // for a value of a Tuple: the name of its Func
};

// Arguments that the runtime fills in together, as struct <name>Arguments.
struct ArgumentPart {
    std::string name;
    std::vector<KernelArgument> arguments;
    Condition when = {};
};

// The arguments of a generator's kernels: of all parts whose condition holds, in order.
struct ArgumentLists {
    std::string generator;
    std::vector<ArgumentPart> parts;
    std::vector<ArgumentChoice> choices = {};
    std::string form = {};  // name of the struct <form>Form, which holds the choices
};
const std::vector<ArgumentLists> &all_argument_lists();

bool holds(const Condition &, const ParameterValues &form);
// "double", "buffer of rank 4".
std::string type_in_words(const KernelArgument &);

}  // namespace attune
