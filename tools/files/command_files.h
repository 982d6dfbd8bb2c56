// SPDX-License-Identifier: MIT
// Files of one command: named first, all checked, then read; results are written together at the end.
#pragma once
#include "tools/commands/commands.h"
#include "tools/files/npy.h"
#include "tools/files/outputs.h"
#include <functional>

namespace attune::program {

// Least and greatest rank of an array, and its shapes, for messages.
struct Ranks {
    int least, most;
    const char *shapes;
};
inline constexpr int any_rank = 64;  // NumPy's limit

// Role of an array in the library. The floats of a computation have one type: that of --dtype, else that of the first such
// file. .npy files have no bfloat16, which is read from other floats and written as float32. `sums` are float64 for float64,
// else float32. `scales` of quantised rows keep the type of their file, and so do `pages` of int8 and uint8; other pages are
// floats of the computation. `slots` are int64, other integers int32.
enum class Role { floats, sums, single_floats, scales, pages, integers, slots, booleans };

class CommandFiles {
public:
    explicit CommandFiles(const CallArguments &);

    // Names a file that load() reads into `to`, converted to the type of its role. A path that is not given is left out.
    void input(const char *argument, const Given &path, Array &to, Ranks, Role = Role::floats);
    // Names a file that others read, which must be no output.
    void other_input(const char *argument, const std::string &path);
    void output(const char *argument, const Given &path);

    // Checks every name and every header before it reads the first array.
    void load();
    ElementType type() const { return *type_; }  // of the computation, after load()
    ElementType sum_type() const { return *type_ == ElementType::f64 ? ElementType::f64 : ElementType::f32; }  // of lse

    void write(const char *argument, const Array &);
    void write(const char *argument, const std::string &text);
    // Gives all files their own names.
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
    ElementType type_of(const Input &, ElementType of_file) const;

    Outputs outputs_;
    std::vector<Input> inputs_;
    std::vector<std::pair<const char *, std::string>> results_;
    std::optional<ElementType> type_;
    std::string type_of_;  // the argument that decided the type
};

// An output of a shape. Throws InputError if the library could not index it.
Array output_array(const char *argument, ElementType, const Shape &);
// An output of zeros: rows that the library does not write are 0 in a file.
Array zeroed_array(const char *argument, ElementType, const Shape &);
void clear(Array &);

}  // namespace attune::program
