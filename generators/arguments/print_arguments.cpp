// SPDX-License-Identifier: MIT
// attune_print_arguments FILE: prints the lists of kernel_arguments.cpp as structs of the runtime.
#include "generators/arguments/kernel_arguments.h"
#include <algorithm>
#include <fstream>
#include <iostream>
#include <set>
#include <sstream>

namespace {
using namespace attune;

std::string field_type(const KernelArgument &a) {
    switch (a.type) {
    case KernelArgument::Type::boolean: return "NumberArgument<bool>";
    case KernelArgument::Type::int32: return "NumberArgument<std::int32_t>";
    case KernelArgument::Type::uint32: return "NumberArgument<std::uint32_t>";
    case KernelArgument::Type::uint64: return "NumberArgument<std::uint64_t>";
    case KernelArgument::Type::f32: return "NumberArgument<float>";
    case KernelArgument::Type::f64: return "NumberArgument<double>";
    case KernelArgument::Type::captures: return "CaptureList";
    case KernelArgument::Type::buffer: break;
    }
    return "BufferArgument";
}

// Choices that arguments depend on; other choices distinguish parts.
std::vector<ArgumentChoice> choices_of_form(const ArgumentLists &lists) {
    std::set<std::string> used;
    for (const ArgumentPart &part : lists.parts)
        for (const KernelArgument &a : part.arguments)
            for (const auto &condition : a.when) used.insert(condition.first);
    std::vector<ArgumentChoice> choices;
    for (const ArgumentChoice &c : lists.choices)
        if (used.count(c.parameter)) choices.push_back(c);
    return choices;
}

std::string enum_name(std::string parameter) {
    parameter[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(parameter[0])));
    return parameter;
}

std::string form_struct(const ArgumentLists &lists) {
    std::ostringstream s;
    s << "// Which of the arguments a kernel of generator " << lists.generator << " has.\nstruct " << lists.form << "Form {\n";
    for (const ArgumentChoice &choice : choices_of_form(lists)) {
        s << "    enum class " << enum_name(choice.parameter) << " { ";
        for (const auto &group : choice.groups) s << (&group == &choice.groups[0] ? "" : ", ") << group[0];
        s << " };\n    " << enum_name(choice.parameter) << " " << choice.parameter << ";\n";
    }
    s << "};\n\n";
    return s.str();
}

std::string condition_in_words(const Condition &when) {
    std::string words;
    for (const auto &[parameter, values] : when) {
        words += (words.empty() ? "" : "; ") + parameter + ":";
        for (const std::string &value : values) words += " " + value;
    }
    return words;
}

std::string condition_in_code(const Condition &when) {
    std::string code;
    for (const auto &[parameter, values] : when) {
        std::string any;
        for (const std::string &value : values)
            any += (any.empty() ? "" : " || ") + ("form." + parameter) + " == Form::" + enum_name(parameter) + "::" + value;
        if (values.size() > 1 && when.size() > 1) any = "(" + any + ")";
        code += (code.empty() ? "" : " && ") + any;
    }
    return code;
}

std::string part_struct(const ArgumentLists &lists, const ArgumentPart &part) {
    const bool has_form = !lists.form.empty();
    std::ostringstream s;
    s << "// Arguments of kernels of generator " << lists.generator;
    if (!part.when.empty()) s << " with " << condition_in_words(part.when);
    s << ".\nstruct " << part.name << "Arguments {\n";
    if (has_form) s << "    using Form = " << lists.form << "Form;\n";
    for (const KernelArgument &a : part.arguments) {
        s << "    " << field_type(a) << " " << a.name << ";  // " << type_in_words(a);
        if (!a.when.empty()) s << "; " << condition_in_words(a.when);
        s << "\n";
    }
    s << "\n    void append_to(ArgumentList &list" << (has_form ? ", [[maybe_unused]] const Form &form" : "") << ") const {\n";
    for (std::size_t n = 0; n < part.arguments.size();) {
        const Condition &when = part.arguments[n].when;
        s << "        " << (when.empty() ? "" : "if (" + condition_in_code(when) + ")\n            ") << "list.add(";
        for (const char *comma = ""; n < part.arguments.size() && part.arguments[n].when == when; comma = ", ", n++)
            s << comma << part.arguments[n].name;
        s << ");\n";
    }
    s << "    }\n};\n\n";
    return s.str();
}

}  // namespace

int main(int argc, char **argv) {
    if (argc != 2) return std::cerr << "usage: " << argv[0] << " FILE\n", 2;
    std::ofstream file(argv[1]);
    file << "// Made by attune_print_arguments of generators/arguments/kernel_arguments.cpp: the arguments of kernels, in "
            "their order.\n"
            "#pragma once\n#include \"execution/argument_list.h\"\n\nnamespace attune {\n\n";
    for (const ArgumentLists &lists : all_argument_lists()) {
        if (!lists.form.empty()) file << form_struct(lists);
        for (const ArgumentPart &part : lists.parts) file << part_struct(lists, part);
    }
    file << "}  // namespace attune\n";
    return file.flush() ? 0 : 1;
}
