// SPDX-License-Identifier: MIT
#include "user_case.h"
#include "attune/detail/user_attention.h"
#include "bench/cases/attention_inputs.h"
#include "tests/support/variant_grid.h"
#include "tools/error.h"
#include "user_captures.h"
#include <algorithm>
#include <dlfcn.h>
#include <set>

namespace attune::tune {

using detail::find_attention, detail::run_user_attention, detail::run_user_attention_backward;
using program::InputError, program::MachineError;
namespace {

using bench::Row, bench::Shape;

// Kinds of kernels that know the options.
std::vector<std::string_view> kinds_for(const bench::Options &o) {
    if (o.dropout) return {"training"};
    if (o.mask || o.bias || o.alibi || o.softcap || o.sinks) return {"scored", "training"};
    return {"plain", "scored", "training"};
}

// The root kernel that computes the reference. The module that the tuner loads has all root kernels.
std::string root_of(std::string_view op, DType dtype, const bench::Options &options) {
    for (const std::string_view kind : kinds_for(options))
        for (const VariantInfo &v : variants())
            if (v.op == op && v.dtype == dtype && v.schedule == "root" && v.kind == kind && v.head_dim == 0)
                return std::string(v.name);
    throw InputError(std::string(op), std::string("there is no root kernel in ") + name_of(dtype) + " to compare with");
}

void require(const Status &status) {
    if (!status.ok()) throw MachineError("reference", status.message());
}

template<typename To, typename From> void convert(const bench::MappedArray &to, const bench::MappedArray &from) {
    const std::size_t count = from.bytes() / sizeof(From);
    for (std::size_t n = 0; n < count; n++) to.as<To>()[n] = static_cast<To>(static_cast<bench::Sum<From>>(from.as<From>()[n]));
}

// Inputs of a case in another type, with the same values.
template<typename To, typename From> bench::AttentionInputs<To> inputs_as(const bench::AttentionInputs<From> &in) {
    bench::AttentionInputs<To> same(in.shape);
    convert<To, From>(same.query, in.query), convert<To, From>(same.key, in.key), convert<To, From>(same.value, in.value);
    convert<To, From>(same.bias, in.bias), convert<float, float>(same.sinks, in.sinks);
    return same;
}

template<typename T> bench::MappedArray array_of(std::int64_t elements) {
    return bench::MappedArray(static_cast<std::size_t>(elements) * sizeof(T));
}

// Common part of the two kinds of cases: captures, and the outputs of the references, computed when they are asked for.
class UserCase : public bench::Case {
public:
    UserCase(const AttentionRecord &attention, const Shape &s, const Captures &captures)
        : Case(s, s.h), attention_(attention), captures_(attention, captures) {}

protected:
    using Values = std::vector<std::vector<double>>;  // one list per output, in the order of its elements
    virtual Values reference(DType) const = 0;

    void row(const Row &r, bool wide, std::vector<long double> &out) const final {
        Values &values = wide ? wide_ : plain_;
        if (values.empty()) values = reference(wide ? DType::f64 : DType::f32);
        for (std::size_t n = 0; n < values.size(); n++) {
            const View o = output(n);
            const Row at = row_of(n, r);
            const std::int64_t first = ((at[0] * o.extent[1] + at[1]) * o.extent[2] + at[2]) * o.extent[3];
            for (std::int64_t c = 0; c < o.extent[3]; c++) out.push_back(values[n][static_cast<std::size_t>(first + c)]);
        }
    }
    double row_operations() const final { return 1; }  // the first row computes all rows

