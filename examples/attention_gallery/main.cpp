// SPDX-License-Identifier: MIT
// Runs attentions of the gallery and compares them with their formulas.
// usage: attention_gallery [ENTRY...] [--picture FOLDER] [--time] [--threads N] [--rounds N]
#include "gallery.h"
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>

using namespace gallery;

namespace {

struct Options {
    std::vector<std::string> entries;
    std::string folder;
    bool time = false;
    int threads = 0, rounds = 15;
};

constexpr unsigned seed = 1;

bool ok(const attune::Status &status) {
    if (!status.ok()) std::printf("%s\n", status.message().c_str());
    return status.ok();
}

// The largest error, as a fraction of the error that rounding may cause: some roundings in each term, times, for a weight exp(s
// - lse), the magnitude of its score, which is summed in float.
double error_of(const std::vector<float> &found, const Judged &plain, double largest_score) {
    const double rounding = 0x1p-24, roundings = 8;
    double worst = 0;
    for (std::size_t n = 0; n < found.size(); n++) {
        const double exact = plain.exact[n], error = std::abs(double(found[n]) - exact);
        if (double(found[n]) == exact) continue;  // infinities, too
        const double share = error / (roundings * rounding * (1 + largest_score) * plain.size[n]);
        worst = std::isnan(share) ? INFINITY : std::max(worst, share);
    }
    return worst;
}

// Forward and backward against the formula. Errors are printed as fractions of the allowed ones.
bool check(const Entry &entry, attune::Context &context) {
    std::mt19937 random(seed);
    Call call(context, entry.checked, entry.captures(entry.checked), random);
    if (!ok(entry.forward(call, {.lse = call.lse})) || !ok(entry.backward(call))) return false;
    const Plain plain = evaluate(entry, entry.checked, call);
    bool right = true;
    std::printf("%-18s", entry.name.c_str());
    const auto compare = [&](const char *what, const Array &found, const Judged &exact) {
        const double error = error_of(found.floats, exact, plain.largest_score);
        std::printf(" %s %.2g", what, error);
        right = right && error <= 1;
    };
    compare("out", call.out, plain.out), compare("lse", call.lse, plain.lse);
    compare("dquery", call.grad_query, plain.query), compare("dkey", call.grad_key, plain.key);
    compare("dvalue", call.grad_value, plain.value);
    for (std::size_t n = 0; n < call.captures.size(); n++)
        if (call.captures[n].learned()) compare("dcapture", call.grad_captures[n], plain.captures[n]);
    std::printf("  %s\n", right ? "ok" : "WRONG");
    return right;
}

// With the identity as values, the output is the weights.
bool draw(const Entry &entry, attune::Context &context, const std::string &folder) {
    const std::int64_t tokens = entry.pictures_scores ? 32 : channels;
    const Sizes sizes{1, entry.pictured_heads, entry.pictured_heads, tokens, tokens};
    std::mt19937 random(seed);
    Call call(context, sizes, entry.captures(sizes), random);
    for (Array *a : {&call.query, &call.key, &call.value}) std::fill(a->floats.begin(), a->floats.end(), 0.0f);
    std::normal_distribution<float> normal;
    std::vector<float> token(channels);
    for (std::int64_t i = 0; i < tokens; i++) {
        // Tokens that resemble the tokens before them; where a picture shows the mask, all are alike.
        for (float &x : token) x = 0.8f * x + (entry.pictures_scores ? 0.6f * normal(random) : 0.0f);
        for (std::int64_t h = 0; h < sizes.heads; h++) {
            const auto row = std::ptrdiff_t((h * tokens + i) * channels);
            std::copy(token.begin(), token.end(), call.query.floats.begin() + row);
            std::copy(token.begin(), token.end(), call.key.floats.begin() + row);
            call.value.floats[std::size_t(row + i)] = 1;
        }
    }
    if (!ok(entry.forward(call, {}))) return false;
    std::vector<float> weights;
    for (auto row = call.out.floats.begin(); row != call.out.floats.end(); row += channels)
        weights.insert(weights.end(), row, row + tokens);
    const std::string path = folder + "/" + entry.name + ".svg";
    std::ofstream file(path);
    if (!(file << picture("weights of " + entry.name, sizes, weights)).flush())
        return std::printf("%s: cannot be written\n", path.c_str()), false;
    return true;
}

double median(std::vector<double> x) {
    std::nth_element(x.begin(), x.begin() + std::ptrdiff_t(x.size() / 2), x.end());
    return x[x.size() / 2];
}

// Times calls in turns with the library's plain attention over all keys; an entry with a mask also with a block mask kept from
// call to call.
bool time(const Entry &entry, attune::Context &context, int rounds) {
    std::vector<Workload> workloads = {{"", {1, 8, 8, 1024, 1024}, entry.captures}};
    workloads.insert(workloads.end(), entry.more_timings.begin(), entry.more_timings.end());
    for (const auto &[what, sizes, captures] : workloads) {
        std::mt19937 random(seed);
        Call call(context, sizes, captures(sizes), random);
        attune::BlockMask kept;
        bool good = true;
        const auto timed = [&](const auto &run) {
            const auto start = std::chrono::steady_clock::now();
            good = good && ok(run());
            return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
        };
        std::vector<double> own, dense, ratio, kept_ratio;
        for (int n = -1; n < rounds; n++) {  // round -1 is not counted
            for (attune::BlockMask *mask : {static_cast<attune::BlockMask *>(nullptr), &kept}) {
                const double all = timed(
                    [&] { return attune::scaled_dot_product_attention(context, call.query, call.key, call.value, call.out); });
                call.block_mask = mask;
                const double part = timed([&] { return entry.forward(call, {}); });
                if (n < 0) continue;
                (mask ? kept_ratio : ratio).push_back(part / all);
                if (!mask) own.push_back(part), dense.push_back(all);
            }
        }
        if (!good) return false;
        std::printf("  %.2f of dense (%.2f ms, %.2f ms)", median(ratio), median(own), median(dense));
        if (entry.has_mask) std::printf(", %.2f with a kept BlockMask", median(kept_ratio));
        std::printf(": 1x8x%dx%dx%d f32 %s\n", int(sizes.queries), int(sizes.keys), int(channels), what.c_str());
    }
    return true;
}

bool parse(int argc, char **argv, Options &options) {
    for (int n = 1; n < argc; n++) {
        const std::string word = argv[n];
        const char *next = n + 1 < argc ? argv[n + 1] : "";
        if (word == "--time")
            options.time = true;
        else if (word == "--picture" && *next)
            options.folder = next, n++;
        else if (word == "--threads" && std::atoi(next) > 0)
            options.threads = std::atoi(next), n++;
        else if (word == "--rounds" && std::atoi(next) > 0)
            options.rounds = std::atoi(next), n++;
        else if (word[0] != '-')
            options.entries.push_back(word);
        else
            return false;
    }
    return true;
}

}  // namespace

int main(int argc, char **argv) {
    const std::vector<Entry> all = {GALLERY_ENTRIES};  // defined in CMakeLists.txt
    Options options;
    bool known = parse(argc, argv, options);
    for (const std::string &name : options.entries)
        known = known && std::any_of(all.begin(), all.end(), [&](const Entry &e) { return e.name == name; });
    if (!known) {
        std::printf("usage: %s [ENTRY...] [--picture FOLDER] [--time] [--threads N] [--rounds N]\nentries:", argv[0]);
        for (const Entry &e : all) std::printf(" %s", e.name.c_str());
        std::printf("\n");
        return 2;
    }
    attune::Context context({.threads = options.threads});
    std::printf("errors in shares of what rounding may do (seed %u)\n", seed);
    bool right = true;
    for (const Entry &entry : all) {
        const auto &chosen = options.entries;
        if (!chosen.empty() && std::find(chosen.begin(), chosen.end(), entry.name) == chosen.end()) continue;
        right = check(entry, context) && right;
        if (!options.folder.empty()) right = draw(entry, context, options.folder) && right;
        if (options.time) right = time(entry, context, options.rounds) && right;
    }
    return right ? 0 : 1;
}
