// SPDX-License-Identifier: MIT
// Names, checks and conversions between the files of the command line and the arrays of a computation.
#include "tools/files/command_files.h"
#include "tools/error.h"
#include <limits>

namespace attune::program {

CommandFiles::CommandFiles(const CallArguments &call) {
    if (!call.dtype) return;
    for (const auto &[name, type] : {std::pair("f32", ElementType::f32),
                                     {"f64", ElementType::f64},
                                     {"bf16", ElementType::bf16},
                                     {"f16", ElementType::f16}})
        if (*call.dtype == name) type_ = type;
    if (!type_) throw InputError("--dtype", "'" + *call.dtype + "' is not f32, f64, bf16 or f16");
}

void CommandFiles::input(const char *argument, const Given &path, Array &to, Ranks ranks, Role role) {
    if (!path) return;
    other_input(argument, *path);
    inputs_.push_back({argument, *path, &to, ranks, role});
}

void CommandFiles::other_input(const char *argument, const std::string &path) { outputs_.add_input(argument, path); }

void CommandFiles::output(const char *argument, const Given &path) {
    if (path) results_.emplace_back(argument, *path);
}

void CommandFiles::load() {
    for (const auto &[argument, path] : results_) outputs_.add(argument, path);
    std::vector<NpyFile> files;
    for (const Input &input : inputs_) files.push_back(opened(input));
    for (std::size_t n = 0; n < files.size(); n++)
        *inputs_[n].to = converted(files[n].read(), type_of(inputs_[n]), inputs_[n].argument);
}

NpyFile CommandFiles::opened(const Input &input) {
    const std::string argument = input.argument;
    const bool floats = input.role <= Role::single_floats;
    NpyFile file(argument, input.path,
                 floats                         ? ElementKind::floats
                 : input.role == Role::integers ? ElementKind::integers
                                                : ElementKind::booleans);
    const int rank = static_cast<int>(file.shape().size());
    if (rank < input.ranks.least || rank > input.ranks.most)
        throw InputError(argument, "has shape " + text_of(file.shape()) + ", expected " + input.ranks.shapes);
    if (input.role == Role::floats) {
        if (!type_) type_ = file.type(), type_of_ = argument;
        if (!type_of_.empty() && file.type() != *type_)
            throw InputError(argument, std::string("is ") + name_of(file.type()) + " and " + type_of_ + " is " +
                                           name_of(*type_) + "; --dtype converts");
    }
    return file;
}

ElementType CommandFiles::type_of(const Input &input) const {
    return input.role == Role::floats          ? *type_
           : input.role == Role::sums          ? sum_type()
           : input.role == Role::single_floats ? ElementType::f32
           : input.role == Role::integers      ? ElementType::i32
                                               : ElementType::boolean;
}

void CommandFiles::write(const char *argument, const Array &array) {
    if (array.type == ElementType::bf16) {
        Array wide(ElementType::f32, array.shape);
        for (std::int64_t n = 0; n < wide.elements(); n++) wide.as<float>()[n] = static_cast<float>(float_at(array, n));
        return write(argument, wide);
    }
    const std::string header = npy_header(array.type, array.shape);
    outputs_.write(argument, {{header.data(), header.size()}, {array.data.get(), array.bytes()}});
}

void CommandFiles::write(const char *argument, const std::string &text) {
    outputs_.write(argument, {{text.data(), text.size()}});
}

Array output_array(const char *argument, ElementType type, const Shape &shape) {
    const std::optional<std::int64_t> count = elements_of(shape);
    if (!count || *count > std::numeric_limits<std::int32_t>::max())
        throw InputError(argument, "would have shape " + text_of(shape) + ", more than 2^31 - 1 elements");
    return Array(type, shape);
}

}  // namespace attune::program
