// SPDX-License-Identifier: MIT
#include "user_captures.h"
#include "hash.h"
#include "tools/error.h"
#include "tools/files/atomic_file.h"
#include "tools/text.h"
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <filesystem>

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
    program::NpyFile array(argument, file, kind);
    if (static_cast<int>(array.shape().size()) != record.rank)
        throw InputError(argument, "rank must be " + std::to_string(record.rank) + ", got " + program::text_of(array.shape()));
    return program::converted(array.read(), type, argument);
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

// A call's read beyond the extents of a capture: the capture, the dimension, and the extent that is read.
struct Lack {
    std::size_t capture = 0, dimension = 0;
    std::int64_t extent = 0;
};
std::optional<Lack> lack_in(const std::string &message, const AttentionRecord &attention) {
    for (std::size_t n = 0; n < attention.captures.size(); n++) {
        const std::string words = "capture_" + std::string(attention.captures[n].name) + " is accessed at ";
        const std::size_t at = message.find(words);
        if (at == message.npos) continue;
        long long element = 0;
        int from_innermost = 0;
        const char *const pattern = "%lld, which is beyond the max (%*d) in dimension %d";
        const int rank = attention.captures[n].rank;
        if (std::sscanf(message.c_str() + at + words.size(), pattern, &element, &from_innermost) == 2 && from_innermost < rank)
            return Lack{n, std::size_t(rank - 1 - from_innermost), element + 1};
    }
    return {};
}

// File of made-up values, one per type and shape.
std::string made_up_file(const program::Shape &shape, program::ElementType type, const std::string &folder) {
    std::string name = program::name_of(type);
    for (const std::int64_t extent : shape) name += "_" + std::to_string(extent);
    const std::string file = folder + "/" + name + ".npy";
    if (std::filesystem::exists(file)) return file;
    program::Array array(type, shape);
    for (std::int64_t n = 0; n < array.elements(); n++) {
        const double x = 0.5 + 0.5 * static_cast<double>(n * 2654435761 % 65536) / 65536;
        if (type == program::ElementType::f32) array.as<float>()[n] = static_cast<float>(x);
        if (type == program::ElementType::f64) array.as<double>()[n] = x;
        if (type == program::ElementType::i32) array.as<std::int32_t>()[n] = 0;
        if (type == program::ElementType::boolean) array.as<bool>()[n] = true;
    }
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    program::write_file(
        file, program::npy_header(type, shape).append(reinterpret_cast<const char *>(array.data.get()), array.bytes()));
    return file;
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

std::uint64_t CaptureSet::hash() const {
    std::uint64_t hash = hash_of({});
    for (const Capture &c : all_) {
        hash =
            hash_of(c.name + "=" + (c.number ? program::formatted("%.17g", *c.number) : program::text_of(c.array.shape)), hash);
        if (!c.number) hash = hash_of({reinterpret_cast<const char *>(c.array.data.get()), c.array.bytes()}, hash);
    }
    return hash;
}

std::vector<bench::Region> CaptureSet::regions() const {
    std::vector<bench::Region> all;
    for (const Capture &c : all_)
        if (!c.number) all.push_back({c.name.c_str(), {c.array.data.get(), c.array.bytes()}});
    return all;
}

std::string captures_key(const std::string &op, const Captures &captures) {
    return hex(CaptureSet(*detail::find_attention(op), captures).hash());
}

Captures complete_captures(const std::string &op, const Captures &given, const std::vector<bench::Shape> &shapes,
                           const std::string &folder, std::vector<std::string> &made_up) {
    constexpr std::int64_t most_elements = std::int64_t{1} << 28;
    const AttentionRecord &attention = *detail::find_attention(op);
    const auto is_given = [&](const CaptureRecord &c) { return given.count(std::string(c.name)) > 0; };
    Captures all = given;
    std::vector<program::Shape> extents;
    for (const CaptureRecord &c : attention.captures) {
        const program::Shape &shape = extents.emplace_back(c.rank, 1);
        if (!is_given(c)) all[std::string(c.name)] = c.rank == 0 ? "1" : made_up_file(shape, element_of(c), folder);
    }
    // The call's message says which extent is too small, one dimension at a time. Other faults show when the call is run.
    for (const bench::Shape &shape : shapes)
        while (true) {
            Context context;
            const Status status = make_user_case(std::string(attention.op), shape, all)->call(context, "");
            const std::optional<Lack> lack = lack_in(status.message(), attention);
            if (!lack || is_given(attention.captures[lack->capture])) break;
            const CaptureRecord &c = attention.captures[lack->capture];
            program::Shape &wanted = extents[lack->capture];
            if (lack->extent <= wanted[lack->dimension]) break;
            wanted[lack->dimension] = lack->extent;
            const std::optional<std::int64_t> elements = program::elements_of(wanted);
            if (!elements || *elements > most_elements)
                throw InputError(argument_of(c.name), "must be given: " + op + " reads it up to " + program::text_of(wanted));
            all[std::string(c.name)] = made_up_file(wanted, element_of(c), folder);
        }
    for (std::size_t n = 0; n < extents.size(); n++)
        if (const CaptureRecord &c = attention.captures[n]; !is_given(c))
            made_up.push_back(std::string(c.name) + (c.rank == 0 ? " 1" : " " + program::text_of(extents[n])));
    return all;
}

}  // namespace attune::tune
