// SPDX-License-Identifier: MIT
// Reading shapes/*.csv.
#include "shapes.h"
#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fnmatch.h>
#include <fstream>
#include <functional>
#include <map>

namespace bench {
namespace {

std::vector<std::string> split(const std::string &line, char at) {
    std::vector<std::string> parts(1);
    for (char c : line) {
        if (c == at)
            parts.emplace_back();
        else
            parts.back() += c;
    }
    return parts;
}

bool number(const std::string &text, std::int64_t &value) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && end == text.data() + text.size();
}

bool read_flag(const std::string &text, bool &value) {
    value = text == "1";
    return text == "0" || text == "1";
}

bool read_dtype(const std::string &text, Shape &s) {
    for (const attune::DType dtype : {attune::DType::f32, attune::DType::f64, attune::DType::bf16, attune::DType::f16})
        if (text == attune::name_of(dtype)) return s.dtype = dtype, true;
    return false;
}

bool read_op(const std::string &text, Shape &s) {
    s.op = text;
    for (const char *other :
         {"linear", "linear_packed", "linear_backward", "batch_dot", "masked_softmax", "dropout_mask", "multi_head"})
        if (text == other) return true;
    return s.attention();
}

std::map<std::string, bool *> named(Options &o) {
    return {{"mask", &o.mask},   {"bias", &o.bias},       {"alibi", &o.alibi},    {"softcap", &o.softcap},
            {"sinks", &o.sinks}, {"dropout", &o.dropout}, {"weights", &o.weights}};
}

bool read_options(const std::string &text, Options &o) {
    if (text.empty()) return true;
    const std::map<std::string, bool *> known = named(o);
    for (const std::string &name : split(text, '+')) {
        const auto found = known.find(name);
        if (found == known.end()) return false;
        *found->second = true;
    }
    return true;
}

bool read_lengths(const std::string &text, Shape &s) {
    if (text.empty()) return true;
    for (const std::string &one : split(text, '_')) {
        std::int64_t length = 0;
        if (!number(one, length) || length < 0) return false;
        s.lengths.push_back(static_cast<std::int32_t>(length));
    }
    return true;
}

bool read_seconds(const std::string &text, double &value) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && end == text.data() + text.size() && value >= 0;
}

using Column = std::function<bool(const std::string &, Shape &)>;

Column integer(std::int64_t Shape::*field) {
    return [field](const std::string &text, Shape &s) { return number(text, s.*field); };
}

const std::map<std::string, Column> &columns() {
    static const std::map<std::string, Column> all = {
        {"name", [](const std::string &text, Shape &s) { return s.name = text, !text.empty(); }},
        {"op", read_op},
        {"dtype", read_dtype},
        {"b", integer(&Shape::b)},
        {"h", integer(&Shape::h)},
        {"kv", integer(&Shape::kv)},
        {"q", integer(&Shape::q)},
        {"k", integer(&Shape::k)},
        {"d", integer(&Shape::d)},
        {"dv", integer(&Shape::dv)},
        {"causal", [](const std::string &text, Shape &s) { return read_flag(text, s.causal); }},
        {"left", [](const std::string &text, Shape &s) { return number(text, s.window.left); }},
        {"right", [](const std::string &text, Shape &s) { return number(text, s.window.right); }},
        {"length", read_lengths},
        {"options", [](const std::string &text, Shape &s) { return read_options(text, s.options); }},
        {"quick", [](const std::string &text, Shape &s) { return read_flag(text, s.quick); }},
        {"calls", integer(&Shape::calls)},
        {"seconds", [](const std::string &text, Shape &s) { return read_seconds(text, s.seconds); }},
    };
    return all;
}

// Whether the fields make sense together.
bool agree(Shape &s) {
    if (std::min({s.b, s.h, s.kv, s.q, s.k, s.d, s.dv}) < 1 || s.h % s.kv != 0) return false;
    if (s.op == "multi_head" && s.dv != s.d) return false;
    if (s.backward() && s.options.weights) return false;
    const bool half = s.dtype == attune::DType::bf16 || s.dtype == attune::DType::f16;
    for (const char *wide : {"cosine", "gaussian", "general", "additive", "cosine_backward", "gaussian_backward",
                             "additive_backward", "masked_softmax", "dropout_mask"})
        if (half && s.op == wide) return false;
    // Options that the op would ignore are refused.
    const Options &o = s.options;
    const bool options = o.mask || o.bias || o.alibi || o.softcap || o.sinks || o.dropout || o.weights;
    const bool window = s.window.left >= 0 || s.window.right >= 0;
    if (!s.attention() && (options || window || (s.causal && s.op != "multi_head"))) return false;
    if (!s.attention() && s.op != "masked_softmax" && !s.lengths.empty()) return false;
    if (s.packed()) {
        std::int64_t keys = 0;
        for (std::int32_t length : s.lengths) keys += length;
        const auto sequences = static_cast<std::int64_t>(s.lengths.size());
        return s.b == 1 && keys == s.k && (s.q == s.k || s.q == sequences) && !options && !window &&
               std::count(s.lengths.begin(), s.lengths.end(), 0) == 0;
    }
    if (s.lengths.size() == 1) s.lengths.resize(static_cast<std::size_t>(s.b), s.lengths[0]);
    if (!s.lengths.empty() && s.lengths.size() != static_cast<std::size_t>(s.b)) return false;
    return std::all_of(s.lengths.begin(), s.lengths.end(), [&](std::int32_t length) { return length <= s.k; });
}

