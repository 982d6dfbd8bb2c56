// PTX as instructions with numbered registers: what the interpreter runs. Reads the part of the language that Halide's code
// generation writes; anything else is refused by name.
#pragma once
#include <cstdint>
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

struct Instruction {
    std::string text;                // as it was written, for messages
    std::vector<std::string> parts;  // "ld", "global", "nc", "v4", "b32"
    std::string operation, type;     // the first and the last part
    Place predicate = -1;
    bool negated = false;
    std::vector<Operand> operands;
    int target = -1;  // of a branch
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
// that is missing where a warp exchanges, an access beyond shared memory.
void run(const Kernel &, const unsigned (&grid)[3], const unsigned (&block)[3], unsigned shared_bytes, void **arguments);

}  // namespace ptx
