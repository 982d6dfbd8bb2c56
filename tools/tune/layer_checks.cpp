// SPDX-License-Identifier: MIT
// Checks of linear, with packed weights, too; of its gradients, batch_dot and masked_softmax.
#include "check_parts.h"
#include "tests/support/linear_backward_case.h"
#include "tests/support/masked_softmax_case.h"

namespace attune::tune {
namespace {

using namespace attune_test;

template<typename T> class ProductCheck final : public Check {
public:
    ProductCheck(const LinearCase &c, bool batched) : a_(c, batched) {}
    attune::Status run(attune::Context &context, std::string_view variant) override { return a_.run(context, variant); }
    void forget_outputs() override { a_.out.forget(); }
    std::vector<NamedBytes> inputs() override {
        std::vector<NamedBytes> all;
        add_bytes(all, "x", a_.x), add_bytes(all, "weight", a_.weight), add_bytes(all, "bias", a_.bias);
        return all;
    }
    std::vector<NamedBytes> outputs() override { return {{"out", a_.out.bytes()}}; }
    std::string defect(double &error_ratio) override { return attune_test::defect(a_, &error_ratio); }

private:
    LinearArrays<T> a_;
};

// Check of the gradients of linear; a candidate of transposed_dot computes the gradient by the weight.
template<typename T> class LinearGradientCheck final : public Check {
public:
    explicit LinearGradientCheck(const LinearCase &c) : a_(c) {}
    attune::Status run(attune::Context &context, std::string_view variant) override { return a_.run(context, variant); }
    void forget_outputs() override { a_.grad_x.forget(), a_.grad_weight.forget(), a_.grad_bias.forget(); }
    std::vector<NamedBytes> inputs() override {
        std::vector<NamedBytes> all;
        add_bytes(all, "x", a_.layer.x), add_bytes(all, "weight", a_.layer.weight), add_bytes(all, "grad_out", a_.grad_out);
        return all;
    }
    std::vector<NamedBytes> outputs() override {
        return {{"grad_x", a_.grad_x.bytes()}, {"grad_weight", a_.grad_weight.bytes()}, {"grad_bias", a_.grad_bias.bytes()}};
    }
    std::string defect(double &error_ratio) override { return attune_test::defect(a_, want_layer, &error_ratio); }

private:
    LinearBackwardArrays<T> a_;
};

template<typename T> class SoftmaxCheck final : public Check {
public:
    explicit SoftmaxCheck(const SoftmaxCase &c) : a_(c) {}
    attune::Status run(attune::Context &context, std::string_view variant) override {
        return attune::masked_softmax(context, a_.scores.view(), a_.out.view(), a_.options(variant));
    }
    void forget_outputs() override { a_.out.forget(); }
    std::vector<NamedBytes> inputs() override {
        std::vector<NamedBytes> all;
        add_bytes(all, "scores", a_.scores), add_bytes(all, "valid_lens", a_.lens);
        return all;
    }
    std::vector<NamedBytes> outputs() override { return {{"out", a_.out.bytes()}}; }
    std::string defect(double &error_ratio) override {
        if (!a_.out.gaps_untouched()) return "out: written beyond its elements";
        if (!a_.out.all_written()) return "out: not all elements written";
        const auto options = a_.options({});
        const Verdict verdict = judge(masked_softmax_reference<Reference<T>, T>(a_.scores.view(), options),
                                      masked_softmax_reference<T, T>(a_.scores.view(), options), a_.out.values());
        error_ratio = std::max(error_ratio, verdict.ratio);
        return verdict.right ? std::string() : "out: " + verdict.why;
    }

private:
    SoftmaxArrays<T> a_;
};

// Products with sizes around the tiles of rows and columns and the depth block.
std::vector<LinearCase> awkward_products(const attune::VariantInfo &v, unsigned seed) {
    const auto parameter = [&](const char *name, int otherwise) { return std::int64_t(parameter_of(v, name, otherwise)); };
    const std::int64_t depth_block = parameter("depth_block", 256), tile = parameter("tile_rows", 4),
                       task = parameter("task_rows", 8), wide = parameter("tile_columns", 8), block = parameter("block", 4);
    // Classes of full tiles refuse columns that fill no such tiles, or for AMX tiles fewer than 32 columns and depths that fill
    // none.
    const bool full = takes_full_tiles(v), in_tiles = takes_full_amx_tiles(v);
    const std::int64_t filled = !full || in_tiles ? 1 : columns_of_full_tiles(v), deep = in_tiles ? 32 : 1;
    const auto round_up = [](std::int64_t n, std::int64_t to) { return (n + to - 1) / to * to; };
    const auto columns = [&](std::int64_t n) { return in_tiles ? std::max<std::int64_t>(n, 32) : round_up(n, filled); };
    // linear for few rows refuses depths without a whole block of weights; the bf16 dot product, depths without a pair.
    const std::int64_t least_depth = v.op == "linear" && is_for_few_rows(v) ? 32 : v.schedule == "bf16_dot" ? 2 : 1;
    std::vector<LinearCase> cases;
    const auto add = [&](std::int64_t rows, std::int64_t n, std::int64_t depth, Order order = Order::dense) {
        depth = round_up(std::max(depth, least_depth), deep);
        LinearCase c{
            .leading = {rows}, .columns = columns(n), .depth = depth, .bias = seed % 2 == 0, .order = order, .seed = seed};
        c.packed = v.op == "linear_packed";
        if (v.op == "transposed_dot") c.leading = {depth}, c.columns = rows, c.depth = n;  // a^T x: a is (depth, rows)
        if (order != Order::dense) c.leading.insert(c.leading.begin(), {2, 3});
        cases.push_back(c), seed++;
    };
    add(1, 1, 1), add(1, wide + 1, depth_block + 1), add(tile + 1, wide - 1 > 0 ? wide - 1 : 1, block + 1);
    add(task, wide, depth_block), add(task + 1, 2 * wide + 5, depth_block + 1),
        add(task - 1 > 0 ? task - 1 : 1, 37, 2 * depth_block + 3);
    add(13, 129, 61), add(3 * tile + 2, wide / 4 + 1, depth_block - 1 > 0 ? depth_block - 1 : 1);
    for (const Order order : {Order::padded, Order::reversed, Order::swapped}) add(tile + 1, wide + 1, block + 7, order);
    add(2 * task + 1, 2 * wide + 1, 4'000'000 / ((2 * task + 1) * (2 * wide + 1)) + 1);  // work for all threads
    return cases;
}

std::vector<SoftmaxCase> awkward_softmax(const attune::VariantInfo &v, unsigned seed) {
    const std::int64_t tile = parameter_of(v, "tile_rows", 4), block = 64;
    std::vector<SoftmaxCase> cases;
    for (const auto &[queries, keys] : {std::pair<std::int64_t, std::int64_t>(1, 1),
                                        {tile + 1, block + 1},
                                        {tile, block},
                                        {37, 61},
                                        {2 * tile + 1, 3 * block + 5},
                                        {5, block - 1},
                                        {515, 1031}})
        for (const Lengths lengths : {Lengths::none, Lengths::per_query}) {
            SoftmaxCase c{.queries = queries, .keys = std::max<std::int64_t>(1, keys), .lengths = lengths, .seed = seed};
            if (seed % 3 == 0) c.fill = attune::MaskFill::seed;
            if (seed % 2) c.scores_layout = Layout::padded, c.out_layout = Layout::bshd;
            cases.push_back(c), seed++;
        }
    return cases;
}

std::string describe_softmax(const SoftmaxCase &c) {
    std::ostringstream text;
    text << c;
    return text.str();
}

}  // namespace

std::vector<PlannedCheck> layer_checks(const attune::VariantInfo &v, unsigned seed) {
    std::vector<PlannedCheck> checks;
    if (v.op == "masked_softmax")
        with_wide_type(v.dtype, [&](auto zero) {
            for (const SoftmaxCase &c : awkward_softmax(v, seed))
                checks.push_back({describe_softmax(c), [c] { return std::make_unique<SoftmaxCheck<decltype(zero)>>(c); }});
        });
    else
        with_type(v.dtype, [&](auto zero) {
            const bool batched = v.op == "batch_dot";
            for (const LinearCase &c : awkward_products(v, seed))
                if (v.op == "transposed_dot")
                    checks.push_back(plan<LinearGradientCheck<decltype(zero)>>(c));
                else
                    checks.push_back({describe(c), [=] { return std::make_unique<ProductCheck<decltype(zero)>>(c, batched); }});
        });
    return checks;
}

}  // namespace attune::tune