// Parses a line; returns its fault, empty if there is none.
std::string parse(const std::string &line, const std::vector<std::string> &header, Shape &s) {
    const auto fields = split(line, ',');
    if (fields.size() != header.size())
        return std::to_string(header.size()) + " fields expected, got " + std::to_string(fields.size());
    Columns given;
    for (std::size_t n = 0; n < fields.size(); n++) given.emplace_back(header[n], fields[n]);
    return read_columns(given, s);
}

std::string unknown_column(const std::vector<std::string> &header) {
    for (const std::string &name : header)
        if (!columns().count(name)) return "no column is called '" + name + "'";
    return {};
}

// Identity of a recorded shape: its fields without the counts.
std::string identity(const std::string &line, const std::vector<std::string> &header) {
    std::string all;
    const auto fields = split(line, ',');
    for (std::size_t n = 0; n < fields.size(); n++)
        if (header[n] != "calls" && header[n] != "seconds") all += fields[n] + ',';
    return all;
}

}  // namespace

std::string read_columns(const Columns &given, Shape &s) {
    for (const auto &[name, text] : given) {
        const auto column = columns().find(name);
        if (column == columns().end()) return "no column is called '" + name + "'";
        if (!column->second(text, s)) return name + " cannot be '" + text + "'";
    }
    return agree(s) ? ""
                    : "sizes below 1, kv that does not divide h, lengths that do not fit, or a type or columns that are not of "
                      "this op";
}

Columns columns_of(const Shape &s) {
    std::string lengths, options;
    for (const std::int32_t length : s.lengths) lengths += (lengths.empty() ? "" : "_") + std::to_string(length);
    Options o = s.options;
    for (const auto &[name, is] : named(o))
        if (*is) options += (options.empty() ? "" : "+") + name;
    const auto text = [](std::int64_t n) { return std::to_string(n); };
    return {{"op", s.op},
            {"dtype", attune::name_of(s.dtype)},
            {"b", text(s.b)},
            {"h", text(s.h)},
            {"kv", text(s.kv)},
            {"q", text(s.q)},
            {"k", text(s.k)},
            {"d", text(s.d)},
            {"dv", text(s.dv)},
            {"causal", text(s.causal)},
            {"left", text(s.window.left)},
            {"right", text(s.window.right)},
            {"length", lengths},
            {"options", options}};
}

std::vector<Shape> read_shapes(const std::string &folder, const std::string &glob, std::string &error) {
    std::vector<std::filesystem::path> files;
    std::error_code none;
    if (std::filesystem::is_regular_file(folder, none)) files.emplace_back(folder);
    for (const auto &entry : std::filesystem::directory_iterator(folder, none))
        if (entry.path().extension() == ".csv") files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    if (files.empty()) error = "no *.csv in " + folder;
    std::vector<Shape> shapes;
    for (const auto &file : files) {
        std::ifstream in(file);
        std::vector<std::string> header;
        std::string first_line;
        std::map<std::string, std::size_t> recorded;
        int row = 0;
        for (std::string line; std::getline(in, line);) {
            row++;
            if (line.empty() || line[0] == '#' || line == first_line) continue;
            Shape shape;
            shape.set = file.stem().string();
            const bool first = header.empty();
            if (first) header = split(line, ','), first_line = line;
            const std::string wrong = first ? unknown_column(header) : parse(line, header, shape);
            if (!wrong.empty()) {
                error = file.string() + ":" + std::to_string(row) + ": " + wrong;
                return {};
            }
            const std::string full = shape.set + "/" + shape.name;
            if (first || (fnmatch(glob.c_str(), full.c_str(), 0) != 0 && fnmatch(glob.c_str(), shape.set.c_str(), 0) != 0))
                continue;
            if (shape.calls > 0) {
                const auto [known, is_first] = recorded.try_emplace(identity(line, header), shapes.size());
                if (!is_first) {
                    shapes[known->second].calls += shape.calls, shapes[known->second].seconds += shape.seconds;
                    continue;
                }
            }
            shapes.push_back(shape);
        }
    }
    return shapes;
}

}  // namespace bench
