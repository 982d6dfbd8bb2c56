// SPDX-License-Identifier: MIT
// Attention that users write, on the device of the backend that this program is linked with: every variant, and the gradients
// of captures, against the formula.
#include "attune/detail/user_attention.h"
#include "tests/cuda/device_variants.h"
#include "tests/reference/philox_reference.h"
#include "tests/user_attention/formula_captures.h"
#include "tests/user_attention/user_attention_case.h"
#include <algorithm>

using namespace attune_test;

namespace {

using attune::detail::AttentionRecord, attune::detail::CaptureArgument;

// Name of an attention of this program, whose libraries end in the name of their device.
std::string library_of(std::string_view formula) {
    const std::string_view target = attune::device_backend()->target;
    return std::string(formula) + std::string(target.substr(target.rfind('_')));
}

// A formula under dropout: one more factor of the weights, of the larger call's words that the options name.
template<typename Formula> struct Dropped : Formula {
    static constexpr attune::Dropout dropout = {0.375, 0x123456789abcdef, 4, 2, 1, 3, 9};
    template<typename R> static R factor(const Pair &at, const Captured<R> &c) {
        if (!kept_by_dropout(dropout, at.heads, at.b, at.h, at.i, at.j)) return 0;
        return Formula::factor(at, c) / R(1 - dropout.probability);
    }
};
template<typename Formula> constexpr attune::Dropout dropout_of = {};
template<typename Formula> constexpr attune::Dropout dropout_of<Dropped<Formula>> = Dropped<Formula>::dropout;

// A call with random tensors and the captures of a formula.
template<typename Formula, typename T> struct DeviceUserArrays : UserArrays<T> {
    const AttentionRecord &record;
    FormulaCaptures<T> given;
    std::vector<std::int32_t> lengths;

    DeviceUserArrays(const AttentionRecord &r, const UserSizes &s, unsigned seed)
        : UserArrays<T>(s, FormulaCaptures<T>::numbers(Formula::captures(s)), seed), record(r),
          given(r, Formula::captures(s), attune::Place::device) {
        lengths.assign(s.lengths.begin(), s.lengths.end());
    }
    std::vector<std::size_t> wanted() const { return given.wanted(); }
    attune::SdpaOptions options(std::string_view variant) {
        attune::SdpaOptions o;
        o.variant = variant, o.dropout = dropout_of<Formula>;
        if (std::any_of(lengths.begin(), lengths.end(), [&](std::int32_t n) { return n != this->sizes.keys; }))
            o.valid_lens = on_device(attune::ConstView(lengths.data(), {this->sizes.batch}));
        return o;
    }
    attune::Status forward(attune::Context &context, std::string_view variant) {
        attune::SdpaOptions o = options(variant);
        o.lse = on_device(this->lse_view());
        const std::vector<CaptureArgument> captures = given.arguments(this->captures);
        return attune::detail::run_user_attention(context, record, on_device(this->q_like(this->query)),
                                                  on_device(this->k_like(this->key)), on_device(this->v_like(this->value)),
                                                  on_device(this->o_like(this->out)), o, captures, nullptr);
    }
    attune::Status backward(attune::Context &context, std::string_view variant) {
        const std::vector<CaptureArgument> captures = given.arguments(this->captures);
        const std::vector<attune::View> gradients = given.gradients(this->grad_captures, wanted());
        return attune::detail::run_user_attention_backward(
            context, record, on_device(this->q_like(this->query)), on_device(this->k_like(this->key)),
            on_device(this->v_like(this->value)),
            {on_device(this->o_like(this->out)), on_device(this->lse_view()), on_device(this->o_like(this->grad_out)), {}},
            {.query = on_device(this->q_like(this->grad_query)),
             .key = on_device(this->k_like(this->grad_key)),
             .value = on_device(this->v_like(this->grad_value))},
            gradients, options(variant), captures, nullptr);
    }
};

UserSizes sizes_of(const attune::VariantRecord &v, Index queries, Index keys, bool square) {
    const Index channels = attune::parameter_of(v, "channels", v.head_dim), value = v.head_dim ? channels : channels - 3;
    if (square) queries = keys;
    UserSizes s{2, 4, 2, queries, keys, channels, value, 1 / std::sqrt(double(channels)), {}, {}};
    s.offset = {keys - queries, keys - queries};
    s.lengths = {keys, keys % 3 == 0 ? keys : keys / 2 + 1};
    return s;
}

// Some attentions are in every program, others where all tests are (ATTUNE_TEST_ALL).
template<typename Formula>
void check_formula(bool everywhere, const std::vector<std::string_view> &kinds = {"plain", "scored"}) {
    INFO(Formula::name);
    const std::string op = "user_" + library_of(Formula::name);
    const AttentionRecord *record = attune::detail::find_attention(op);
    if (!record) {
        REQUIRE_FALSE(everywhere);
        WARN("LEFT OUT: " << op);
        return;
    }
    attune::Context context;
    unsigned seed = 1;
    const auto on_sizes = [&](const attune::VariantRecord &v, auto zero, const auto &run) {
        using T = decltype(zero);
        for (const auto &[queries, keys] : {std::pair<Index, Index>(v.tile_q / 4 + 1, 2 * v.kv_block + 3), {3, 37}, {1, 1}}) {
            CAPTURE(queries, keys);
            DeviceUserArrays<Formula, T> a(*record, sizes_of(v, queries, keys, Formula::square), seed++);
            run(a, v.name);
        }
    };
    for_each_device_variant(op, kinds, [&](const attune::VariantRecord &v, auto zero) {
        on_sizes(v, zero, [&](auto &a, std::string_view variant) {
            REQUIRE(a.forward(context, variant).message() == "");
            check_user_attention<Formula>(a, {}, false);
        });
    });
    for_each_device_variant(op + "_backward", kinds, [&](const attune::VariantRecord &v, auto zero) {
        on_sizes(v, zero, [&](auto &a, std::string_view variant) {
            REQUIRE(a.forward(context, {}).message() == "");
            REQUIRE(a.backward(context, variant).message() == "");
            check_user_attention<Formula>(a, a.wanted());
        });
    });
}

}  // namespace

TEST_CASE("device: gradients and results of a user's score with a mask", "[device][user_attention]") {
    check_formula<AlibiFormula>(true);
}
TEST_CASE("device: gradients and results of a user's attention under dropout", "[device][user_attention][no_opencl]") {
    check_formula<Dropped<AlibiFormula>>(true, {"training"});
    check_formula<Dropped<EverythingFormula>>(false, {"training"});
}
TEST_CASE("device: gradients and results of a user's captures of every kind and a factor", "[device][user_attention]") {
    check_formula<EverythingFormula>(!takes_reversed_rows());  // everywhere through OpenCL
}
TEMPLATE_TEST_CASE("device: gradients and results of the gallery of attentions", "[device][user_attention]", SoftcapFormula,
                   RelativePositionFormula, SinkWindowFormula, PrefixLmFormula, DocumentsFormula, BlockDiagonalFormula,
                   NeighbourhoodFormula, ColumnIntervalsFormula, RbfTanhFormula, TemperatureFormula, DistanceDropoutFormula) {
    check_formula<TestType>(false);
}
