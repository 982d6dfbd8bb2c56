// SPDX-License-Identifier: MIT
#include "generators/arguments/check_arguments.h"
#include "generators/arguments/user_arguments.h"
#include <Halide.h>
#include <algorithm>
#include <cstdio>

namespace attune {
namespace {

using ArgInfo = Halide::Internal::AbstractGenerator::ArgInfo;
using Type = KernelArgument::Type;

std::string group_of(const ArgumentChoice &choice, const ParameterValues &given) {
    const auto found = given.find(choice.parameter);
    if (found == given.end()) return choice.groups[0][0];
    for (const std::vector<std::string> &group : choice.groups)
        if (std::find(group.begin(), group.end(), found->second) != group.end()) return group[0];
    return found->second;  // a value in no list: meets no condition
}

// Arguments by the lists, for the given parameters.
std::vector<KernelArgument> declared_arguments(const ArgumentLists &lists, ParameterValues given) {
    const UserArguments user = user_arguments() ? user_arguments()() : UserArguments();
    given["user"] = !user_arguments() ? "none" : user.has_mask ? "masked" : "unmasked";
    ParameterValues form;
    for (const ArgumentChoice &choice : lists.choices) form[choice.parameter] = group_of(choice, given);
    std::vector<KernelArgument> all;
    for (const ArgumentPart &part : lists.parts) {
        if (!holds(part.when, form)) continue;
        for (const KernelArgument &a : part.arguments) {
            if (!holds(a.when, form)) continue;
            if (a.type == Type::captures)
                all.insert(all.end(), user.list.begin(), user.list.end());
            else
                all.push_back(a);
        }
    }
    return all;
}

Type scalar_type(const Halide::Type &t) {
    if (t.is_bool()) return Type::boolean;
    if (t.is_float()) return t.bits() == 64 ? Type::f64 : Type::f32;
    if (t.is_int()) return Type::int32;
    return t.bits() == 64 ? Type::uint64 : Type::uint32;
}

// Arguments by the generator: a Tuple's Func is as many buffers as it has values.
std::vector<KernelArgument> own_arguments(Halide::Internal::AbstractGenerator &generator) {
    std::vector<KernelArgument> all;
    for (const ArgInfo &info : generator.arginfos()) {
        const bool scalar = info.kind == Halide::Internal::ArgInfoKind::Scalar;
        for (const Halide::Type &type : info.types)
            all.push_back({info.name, scalar ? scalar_type(type) : Type::buffer, scalar ? 0 : info.dimensions});
    }
    return all;
}

bool same(const KernelArgument &own, const KernelArgument &declared) {
    const std::string &name = declared.output.empty() ? declared.name : declared.output;
    const bool dimensions =
        own.dimensions == declared.dimensions || (declared.more_dimensions && own.dimensions == declared.more_dimensions);
    return own.name == name && own.type == declared.type && dimensions;
}

std::string at(const std::vector<KernelArgument> &list, std::size_t n) {
    return n < list.size() ? list[n].name + " (" + type_in_words(list[n]) + ")" : "none";
}

// The word behind an option, or an empty one.
std::string operand(const std::vector<std::string> &words, const std::string &option) {
    const auto found = std::find(words.begin(), words.end(), option);
    return found == words.end() || found + 1 == words.end() ? "" : *(found + 1);
}

}  // namespace

std::string argument_mismatch(Halide::Internal::AbstractGenerator &generator, const ParameterValues &given) {
    const std::string name = generator.name();
    const std::vector<ArgumentLists> &all = all_argument_lists();
    const auto lists = std::find_if(all.begin(), all.end(), [&](const ArgumentLists &l) { return l.generator == name; });
    if (lists == all.end()) return {};
    const std::vector<KernelArgument> own = own_arguments(generator), declared = declared_arguments(*lists, given);
    for (std::size_t n = 0; n < std::max(own.size(), declared.size()); n++)
        if (n >= own.size() || n >= declared.size() || !same(own[n], declared[n]))
            return "argument " + std::to_string(n + 1) + " of generator " + name + " is " + at(own, n) +
                   "; generators/arguments/kernel_arguments.cpp says " + at(declared, n);
    return {};
}

bool arguments_match(const std::vector<std::string> &words) {
    const Halide::Internal::GeneratorFactoryProvider &generators = Halide::Internal::get_registered_generators();
    std::string name = operand(words, "-g");
    if (name.empty()) name = generators.enumerate().at(0);
    const auto generator = generators.create(name, Halide::GeneratorContext(Halide::get_host_target()));
    ParameterValues given;
    for (const std::string &word : words) {
        const std::size_t equals = word.find('=');
        const std::string parameter = word.substr(0, equals);
        if (equals == std::string::npos || parameter == "target" || parameter.rfind("autoscheduler", 0) == 0) continue;
        given[parameter] = word.substr(equals + 1);
        generator->set_generatorparam_value(parameter, given[parameter]);
    }
    const std::string mismatch = argument_mismatch(*generator, given);
    if (mismatch.empty()) return true;
    std::fprintf(stderr, "attune: %s: %s\n", operand(words, "-n").c_str(), mismatch.c_str());
    return false;
}

}  // namespace attune
