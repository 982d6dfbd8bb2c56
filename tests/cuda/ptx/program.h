// SPDX-License-Identifier: MIT
// PTX as instructions with numbered registers: what the interpreter runs. Reads the part of the language that Halide's code
// generation writes; anything else is refused by name.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace ptx {

// A place of 64 bits a lane. Constants and special registers have places of their own, filled before the kernel starts.
using Place = int;

struct Operand {
    std::vector<Place> places;  // several: a vector, {%r1, %r2}
    std::int64_t offset = 0;    // of an address
    std::string symbol;         // of an address that names a parameter
};

// What is done with an instruction. `computed`: a function of each lane's own values (lanes.h).
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
    std::string text;                // as it was written, for messages
    std::vector<std::string> parts;  // "ld", "global", "nc", "v4", "b32"
    std::string operation, type;     // the first and the last part
    Place predicate = -1;
    bool negated = false;
    std::vector<Operand> operands;
    int target = -1;  // of a branch
    // Found out once, because instructions are run millions of times.
    Kind kind = Kind::unknown;
    Lanewise computes;      // of `computed`
    bool shared = false;    // the memory that it reads or writes
    std::size_t bytes = 0;  // of an element there
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

// Throws std::runtime_error with the line that it does not understand.
std::unique_ptr<Module> parse(const std::string &text);

// What each byte of shared memory holds that nothing was written to, or whose copy was not waited for. No NaN in any type: some
// kernels compute again what is none.
constexpr char unknown_byte = 0x42;

// Runs all blocks of a grid; addresses are the host's. Throws std::runtime_error: an instruction that it does not know, a lane
// that is missing where a warp exchanges, an access beyond shared memory. Returns how often a block came to a barrier.
long run(const Kernel &, const unsigned (&grid)[3], const unsigned (&block)[3], unsigned shared_bytes, void **arguments);

}  // namespace ptx
