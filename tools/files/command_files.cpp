// SPDX-License-Identifier: MIT
// Names, checks and conversions between the files of the command line and the arrays of a computation.
#include "tools/files/command_files.h"
#include "tools/error.h"
#include <cstring>
#include <limits>

namespace attune::program {
namespace {

bool is_quantised(ElementType type) { return type == ElementType::i8 || type == ElementType::u8; }

ElementKind kind_of(Role role) {
    switch (role) {
    case Role::floats:
    case Role::sums:
    case Role::single_floats:
    case Role::scales: return ElementKind::floats;
    case Role::pages: return ElementKind::pages;
    case Role::integers:
    case Role::slots: return ElementKind::integers;
    case Role::booleans: break;
    }
    return ElementKind::booleans;
}

}  // namespace

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
        *inputs_[n].to = converted(files[n].read(), type_of(inputs_[n], files[n].type()), inputs_[n].argument);
}

NpyFile CommandFiles::opened(const Input &input) {
    const std::string argument = input.argument;
    NpyFile file(argument, input.path, kind_of(input.role));
    const int rank = static_cast<int>(file.shape().size());
    if (rank < input.ranks.least || rank > input.ranks.most)
        throw InputError(argument, "has shape " + text_of(file.shape()) + ", expected " + input.ranks.shapes);
    if (input.role == Role::floats || (input.role == Role::pages && !is_quantised(file.type()))) {
        if (!type_) type_ = file.type(), type_of_ = argument;
        if (!type_of_.empty() && file.type() != *type_)
            throw InputError(argument, std::string("is ") + name_of(file.type()) + " and " + type_of_ + " is " +
                                           name_of(*type_) + "; --dtype converts");
    }
    return file;
}

ElementType CommandFiles::type_of(const Input &input, ElementType of_file) const {
    switch (input.role) {
    case Role::floats: return *type_;
    case Role::sums: return sum_type();
    case Role::single_floats: return ElementType::f32;
    case Role::scales: return of_file;
    case Role::pages: return is_quantised(of_file) ? of_file : *type_;
    case Role::integers: return ElementType::i32;
    case Role::slots: return ElementType::i64;
    case Role::booleans: break;
    }
    return ElementType::boolean;
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

void clear(Array &array) {
    if (array.data && array.bytes() > 0) std::memset(array.data.get(), 0, array.bytes());
}

Array zeroed_array(const char *argument, ElementType type, const Shape &shape) {
    Array array = output_array(argument, type, shape);
    clear(array);
    return array;
}

}  // namespace attune::program
