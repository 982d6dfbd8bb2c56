// SPDX-License-Identifier: MIT
// The driver of random cases: runs them family by family, shrinks a case that fails, and prints it as a line of the corpus,
// which is a C++ test.
#include "tests/fuzz/child.h"
#include "tests/fuzz/family.h"
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>

namespace {
using namespace attune_fuzz;

struct Options {
    double minutes = 0;  // 0: by the number of cases
    std::uint64_t cases = 1000, seed = 1;
    std::string only = {}, one_case = {};
    bool corpus = false, self_test = false;
};

int usage(const char *wrong) {
    std::fprintf(stderr,
                 "%s\nusage: attune_fuzz [--minutes M | --cases N] [--seed S] [--only FAMILY]\n"
                 "       attune_fuzz --case 'FAMILY name=value...' | --corpus | --self-test\nfamilies:",
                 wrong);
    for (const Family &family : families()) std::fprintf(stderr, " %s", family.name);
    std::fputc('\n', stderr);
    return 2;
}

// splitmix64 (Steele et al., 2014) of the seed of the run, the family and the number of the case.
std::uint64_t mixed(std::uint64_t x) {
    x += 0x9e3779b97f4a7c15ull;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull, x = (x ^ x >> 27) * 0x94d049bb133111ebull;
    return x ^ x >> 31;
}

void print_failure(const std::string &family, const Shrunk &shrunk) {
    std::printf(
        "  %s\n  after %d runs to shrink it; as a test, for tests/fuzz/corpus/cases.h:\n    {\"%s\", \"%s\",\n     \"...\"},\n",
        shrunk.why.c_str(), shrunk.runs, family.c_str(), text_of(shrunk.values).c_str());
    std::fflush(stdout);
}

// Cases of one family.
struct Progress {
    std::uint64_t done = 0, failed = 0;
    double seconds = 0;
};
void run_batch(const Family &family, std::uint64_t seed, std::uint64_t count, Progress &progress) {
    const auto start = std::chrono::steady_clock::now();
    const std::uint64_t of_family = mixed(mixed(seed) + std::hash<std::string_view>()(family.name));
    const Run run = [&](Draw &draw) { run_case(family, draw); };
    const auto seed_of = [&](std::uint64_t n) { return mixed(of_family + n); };
    for (const std::uint64_t end = progress.done + count; progress.done < end;) {
        const Outcome outcome = run_cases(run, progress.done, end, seed_of);
        progress.done = outcome.failed ? outcome.at + 1 : end;
        if (!outcome.failed) continue;
        progress.failed++;
        std::printf("FAILED: %s, case %llu of seed %llu\n  %s\n", family.name, static_cast<unsigned long long>(outcome.at),
                    static_cast<unsigned long long>(seed), outcome.why.c_str());
        std::fflush(stdout);
        print_failure(family.name, shrink(run, outcome));
    }
    progress.seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

int run_random(const Options &options) {
    const auto start = std::chrono::steady_clock::now();
    const auto minutes = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / 60; };
    std::printf("seed %llu\n", static_cast<unsigned long long>(options.seed));
    std::map<std::string, Progress> all;
    std::uint64_t failed = 0;
    const auto round = [&](std::uint64_t cases) {
        for (const Family &family : families()) {
            if (!options.only.empty() && options.only != family.name) continue;
            Progress &progress = all[family.name];
            const std::uint64_t share = options.only.empty() ? (cases * family.per_mille + 999) / 1000 : cases;
            const std::uint64_t before = progress.failed;
            run_batch(family, options.seed, share, progress);
            failed += progress.failed - before;
        }
    };
    const auto report = [&] {
        std::uint64_t cases = 0;
        for (const auto &[name, progress] : all) {
            std::printf("%-22s %8llu cases, %llu failed, %.1f s\n", name.c_str(),
                        static_cast<unsigned long long>(progress.done), static_cast<unsigned long long>(progress.failed),
                        progress.seconds);
            cases += progress.done;
        }
        std::printf("%llu cases of seed %llu, %llu failed, %.1f minutes\n", static_cast<unsigned long long>(cases),
                    static_cast<unsigned long long>(options.seed), static_cast<unsigned long long>(failed), minutes());
        std::fflush(stdout);
    };
    if (options.minutes > 0)
        for (double reported = 0; minutes() < options.minutes && failed < 50;) {
            round(1000);
            if (minutes() - reported > 5) reported = minutes(), report();
        }
    else
        round(options.cases);
    report();
    return failed ? 1 : 0;
}

int run_one(const std::string &name, const std::string &values) {
    const Family *family = family_of(name);
    if (!family) return usage(("no family " + name).c_str());
    const Outcome outcome = run_values([&](Draw &draw) { run_case(*family, draw); }, values_of(values));
    std::printf("%s %s: %s\n", name.c_str(), values.c_str(), outcome.failed ? outcome.why.c_str() : "right");
    return outcome.failed ? 1 : 0;
}

int run_corpus() {
    int failed = 0;
    for (const CorpusCase &c : corpus()) failed += run_one(c.family, c.values);
    return failed ? 1 : 0;
}

// Planted faults: a wrong result and a crash are found, and shrunk to the numbers and the label at which they begin.
int self_test() {
    int wrong = 0;
    const auto expect = [&](const char *what, const Run &run, const Values &simplest, const char *why) {
        const Outcome outcome = run_cases(run, 0, 3000, mixed);
        const Shrunk shrunk = outcome.failed ? shrink(run, outcome) : Shrunk{};
        const bool right = outcome.failed && shrunk.values == simplest && shrunk.why.find(why) != std::string::npos &&
                           run_values(run, simplest).failed && !run_values(run, {}).failed &&
                           values_of(text_of(simplest)) == simplest;
        std::printf("%s: %s, shrunk to \"%s\" (%s) in %d runs\n", what, right ? "right" : "WRONG",
                    text_of(shrunk.values).c_str(), shrunk.why.c_str(), shrunk.runs);
        wrong += !right;
    };
    const auto sizes = [](Draw &draw) {
        const std::int64_t queries = draw.number("queries", 1, 100), keys = draw.number("keys", 0, 300);
        const bool causal = draw.one_of("causal", {"none", "top_left", "bottom_right"}) == 2;
        draw.number("head_dim", 1, 200), draw.flag("sinks");
        return causal && keys >= 17 && queries >= 5;
    };
    const Values simplest = {{"causal", "bottom_right"}, {"keys", "17"}, {"queries", "5"}};
    expect(
        "a wrong result", [&](Draw &draw) { check(!sizes(draw), "planted"); }, simplest, "planted");
    expect(
        "a crash",
        [&](Draw &draw) {
            if (sizes(draw)) std::abort();
        },
        simplest, "signal 6");
    expect(
        "a text of INFO",
        [&](Draw &draw) {
            const bool fails = sizes(draw);
            INFO("within " << 3);
            check(!fails, "planted");
        },
        simplest, "planted; within 3");
    return wrong ? 1 : 0;
}

// Whether a word is a number from 0, as a whole.
template<typename N> bool number(const char *word, N &n) {
    const char *const end = word + std::strlen(word);
    const auto [last, error] = std::from_chars(word, end, n);
    return error == std::errc() && last == end && n >= 0;
}

bool read(int argc, char **argv, Options &options) {
    for (int n = 1; n < argc; n++) {
        const std::string name = argv[n];
        if (name == "--corpus") {
            options.corpus = true;
        } else if (name == "--self-test") {
            options.self_test = true;
        } else if (n + 1 == argc) {
            return false;
        } else if (name == "--minutes") {
            if (!number(argv[++n], options.minutes)) return false;
        } else if (name == "--cases") {
            if (!number(argv[++n], options.cases)) return false;
        } else if (name == "--seed") {
            if (!number(argv[++n], options.seed)) return false;
        } else if (name == "--only") {
            options.only = argv[++n];
            if (!family_of(options.only)) return false;
        } else if (name == "--case") {
            options.one_case = argv[++n];
        } else {
            return false;
        }
    }
    return true;
}

}  // namespace

int main(int argc, char **argv) {
    Options options;
    if (!read(argc, argv, options)) return usage("an unknown option or family, or an option without its value");
    if (options.self_test) return self_test();
    if (options.corpus) return run_corpus();
    if (const auto space = options.one_case.find(' '); !options.one_case.empty())
        return run_one(options.one_case.substr(0, space), space == std::string::npos ? "" : options.one_case.substr(space));
    return run_random(options);
}
