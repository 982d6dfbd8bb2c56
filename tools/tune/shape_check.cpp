// SPDX-License-Identifier: MIT
// Checks by calls of the benchmark. A tuning shape: every element or a large sample, with references kept in a file, because
// they cost as much as all other checks together. And the awkward calls of a user's attention.
#include "bench/cases/case.h"
#include "gate.h"
#include "hash.h"
#include "tests/support/variant_grid.h"
#include "tools/error.h"
#include "tools/files/atomic_file.h"
#include "user_captures.h"
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <set>

namespace attune::tune {
namespace {

// Operations that the reference computes in about two seconds.
constexpr double most_operations = 5e9;

std::span<const std::byte> span_of(const bench::Bytes &b) { return {static_cast<const std::byte *>(b.data), b.size}; }

// Key of a reference file, one per shape and sample: its name is a hash of the key, which stands in it. The reference of a
// user's attention is computed by its own module: the key includes code and captures.
std::string key_of(const std::string &op, const bench::Shape &s, const UserAttention &user, std::int64_t tile) {
    const std::string key = s.op + "_" + attune::name_of(s.dtype) + "/" + s.label() + "/tile:" + std::to_string(tile);
    if (!user) return key;
    return op + "/" + hex(hash_of(bytes_of(user.module))) + "/captures:" + captures_key(op, user.captures) + "/" + key;
}
std::string file_of(const std::string &folder, const std::string &key) {
    return (std::filesystem::path(folder) / (hex(hash_of(key)) + ".expected")).string();
}

bool read(const std::string &file, const std::string &key, bench::Expected &expected) {
    std::ifstream in(file, std::ios::binary);
    std::string line;
    if (!std::getline(in, line) || line != key) return false;
    std::uint64_t outputs = 0;
    const auto number = [&](std::uint64_t &n) { return bool(in.read(reinterpret_cast<char *>(&n), sizeof n)); };
    if (!number(outputs)) return false;
    for (auto *list : {&expected.wide, &expected.plain, &expected.sizes}) {
        list->resize(outputs);
        for (auto &values : *list) {
            std::uint64_t count = 0;
            if (!number(count)) return false;
            values.resize(count);
            in.read(reinterpret_cast<char *>(values.data()), static_cast<std::streamsize>(count * sizeof values[0]));
        }
    }
    return bool(in) && in.peek() == std::ifstream::traits_type::eof();
}

// Writes a reference. One that cannot be written is computed again.
void write(const std::string &file, const std::string &key, const bench::Expected &expected) {
    std::string bytes = key + "\n";
    const auto add = [&](const void *data, std::size_t size) { bytes.append(static_cast<const char *>(data), size); };
    const auto number = [&](std::uint64_t n) { add(&n, sizeof n); };
    number(expected.wide.size());
    for (const auto *list : {&expected.wide, &expected.plain, &expected.sizes})
        for (const auto &values : *list) {
            number(values.size());
            add(values.data(), values.size() * sizeof values[0]);
        }
    try {
        program::write_file(file, bytes);
    } catch (const program::MachineError &) {}
}

class ShapeCheck final : public Check {
public:
    ShapeCheck(const std::string &op, const bench::Shape &shape, const UserAttention &user, std::int64_t tile,
               const std::string &folder)
        : case_(make_case(op, shape, user)) {
        case_->sample(most_operations, tile);
        if (!folder.empty()) key_ = key_of(op, shape, user, tile), file_ = file_of(folder, key_);
    }
    attune::Status run(attune::Context &context, std::string_view variant) override { return case_->call(context, variant); }
    void forget_outputs() override { case_->forget_output(); }
    std::vector<NamedBytes> inputs() override { return named(case_->inputs()); }
    std::vector<NamedBytes> outputs() override { return named(case_->outputs()); }
    std::string defect(double &error_ratio) override {
        bench::Expected kept;
        if (!file_.empty() && read(file_, key_, kept))
            case_->expect(std::move(kept));
        else if (!file_.empty())
            write(file_, key_, case_->expected());
        const attune_test::Verdict verdict = case_->judge_output();
        error_ratio = std::max(error_ratio, verdict.ratio);
        return verdict.right ? std::string() : verdict.why;
    }

private:
    static std::vector<NamedBytes> named(const std::vector<bench::Region> &regions) {
        std::vector<NamedBytes> all;
        for (const bench::Region &r : regions) all.push_back({r.name, span_of(r.bytes)});
        return all;
    }

    std::unique_ptr<bench::Case> case_;
    std::string key_, file_;
};

}  // namespace

PlannedCheck shape_check(const std::string &op, const bench::Shape &shape, const UserAttention &user, std::int64_t tile,
                         const std::string &expected) {
    return {"tuning shape " + shape.label(), [=] { return std::make_unique<ShapeCheck>(op, shape, user, tile, expected); }};
}

std::vector<PlannedCheck> user_checks(const VariantInfo &v, const std::vector<bench::Shape> &shapes,
                                      const UserAttention &user) {
    std::vector<PlannedCheck> checks;
    std::set<std::string> taken;
    for (const bench::Shape &tuned : shapes)
        for (const bench::Shape &shape : awkward_user_shapes(v, tuned))
            if (const std::string label = shape.label(); taken.insert(label).second)
                checks.push_back({label, [=, op = std::string(v.op), tile = attune_test::tile_of(v)] {
                                      return std::make_unique<ShapeCheck>(op, shape, user, tile, std::string());
                                  }});
    return checks;
}

}  // namespace attune::tune