    const AttentionRecord &attention_;
    CaptureSet captures_;
    mutable BlockMask blocks_;  // kept from call to call, as in programs

private:
    mutable Values wide_, plain_;
};

template<typename W> std::vector<double> values_of(const bench::MappedArray &array) {
    return {array.as<W>(), array.as<W>() + array.bytes() / sizeof(W)};
}

template<typename T> class ForwardCase final : public UserCase {
public:
    ForwardCase(const AttentionRecord &attention, const Shape &s, const Captures &captures)
        : UserCase(attention, s, captures), in_(s) {
        add_output("out", s.dv, s.dtype);
    }

    Status call(Context &context, std::string_view variant) const override {
        return run_user_attention(context, attention_, in_.query_view(), in_.key_view(), in_.value_view(), output(0),
                                  in_.options(variant), captures_.arguments(shape().dtype), &blocks_);
    }
    std::vector<bench::Bytes> operands() const override {
        return {{in_.key.data(), in_.key.bytes()}, {in_.value.data(), in_.value.bytes()}};
    }
    std::vector<bench::Region> inputs() const override {
        std::vector<bench::Region> all = in_.regions(), captured = captures_.regions();
        all.insert(all.end(), captured.begin(), captured.end());
        return all;
    }

protected:
    Values reference(DType dtype) const override {
        return dtype == DType::f64 ? reference_in<double>() : reference_in<float>();
    }

private:
    template<typename W> Values reference_in() const {
        const Shape &s = shape();
        const bench::AttentionInputs<W> in = inputs_as<W>(in_);
        const bench::MappedArray out = array_of<W>(s.b * s.h * s.q * s.dv);
        const DType dtype = attune::dtype_of<W>();
        const std::string root = root_of(attention_.op, dtype, s.options);
        Context context;
        BlockMask blocks;
        require(run_user_attention(context, attention_, in.query_view(), in.key_view(), in.value_view(),
                                   View(out.template as<W>(), {s.b, s.h, s.q, s.dv}), in.options(root),
                                   captures_.arguments(dtype), &blocks));
        return {values_of<W>(out)};
    }

    bench::AttentionInputs<T> in_;
};

// Gradients by query, key and value, from out and log-sum-exp of one forward call.
template<typename T> class GradientCase final : public UserCase {
public:
    GradientCase(const AttentionRecord &attention, const Shape &s, const Captures &captures)
        : UserCase(attention, s, captures), in_(s), grad_out_(s.b * s.h * s.q * s.dv, 7),
          out_(array_of<T>(s.b * s.h * s.q * s.dv)), lse_(array_of<float>(s.b * s.h * s.q)) {
        add_output("grad_query", s.d, s.dtype);
        add_output("grad_key", {s.b, s.kv, s.k}, s.d, s.dtype);
        add_output("grad_value", {s.b, s.kv, s.k}, s.dv, s.dtype);
        SdpaOptions o = in_.options({});
        o.lse = View(lse_.as<float>(), {s.b, s.h, s.q});
        Context context;
        forward_ = run_user_attention(context, attention, in_.query_view(), in_.key_view(), in_.value_view(),
                                      View(out_.as<T>(), {s.b, s.h, s.q, s.dv}), o, captures_.arguments(s.dtype), &blocks_);
    }

    Status call(Context &context, std::string_view variant) const override {
        if (!forward_.ok()) return forward_;
        return gradients(context, in_, grad_out_.data(), out_.template as<T>(), lse_.as<float>(),
                         {.query = output(0), .key = output(1), .value = output(2)}, variant, shape().dtype, blocks_);
    }
    std::vector<bench::Region> inputs() const override {
        std::vector<bench::Region> all = in_.regions(), captured = captures_.regions();
        all.insert(all.end(), captured.begin(), captured.end());
        all.insert(all.end(), {region("grad_out", grad_out_), region("out", out_), region("lse", lse_)});
        return all;
    }

protected:
    Values reference(DType dtype) const override {
        return dtype == DType::f64 ? reference_in<double>() : reference_in<float>();
    }

private:
    template<typename W, typename L>
    Status gradients(Context &context, const bench::AttentionInputs<W> &in, const W *grad_out, const W *out, const L *lse,
                     const SdpaGradients &wanted, std::string_view variant, DType dtype, BlockMask &blocks) const {
        const Shape &s = shape();
        const SdpaForward forward{.out = ConstView(out, {s.b, s.h, s.q, s.dv}),
                                  .lse = ConstView(lse, {s.b, s.h, s.q}),
                                  .grad_out = ConstView(grad_out, {s.b, s.h, s.q, s.dv})};
        const std::vector<View> none(attention_.captures.size());
        return run_user_attention_backward(context, attention_, in.query_view(), in.key_view(), in.value_view(), forward,
                                           wanted, none, in.options(variant), captures_.arguments(dtype), &blocks);
    }
    template<typename W> Values reference_in() const {
        const Shape &s = shape();
        const bench::AttentionInputs<W> in = inputs_as<W>(in_);
        const std::int64_t rows = s.b * s.h * s.q;
        const bench::MappedArray grad_out = array_of<W>(rows * s.dv), out = array_of<W>(rows * s.dv), lse = array_of<W>(rows);
        convert<W, T>(grad_out, grad_out_), convert<W, T>(out, out_), convert<W, float>(lse, lse_);
        const bench::MappedArray query = array_of<W>(rows * s.d), key = array_of<W>(s.b * s.kv * s.k * s.d),
                                 value = array_of<W>(s.b * s.kv * s.k * s.dv);
        const SdpaGradients wanted{.query = View(query.template as<W>(), {s.b, s.h, s.q, s.d}),
                                   .key = View(key.template as<W>(), {s.b, s.kv, s.k, s.d}),
                                   .value = View(value.template as<W>(), {s.b, s.kv, s.k, s.dv})};
        const DType dtype = attune::dtype_of<W>();
        Context context;
        BlockMask blocks;
        require(gradients(context, in, grad_out.as<W>(), out.as<W>(), lse.as<W>(), wanted,
                          root_of(attention_.backward_op, dtype, s.options), dtype, blocks));
        return {values_of<W>(query), values_of<W>(key), values_of<W>(value)};
    }

    bench::AttentionInputs<T> in_;
    bench::Filled<T> grad_out_;
    bench::MappedArray out_, lse_;
    Status forward_;
};

template<typename T>
std::unique_ptr<bench::Case> make(const AttentionRecord &attention, bool backward, const Shape &s, const Captures &captures) {
    if (backward) return std::make_unique<GradientCase<T>>(attention, s, captures);
    return std::make_unique<ForwardCase<T>>(attention, s, captures);
}

}  // namespace

void load_attention(const std::string &module) {
    // The module registers itself, and is never unloaded.
    if (!dlopen(module.c_str(), RTLD_NOW | RTLD_LOCAL)) throw MachineError(module, dlerror());
}

std::unique_ptr<bench::Case> make_user_case(const std::string &op, const Shape &shape, const Captures &captures) {
    const AttentionRecord *attention = find_attention(op);
    if (!attention) throw InputError(op, "there is no such attention");
    Shape s = shape;
    s.op = "sdpa";
    const bool backward = op == attention->backward_op;
    switch (s.dtype) {
    case DType::f32: return make<float>(*attention, backward, s, captures);
    case DType::bf16: return make<bench::BFloat16>(*attention, backward, s, captures);
    case DType::f16: return make<bench::Float16>(*attention, backward, s, captures);
    default: throw InputError(op, "there is nothing more exact to compare f64 with: tune it in f32");
    }
}

std::unique_ptr<bench::Case> make_case(const std::string &op, const Shape &shape, const UserAttention &user) {
    return user ? make_user_case(op, shape, user.captures) : bench::make_case(shape);
}

std::vector<Shape> awkward_user_shapes(const VariantInfo &v, const Shape &tuned) {
    std::vector<Shape> all;
    const auto sizes = attune_test::awkward_sizes(v);
    std::set<std::pair<std::int64_t, std::int64_t>> taken;
    for (const auto &[queries, keys] : sizes) {
        Shape s = tuned;
        s.op = "sdpa", s.b = std::min<std::int64_t>(tuned.b, 2), s.lengths.clear(), s.options = {}, s.window = {};
        s.q = std::min(queries, tuned.q), s.k = std::min(keys, tuned.k);
        if (!taken.insert({s.q, s.k}).second) continue;
        const std::size_t n = all.size();
        s.causal = n % 2 == 1;
        if (n % 3 == 1) s.window.left = s.k / 2;
        for (std::int64_t b = 0; n % 4 == 2 && b < s.b; b++) s.lengths.push_back(static_cast<std::int32_t>(s.k * b / s.b));
        if (v.kind == "scored" || v.kind == "training")
            s.options = {
                .mask = n % 5 == 0, .bias = n % 5 == 1, .alibi = n % 5 == 2, .softcap = n % 5 == 3, .sinks = n % 5 == 4};
        s.options.dropout = v.kind == "training";
        all.push_back(s);
    }
    return all;
}

}  // namespace attune::tune
