// Instructions that Halide 21 cannot ask LLVM for. A schedule asks for one that it can, of the same operands, for which the kernel has no
// other use: a stand-in. The kernel leaves as assembly (lowering/generator_main.cpp), where what is meant gets its name, and the
// system's assembler makes the object.
#pragma once
#include <map>
#include <string>

namespace attune {

// Whether the word is target=..., and schedules for it may want any; and whether the kernel that this program makes leaves by that way.
bool wants_stand_ins(const std::string &word);
void leave_as_assembly();
bool leaves_as_assembly();

// Of that kernel: an instruction, up to its operands, and what is meant by it.
void let_stand_in(const std::string &stand_in, const std::string &meant);
const std::map<std::string, std::string> &stand_ins();

}  // namespace attune
