// SPDX-License-Identifier: MIT
// Order of the steps of a check, and the reasons that it gives.
#include "gate.h"
#include "attune/context.h"
#include "fenced_scratch.h"
#include "tests/support/fenced.h"
#include "tests/support/variant_grid.h"
#include <algorithm>
#include <cstring>

namespace attune::tune {
namespace {

using Bytes = std::vector<std::byte>;

// Fills the stack, whose memory is reused from call to call, so that reads before writes differ, too.
[[gnu::noinline]] void fill_stack(unsigned char with) {
    unsigned char below[200'000];
    std::memset(below, with, sizeof below);
    asm volatile("" : : "r"(below) : "memory");
}

std::vector<Bytes> copies(const std::vector<NamedBytes> &regions) {
    std::vector<Bytes> all;
    for (const NamedBytes &r : regions) all.emplace_back(r.bytes.begin(), r.bytes.end());
    return all;
}

// Name and byte of the first difference; empty if there is none.
std::string difference(const std::vector<NamedBytes> &now, const std::vector<Bytes> &before) {
    for (std::size_t n = 0; n < now.size(); n++) {
        const auto [at, other] = std::mismatch(now[n].bytes.begin(), now[n].bytes.end(), before[n].begin(), before[n].end());
        if (at != now[n].bytes.end()) return now[n].name + ": byte " + std::to_string(at - now[n].bytes.begin());
    }
    return {};
}

struct Runs {
    const std::string &variant;
    FencedScratch scratch = {};

    // Runs a call in a context of its own; returns its fault, other than wrong values, empty if there is none.
    std::string run(Check &check, int threads, unsigned char fill) {
        scratch.fill = fill;
        const std::vector<NamedBytes> inputs = check.inputs();
        const std::vector<Bytes> before = copies(inputs);
        check.forget_outputs();
        {
            attune::Context context({.threads = threads, .scratch_bytes_per_thread = 0, .allocator = scratch.hook()});
            fill_stack(fill);
            const attune::Status status = check.run(context, variant);
            if (!status.ok()) return "refused: " + status.message();
        }
        if (const std::string found = difference(inputs, before); !found.empty()) return "an input was written: " + found;
        return scratch.defect();
    }
};

std::unique_ptr<Check> make_beside(attune_test::Fence fence, const PlannedCheck &planned) {
    attune_test::fence_of_arrays = fence;
    std::unique_ptr<Check> check = planned.make();
    attune_test::fence_of_arrays = attune_test::Fence::none;
    return check;
}

std::string defect_of(const PlannedCheck &planned, const std::string &variant, int threads, double &error_ratio) {
    Runs runs{variant};
    const auto check = make_beside(attune_test::Fence::behind, planned);
    if (const std::string found = runs.run(*check, threads, 0xff); !found.empty()) return found;
    if (const std::string found = check->defect(error_ratio); !found.empty()) return found;
    const std::vector<Bytes> first = copies(check->outputs());
    const auto same = [&](Check &of, int n, unsigned char fill, const std::string &other) {
        std::string found = runs.run(of, n, fill);
        if (!found.empty()) return found;
        found = difference(of.outputs(), first);
        return found.empty() ? found : other + " gives other bits: " + found;
    };
    const std::string by = " on " + std::to_string(threads) + " threads";
    if (const std::string found = same(*check, threads, 0x7f, "a second call" + by); !found.empty()) return found;
    const auto again = make_beside(attune_test::Fence::before, planned);
    if (const std::string found = same(*again, 1, 0x00, "1 thread, after " + std::to_string(threads)); !found.empty())
        return found;
    return same(*again, threads, 0x01, "a fourth call" + by);
}

}  // namespace

Judgement run_check(const PlannedCheck &planned, const std::string &variant, int threads) {
    Judgement judgement;
    const std::string found = defect_of(planned, variant, threads, judgement.error_ratio);
    judgement.right = found.empty();
    if (!judgement.right) judgement.reason = planned.text + ": " + found;
    return judgement;
}

std::vector<PlannedCheck> awkward_checks(const attune::VariantInfo &v, unsigned seed) {
    const auto is = [&](std::initializer_list<std::string_view> ops) { return std::count(ops.begin(), ops.end(), v.op) > 0; };
    if (is({"sdpa", "cosine", "gaussian"})) return attention_checks(v, seed);
    if (is({"sdpa_backward", "cosine_backward", "gaussian_backward"})) return gradient_checks(v, seed);
    if (is({"additive", "additive_separable"})) return additive_checks(v, seed);
    if (is({"additive_backward"})) return additive_gradient_checks(v, seed);
    if (is({"linear", "linear_packed", "batch_dot", "transposed_dot", "masked_softmax"})) return layer_checks(v, seed);
    return {};
}

Judgement judge_candidate(const GateJob &job, const Say &say) {
    const auto all = attune::variants();
    const auto variant = std::find_if(all.begin(), all.end(), [&](const auto &v) { return v.name == job.variant; });
    if (variant == all.end()) return {false, "there is no variant " + job.variant, 0};
    const int threads = attune::Context({.threads = job.threads}).threads();
    const std::string op(variant->op);
    std::vector<PlannedCheck> checks;
    if (job.awkward) {
        checks = job.user ? user_checks(*variant, job.shapes, job.user) : awkward_checks(*variant, job.seed);
        if (checks.empty()) return {false, "there are no checks for " + op, 0};
    }
    for (const bench::Shape &shape : job.shapes)
        checks.push_back(shape_check(op, shape, job.user, attune_test::tile_of(*variant), job.expected));
    Judgement whole{true, {}, 0};
    for (const PlannedCheck &planned : checks) {
        say(planned.text);
        const Judgement one = run_check(planned, job.variant, threads);
        if (!one.right) return one;
        whole.error_ratio = std::max(whole.error_ratio, one.error_ratio);
    }
    return whole;
}

}  // namespace attune::tune
