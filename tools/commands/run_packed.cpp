// SPDX-License-Identifier: MIT
// attune run varlen and its gradients.
#include "attune/varlen_backward.h"
#include "tools/calls/gradient.h"
#include "tools/error.h"

namespace attune::program {
namespace {

// The inputs and options of a packed batch, read from files.
class PackedBatch {
public:
    PackedBatch(const VariableLengthArguments &given, CommandFiles &files) : options(options_of(given.attention)) {
        const AttentionArguments &a = given.attention;
        options.score = score_of(given.score);
        files.input("--query", a.query, query, rows);
        files.input("--key", a.key, key, rows);
        files.input("--value", a.value, value, rows);
        files.input("--cu-seqlens-q", given.cu_seqlens_q, ends_q_, ends_, Role::integers);
        files.input("--cu-seqlens-k", given.cu_seqlens_k, ends_k_, ends_, Role::integers);
        if (a.offset && !options.offset) files.input("--offset", a.offset, offsets_, {1, 1, "(B,)"}, Role::integers);
        if (a.alibi && !options.alibi) files.input("--alibi", a.alibi, alibi, {1, 2, "(Hq,) or (B, Hq)"}, Role::single_floats);
        files.input("--sinks", a.sinks, sinks, {1, 1, "(Hq,)"}, Role::single_floats);
    }
    // After files.load().
    void add_arrays() {
        options.offsets = view_of(offsets_), options.alibi_slopes = view_of(alibi), options.sinks = view_of(sinks);
    }
    Status forward(Context &context, Array &out, const SdpaOptions &with_lse) const {
        return variable_length_attention(context, view_of(query), view_of(key), view_of(value), ends_q(), ends_k(),
                                         output_view(out), with_lse);
    }
    ConstView ends_q() const { return view_of(ends_q_); }
    ConstView ends_k() const { return view_of(ends_k_); }

    static constexpr Ranks rows{3, 3, "(T, H, D)"};
    SdpaOptions options;
    Array query, key, value, alibi, sinks;

private:
    static constexpr Ranks ends_{1, 1, "(B + 1,)"};
    Array ends_q_, ends_k_, offsets_;
};

}  // namespace

void run_variable_length(const VariableLengthArguments &given) {
    const AttentionArguments &a = given.attention;
    const ContextOptions resources = context_options(a.call);
    CommandFiles files(a.call);
    PackedBatch batch(given, files);
    files.output("--out", a.out);
    files.output("--lse", a.lse);
    files.load();
    batch.add_arrays();

    Context context(resources);
    check(context.status());
    const std::int64_t total = batch.query.shape[0], heads = batch.query.shape[1];
    Array out = zeroed_array("--out", files.type(), {total, heads, batch.value.shape[2]}), lse;
    if (a.lse) {
        lse = zeroed_array("--lse", files.sum_type(), {heads, total});
        batch.options.lse = output_view(lse);
    }
    check(batch.forward(context, out, batch.options));
    files.write("--out", out);
    if (a.lse) files.write("--lse", lse);
    files.commit();
}

void run_variable_length_backward(const VariableLengthBackwardArguments &given) {
    Gradient query{"--grad-query", given.grad_query}, key{"--grad-key", given.grad_key},
        value{"--grad-value", given.grad_value}, slopes{"--grad-slopes", given.grad_slopes},
        sinks{"--grad-sinks", given.grad_sinks};
    const std::initializer_list<Gradient *> gradients = {&query, &key, &value, &slopes, &sinks};
    if (given.in_out && !given.in_lse) throw InputError("--in-out", "needs --in-lse");
    if (given.in_lse && !given.in_out) throw InputError("--in-lse", "needs --in-out");
    const CallArguments &call = given.packed.attention.call;
    const ContextOptions resources = context_options(call);
    CommandFiles files(call);
    PackedBatch batch(given.packed, files);
    const Ranks sums{2, 2, "(Hq, Tq)"};
    Array grad_out, grad_lse, out, lse;
    files.input("--grad-out", given.grad_out, grad_out, PackedBatch::rows);
    files.input("--grad-lse", given.grad_lse, grad_lse, sums, Role::sums);
    files.input("--in-out", given.in_out, out, PackedBatch::rows);
    files.input("--in-lse", given.in_lse, lse, sums, Role::sums);
    name_outputs(files, gradients);
    files.load();
    batch.add_arrays();

    const ElementType type = files.type();
    const SdpaOptions &options = batch.options;
    const std::int64_t total = batch.query.shape[0], heads = batch.query.shape[1];
    SdpaGradients wanted;
    wanted.query = query.make("--query", true, type, batch.query.shape, 3);
    wanted.key = key.make("--key", true, type, batch.key.shape, 3);
    wanted.value = value.make("--value", true, type, batch.value.shape, 3);
    wanted.alibi_slopes = slopes.make("--alibi", options.alibi || batch.alibi.rank() > 0, ElementType::f32,
                                      options.alibi ? Shape{heads} : batch.alibi.shape, 2);
    wanted.sinks = sinks.make("--sinks", batch.sinks.rank() > 0, ElementType::f32, batch.sinks.shape, 1);
    for (Gradient *g : gradients) clear(g->array);

    Context context(resources);
    check(context.status());
    if (!given.in_out) {
        lse = zeroed_array("--grad-out", files.sum_type(), {heads, total});
        out = zeroed_array("--grad-out", type, {total, heads, batch.value.shape[2]});
        SdpaOptions forward = options;
        forward.lse = output_view(lse), forward.variant = {};
        check(batch.forward(context, out, forward));
    }
    const SdpaForward forward{view_of(out), view_of(lse), view_of(grad_out), view_of(grad_lse)};
    check(variable_length_attention_backward(context, view_of(batch.query), view_of(batch.key), view_of(batch.value),
                                             batch.ends_q(), batch.ends_k(), forward, wanted, options));
    write_all(files, gradients);
}

}  // namespace attune::program
