// The check at the shape that is tuned for: the call of the benchmark, every element or a large sample, and what is expected
// kept in a file, because it costs as much as all other checks together.
#include "bench/cases/case.h"
#include "gate.h"
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <unistd.h>

namespace attune::tune {
namespace {

// About two seconds of the definition.
constexpr double most_operations = 5e9;

std::span<const std::byte> bytes_of(const bench::Bytes &b) { return {static_cast<const std::byte *>(b.data), b.size}; }

// One file a shape and sample, its name a hash of what it is for, which stands in it.
std::string key_of(const bench::Shape &s, std::int64_t tile) {
    return s.op + "_" + attune::name_of(s.dtype) + "/" + s.label() + "/tile:" + std::to_string(tile);
}
std::string file_of(const std::string &folder, const std::string &key) {
    std::uint64_t hash = 14695981039346656037u;
    for (const char c : key) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
    char name[32];
    std::snprintf(name, sizeof name, "%016llx.expected", static_cast<unsigned long long>(hash));
    return (std::filesystem::path(folder) / name).string();
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

// Under another name first: a process that dies leaves no half of a file.
void write(const std::string &file, const std::string &key, const bench::Expected &expected) {
    const std::string temporary = file + "." + std::to_string(getpid());
    {
        std::ofstream out(temporary, std::ios::binary);
        const auto number = [&](std::uint64_t n) { out.write(reinterpret_cast<const char *>(&n), sizeof n); };
        out << key << '\n';
        number(expected.wide.size());
        for (const auto *list : {&expected.wide, &expected.plain, &expected.sizes})
            for (const auto &values : *list) {
                number(values.size());
                out.write(reinterpret_cast<const char *>(values.data()),
                          static_cast<std::streamsize>(values.size() * sizeof values[0]));
            }
        if (!out) return void(std::remove(temporary.c_str()));
    }
    std::rename(temporary.c_str(), file.c_str());
}

class ShapeCheck final : public Check {
public:
    ShapeCheck(const bench::Shape &shape, std::int64_t tile, const std::string &folder)
        : case_(bench::make_case(shape)), key_(key_of(shape, tile)) {
        case_->sample(most_operations, tile);
        if (!folder.empty()) file_ = file_of(folder, key_);
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
        for (const bench::Region &r : regions) all.push_back({r.name, bytes_of(r.bytes)});
        return all;
    }

    std::unique_ptr<bench::Case> case_;
    std::string key_, file_;
};

}  // namespace

PlannedCheck shape_check(const bench::Shape &shape, std::int64_t tile, const std::string &expected) {
    return {"tuning shape " + shape.label(), [=] { return std::make_unique<ShapeCheck>(shape, tile, expected); }};
}

}  // namespace attune::tune
