#include "user_captures.h"
#include "tools/error.h"
#include <algorithm>
#include <charconv>
#include <cmath>

namespace attune::tune {
using program::InputError;
namespace {

std::string argument_of(std::string_view name) { return "--capture " + std::string(name); }

program::ElementType element_of(const CaptureRecord &c) {
    if (c.of_scores) return program::ElementType::f32;
    switch (c.dtype) {
    case DType::f64: return program::ElementType::f64;
    case DType::i32: return program::ElementType::i32;
    case DType::boolean: return program::ElementType::boolean;
    default: return program::ElementType::f32;
    }
}

program::Array copy_of(const program::Array &a) {
    program::Array copy(a.type, a.shape);
    std::copy_n(a.data.get(), a.bytes(), copy.data.get());
    return copy;
}

program::Array read(const CaptureRecord &record, const std::string &file) {
    const std::string argument = argument_of(record.name);
    const program::ElementType type = element_of(record);
    const auto kind = type == program::ElementType::i32       ? program::ElementKind::integers
                      : type == program::ElementType::boolean ? program::ElementKind::booleans
                                                              : program::ElementKind::floats;
    program::Array array = program::converted(program::read_npy(argument, file, kind), type, argument);
    if (array.rank() != record.rank)
        throw InputError(argument, "rank must be " + std::to_string(record.rank) + ", got " + program::text_of(array.shape));
    return array;
}

double number_of(const CaptureRecord &record, const std::string &text) {
    double number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(number))
        throw InputError(argument_of(record.name), "must be a number, got " + text);
    return record.of_scores ? static_cast<double>(static_cast<float>(number)) : number;
}

ConstView view_of(const program::Array &a, DType dtype) {
    ConstView v;
    v.data = a.data.get(), v.dtype = dtype, v.rank = a.rank();
    std::int64_t stride = 1;
    for (int n = a.rank() - 1; n >= 0; n--) {
        v.extent[n] = a.shape[static_cast<std::size_t>(n)], v.stride[n] = stride;
        stride *= v.extent[n];
    }
    return v;
}

DType dtype_of(program::ElementType type) {
    switch (type) {
    case program::ElementType::f64: return DType::f64;
    case program::ElementType::i32: return DType::i32;
    case program::ElementType::boolean: return DType::boolean;
    default: return DType::f32;
    }
}

}  // namespace

CaptureSet::CaptureSet(const AttentionRecord &attention, const Captures &given) {
    for (const auto &[name, value] : given)
        if (std::none_of(attention.captures.begin(), attention.captures.end(), [&, &n = name](auto &c) { return c.name == n; }))
            throw InputError(argument_of(name), std::string(attention.name) + " has no such capture");
    for (const CaptureRecord &record : attention.captures) {
        const auto found = given.find(std::string(record.name));
        if (found == given.end())
            throw InputError(argument_of(record.name),
                             "must be given: " + std::string(attention.name) + " captures " +
                                 (record.rank == 0 ? "a number" : "an array of rank " + std::to_string(record.rank)));
        Capture &c = all_.emplace_back();
        c.name = record.name;
        if (record.rank == 0) {
            c.number = number_of(record, found->second);
            continue;
        }
        c.array = read(record, found->second);
        if (record.of_scores)
            c.of_f64 = program::converted(copy_of(c.array), program::ElementType::f64, argument_of(record.name));
    }
}

std::vector<CaptureArgument> CaptureSet::arguments(DType type) const {
    std::vector<CaptureArgument> arguments;
    for (const Capture &c : all_) {
        const program::Array &array = type == DType::f64 && c.of_f64.data ? c.of_f64 : c.array;
        arguments.push_back({c.number ? ConstView() : view_of(array, dtype_of(array.type)), c.number});
    }
    return arguments;
}

std::vector<bench::Region> CaptureSet::regions() const {
    std::vector<bench::Region> all;
    for (const Capture &c : all_)
        if (!c.number) all.push_back({c.name.c_str(), {c.array.data.get(), c.array.bytes()}});
    return all;
}

}  // namespace attune::tune
