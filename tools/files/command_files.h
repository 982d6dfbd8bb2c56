// SPDX-License-Identifier: MIT
// The files of one command: named first, all checked, then read; results are written together at the end.
#pragma once
#include "tools/commands/commands.h"
#include "tools/files/npy.h"
#include "tools/files/outputs.h"
#include <functional>

namespace attune::program {

// How many extents an array may have, and what they are, for the message.
struct Ranks {
    int least, most;
    const char *shapes;
};
inline constexpr int any_rank = 64;  // NumPy's limit

// What an array is for the library. Floats of a computation have one type: that of --dtype, else of the first such file. There
// is no bfloat16 in .npy files: it is read from other floats and written as float32.
// What sums over them is float64 for float64, else float32.
enum class Role { floats, sums, single_floats, integers, booleans };

class CommandFiles {
public:
    explicit CommandFiles(const CallArguments &);

    // Names a file that load() reads into `to`, turned into the type of its role. What is not given is left out.
    void input(const char *argument, const Given &path, Array &to, Ranks, Role = Role::floats);
    // A file that is read by others, and must be no output.
    void other_input(const char *argument, const std::string &path);
    void output(const char *argument, const Given &path);

    // Checks every name and every header before it reads the first array.
    void load();
    ElementType type() const { return *type_; }  // of the computation, once it is loaded
    ElementType sum_type() const { return *type_ == ElementType::f64 ? ElementType::f64 : ElementType::f32; }  // of lse

    void write(const char *argument, const Array &);
    void write(const char *argument, const std::string &text);
    // All files under their own names.
    void commit() { outputs_.commit(); }

private:
    struct Input {
        const char *argument;
        std::string path;
        Array *to;
        Ranks ranks;
        Role role;
    };
    NpyFile opened(const Input &);
    ElementType type_of(const Input &) const;

    Outputs outputs_;
    std::vector<Input> inputs_;
    std::vector<std::pair<const char *, std::string>> results_;
    std::optional<ElementType> type_;
    std::string type_of_;  // the argument that decided it
};

// An output of that shape. Throws InputError if the library could not index it.
Array output_array(const char *argument, ElementType, const Shape &);

}  // namespace attune::program
