#include "lowering/instructions/stand_ins.h"
#include "Halide.h"

namespace attune {
using Halide::Target;

namespace {
std::map<std::string, std::string> meanings;
bool as_assembly = false;
}  // namespace

bool wants_stand_ins(const std::string &word) {
    const std::string option = "target=";
    if (!word.starts_with(option) || !Target::validate_target_string(word.substr(option.size()))) return false;
    const Target target(word.substr(option.size()));
    return target.has_feature(Target::AVX512_Zen5) || target.has_feature(Target::AVX512_SapphireRapids);
}
void leave_as_assembly() { as_assembly = true; }
bool leaves_as_assembly() { return as_assembly; }

void let_stand_in(const std::string &stand_in, const std::string &meant) { meanings[stand_in] = meant; }
const std::map<std::string, std::string> &stand_ins() { return meanings; }

}  // namespace attune
