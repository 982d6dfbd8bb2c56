// SPDX-License-Identifier: MIT
// PTX as instructions with numbered registers, the form that the interpreter runs. The parser accepts the part of the language
// that Halide's code generation writes, and refuses anything else by name.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace ptx {

// A place of 64 bits per lane. Constants and special registers have places, filled before the kernel starts.
using Place = int;

struct Operand {
    std::vector<Place> places;  // several: a vector, {%r1, %r2}
    std::int64_t offset = 0;    // of an address
    std::string symbol;         // of an address that names a parameter
};

// Kinds of instructions. `computed`: a function of each lane's own values (lanes.h).
enum class Kind {
    unknown,
    computed,
    branch,
    finish,
    barrier,
    parameter,
    load,
    store,
    exchange,
    multiply_f16,
    multiply_bf16,
    multiply_tf32,
    load_matrices,
    load_transposed,
    copy,
    close_copies,
    wait_for_copies
};

struct Registers;
struct Instruction;
using Lanewise = std::function<void(Registers &, const Instruction &, std::uint32_t mask)>;

struct Instruction {
    std::string text;                // source text, for messages
    std::vector<std::string> parts;  // "ld", "global", "nc", "v4", "b32"
    std::string operation, type;     // the first and the last part
    Place predicate = -1;
    bool negated = false;
    std::vector<Operand> operands;
    int target = -1;  // of a branch
    // Decoded once, because instructions run millions of times.
    Kind kind = Kind::unknown;
    Lanewise computes;      // for `computed`
    bool shared = false;    // whether its memory is shared memory
    std::size_t bytes = 0;  // of an element in memory
    bool has(const std::string &part) const;
};

struct Parameter {
    std::string name;
    int bytes;
};

struct Kernel {
    std::string name;
    std::vector<Parameter> parameters;
    std::vector<Instruction> code;
    int places = 0;
    unsigned most_shared_bytes = 48 * 1024;  // of a block
    std::vector<std::pair<Place, std::uint64_t>> constants;
    std::vector<std::pair<Place, std::string>> specials;  // "%tid.x"
};

struct Module {
    std::map<std::string, Kernel> kernels;
};

// Parses a module. Throws std::runtime_error with a line that is not understood.
std::unique_ptr<Module> parse(const std::string &text);

// Value of shared memory that was not written, or whose copy was not waited for. No NaN in any type, since some kernels
// recompute a NaN.
constexpr char unknown_byte = 0x42;

// Runs all blocks of a grid; addresses are the host's. Throws std::runtime_error for an unknown instruction, a missing lane
// where a warp exchanges, and an access beyond shared memory. Returns the number of barriers that blocks reached.
long run(const Kernel &, const unsigned (&grid)[3], const unsigned (&block)[3], unsigned shared_bytes, void **arguments);

}  // namespace ptx
