// SPDX-License-Identifier: MIT
// Wiring only: parameters, inputs, outputs. The gradients of attention.
#include "generators/attention/backward/blocked_stages.h"
#include "generators/attention/equations/scores.h"
#include "generators/attention/equations/user_attention.h"
#include "generators/math/accumulator.h"
#include "generators/programs/dropout_inputs.h"
#include "generators/programs/sdpa_backward_forms.h"
#include "lowering/lower.h"

namespace {
using namespace Halide;
enum class Schedule {};  // a row of backward_forms()
enum class Kind { plain, scored, training };
enum class Pair { product, cosine, gaussian, additive };

std::map<std::string, Schedule> schedules() {
    std::map<std::string, Schedule> names;
    for (const attune::BackwardForm &form : attune::backward_forms()) names.emplace(form.schedule, Schedule(int(names.size())));
    return names;
}

class SdpaBackward : public Halide::Generator<SdpaBackward> {
public:
    GeneratorParam<Schedule> schedule_name{"schedule", Schedule(0), schedules()};
    GeneratorParam<Kind> kind{
        "kind", Kind::plain, {{"plain", Kind::plain}, {"scored", Kind::scored}, {"training", Kind::training}}};
    GeneratorParam<Pair> pair{
        "pair",
        Pair::product,
        {{"product", Pair::product}, {"cosine", Pair::cosine}, {"gaussian", Pair::gaussian}, {"additive", Pair::additive}}};
    GeneratorParam<bool> captures{"captures", false};  // the gradient of bias or of slopes alone
    GeneratorParam<bool> of_user{"of_user", false};    // the gradient of a user's capture alone
    GeneratorParam<Type> dtype{"dtype", Float(32)};
    GeneratorParam<int> head_dim{"head_dim", 0, 0, 1024};  // of query, key and value; 0: any sizes, known at run time
    GeneratorParam<int> tile_q{"tile_q", 64, 1, 1024};
    GeneratorParam<int> kv_block{"kv_block", 64, 1, 1024};
    GeneratorParam<int> query_tile{"query_tile", 4, 1, 64};
    GeneratorParam<int> key_vectors{"key_vectors", 4, 1, 16};
    GeneratorParam<int> row_tile{"row_tile", 8, 1, 64};
    GeneratorParam<int> channel_vectors{"channel_vectors", 2, 1, 16};
    GeneratorParam<int> term_queries{"term_queries", 4, 1, 64};  // of a block of terms that are no products
    GeneratorParam<int> term_keys{"term_keys", 4, 1, 64};
    GeneratorParam<int> block_queries{"block_queries", 8, 1, 64};  // sides of a block of a partial tile
    GeneratorParam<int> block_keys{"block_keys", 16, 1, 64};

    Input<Buffer<void, 3>> query{"query"}, grad_out{"grad_out"};
    Input<Buffer<void, 2>> key{"key"}, value{"value"}, row_lse{"row_lse"}, row_delta{"row_delta"};
    Input<Buffer<int32_t, 1>> lengths{"lengths"}, shortest{"shortest"}, longest{"longest"};
    Input<int32_t> band_begin{"band_begin"}, band_end{"band_end"}, offset{"offset"};
    Input<int32_t> first_query_tile{"first_query_tile"}, query_tiles{"query_tiles"}, first_key_tile{"first_key_tile"},
        key_tiles{"key_tiles"};
    Input<bool> wants_query{"wants_query"}, wants_key{"wants_key"}, wants_bias{"wants_bias"};
    Input<double> scale{"scale"};

    void configure() {
        for (auto *in : {&query, &grad_out}) in->set_type(dtype);
        for (auto *in : {&key, &value}) in->set_type(dtype);
        for (auto *in : {&row_lse, &row_delta}) in->set_type(accumulator());
        if (kind != Kind::plain) {
            softcap = add_input<double>("softcap");
            has_bias = add_input<bool>("has_bias"), bias = add_input<Buffer<>>("bias", static_cast<Type>(dtype), 3);
            has_alibi = add_input<bool>("has_alibi"), slopes = add_input<Buffer<>>("slopes", Float(32), 2);
            has_mask = add_input<bool>("has_mask"), mask = add_input<Buffer<>>("mask", UInt(8), 3);
        }
        if (kind == Kind::training) dropout_inputs.add_to(*this);
        if (pair == Pair::additive) {
            pair_weight = add_input<Buffer<>>("pair_weight", static_cast<Type>(dtype), 1);
            pair_bias = add_input<double>("pair_bias");
        }
        if (const attune::UserAttention *user = attune::user_attention()) {
            entry = add_input<int32_t>("entry"), key_head = add_input<int32_t>("key_head");
            head = add_input<int32_t>("head");
            if (user->mask) blocks = add_input<Buffer<>>("blocks", Int(32), 3);
            user_inputs.add_to(*this, accumulator());
        }
        if (of_user) {
            which = add_input<int32_t>("which");
            captured = add_output<Buffer<>>("captured", Float(64), 1);
            return;
        }
        if (captures) {
            before = add_input<Buffer<>>("before", accumulator(), 2);
            step = add_input<int32_t>("step"), keeps_queries = add_input<int32_t>("keeps_queries");
            grad_capture = add_output<Buffer<>>("grad_capture", accumulator(), 2);
            return;
        }
        grad_query = add_output<Buffer<>>("grad_query", static_cast<Type>(dtype), 3);
        grad_key = add_output<Buffer<>>("grad_key", static_cast<Type>(dtype), 2);
        grad_value = add_output<Buffer<>>("grad_value", static_cast<Type>(dtype), 2);
        // (j, i, h), of the tiles
        if (gives_bias()) grad_bias = add_output<Buffer<>>("grad_bias", static_cast<Type>(dtype), 3);
        if (pair == Pair::additive) grad_weight = add_output<Buffer<>>("grad_weight", accumulator(), 2);  // (d, t)
    }

    void generate() {
        attune::BackwardInputs in;
        in.query = query, in.grad_out = grad_out, in.key = key, in.value = value, in.row_lse = row_lse,
        in.row_delta = row_delta;
        in.lengths = lengths, in.shortest = shortest, in.longest = longest;
        in.band_begin = band_begin, in.band_end = band_end, in.offset = offset, in.scale = scale;
        in.queries = query.dim(1).extent(), in.keys = key.dim(1).extent(), in.heads = query.dim(2).extent();
        in.head_dim = head_dim == 0 ? query.dim(0).extent() : Expr(head_dim);
        in.value_dim = head_dim == 0 ? value.dim(0).extent() : Expr(head_dim);
        in.first_query_tile = first_query_tile, in.query_tiles = query_tiles;
        in.first_key_tile = first_key_tile, in.key_tiles = key_tiles, in.wants_query = wants_query, in.wants_key = wants_key;
        if (grad_bias) in.wants_bias = wants_bias;
        in.dropout = dropout_inputs.dropout();
        if (blocks) in.blocks = *blocks;
        attune::Score score = steps();
        numerics = form().numerics({dtype, accumulator(), tile_q, kv_block, term_queries, term_keys}, target);
        const attune::BackwardHints hints = form().hints(parameters(), accumulator(), head_dim);
        if (pair == Pair::additive) score.pair = attune::additive_pair({*pair_weight, *pair_bias}, accumulator());
        if (pair == Pair::gaussian) score.pair = attune::gaussian_pair(accumulator());
        if (pair == Pair::cosine) score.pair.unit_rows = true;
        if (captured) {
            stages = attune::captured_stages(in, numerics, hints, score, {user_inputs.buffers(), *which});
            *captured = stages.captured;
            return;
        }
        if (captures) {
            stages = attune::capture_stages(in, numerics, hints, score,
                                            {*before, before->dim(0).extent(), before->dim(1).extent(), *step, *keeps_queries});
            *grad_capture = stages.capture_out;
            return;
        }
        stages = attune::backward_stages(in, numerics, hints, score);
        *grad_query = stages.query_out, *grad_key = stages.key_out, *grad_value = stages.value_out;
        if (grad_bias) *grad_bias = stages.bias_out;
        if (grad_weight) *grad_weight = stages.weight_out;
    }

    void schedule() {
        attune::lower(get_pipeline(), {.join_amx_tiles = numerics.amx_tiles, .whole_vectors = true}, target);
        for (auto *in : {&query, &grad_out})
            for (int n = 0; n < 3; n++) in->dim(n).set_min(0);
        for (auto *in : {&key, &value, &row_lse, &row_delta})
            for (int n = 0; n < 2; n++) in->dim(n).set_min(0);
        for (auto *in : {&lengths, &shortest, &longest}) in->dim(0).set_min(0).set_stride(Expr());
        if (kind != Kind::plain) {
            for (auto *in : {bias, mask})
                for (int n = 0; n < 3; n++) in->dim(n).set_min(0);
            slopes->dim(0).set_min(0).set_stride(Expr());
            slopes->dim(1).set_min(0);
        }
        if (head_dim != 0) {
            for (auto *in : {&query, &grad_out}) in->dim(0).set_extent(head_dim);
            for (auto *in : {&key, &value}) in->dim(0).set_extent(head_dim);
        }
        if (pair_weight) pair_weight->dim(0).set_min(0);
        if (blocks)
            for (int n = 0; n < 3; n++) blocks->dim(n).set_min(0).set_stride(n == 0 ? Expr(1) : Expr());
        user_inputs.constrain();
        if (captured) {
            captured->dim(0).set_min(0);
            return form().captured(stages, *captured, parameters(), target);
        }
        if (captures) {
            for (int n = 0; n < 2; n++) before->dim(n).set_min(0), grad_capture->dim(n).set_min(0);
            return form().capture(stages, *grad_capture, parameters(), target);
        }
        for (auto *out : {grad_query, grad_key, grad_value}) {
            for (int n = 0; n < out->dimensions(); n++) out->dim(n).set_min(0);
            if (head_dim != 0) out->dim(0).set_extent(head_dim);
        }
        std::vector<Func> outputs = {*grad_query, *grad_key, *grad_value};
        if (grad_bias) {
            for (int n = 0; n < 3; n++) grad_bias->dim(n).set_min(0);
            outputs.push_back(*grad_bias);
        }
        if (grad_weight) {
            for (int n = 0; n < 2; n++) grad_weight->dim(n).set_min(0);
            outputs.push_back(*grad_weight);
        }
        form().gradients(stages, outputs, parameters(), target, head_dim);
    }

private:
    Input<Buffer<>> *bias = nullptr, *slopes = nullptr, *mask = nullptr, *before = nullptr, *pair_weight = nullptr,
                    *blocks = nullptr;
    Input<int32_t> *step = nullptr, *keeps_queries = nullptr, *entry = nullptr, *key_head = nullptr, *head = nullptr,
                   *which = nullptr;
    Input<bool> *has_bias = nullptr, *has_alibi = nullptr, *has_mask = nullptr;
    Input<double> *softcap = nullptr, *pair_bias = nullptr;
    attune::DropoutInputs<double> dropout_inputs;
    Output<Buffer<>> *grad_query = nullptr, *grad_key = nullptr, *grad_value = nullptr, *grad_capture = nullptr,
                     *grad_bias = nullptr, *grad_weight = nullptr, *captured = nullptr;
    attune::UserInputs user_inputs;
    attune::BackwardNumerics numerics;
    attune::BackwardStages stages;

    const attune::BackwardForm &form() const { return attune::backward_forms()[std::size_t(Schedule(schedule_name))]; }
    attune::BackwardParameters parameters() const {
        return {tile_q,          kv_block,     query_tile, key_vectors,   row_tile,
                channel_vectors, term_queries, term_keys,  block_queries, block_keys};
    }

    // Computed with the other gradients, where pairs are computed once for all. Users' attention has captures instead.
    bool gives_bias() const {
        return kind != Kind::plain && !captures && (pair == Pair::product || pair == Pair::cosine) && !attune::user_attention();
    }
    attune::Score steps() {
        attune::Score score;
        const attune::UserAttention *user = attune::user_attention();
        user_inputs.connect();
        // Heads of the kernel count from the first head of the task.
        const auto global = [this](const attune::Index &at) {
            attune::Index of_call = at;
            of_call.b = *entry, of_call.h = *head + at.h, of_call.key_head = *key_head;
            return user_inputs.global()(of_call);
        };
        if (kind != Kind::plain)
            score.steps = {attune::softcap_step(*softcap, accumulator()), attune::bias_step(*bias, *has_bias),
                           attune::alibi_step(*slopes, *has_alibi, accumulator())};
        if (user) user->add_score(score, global);
        if (kind != Kind::plain) score.steps.push_back(attune::mask_step(*mask, *has_mask));
        if (user) user->add_mask(score, global);
        return score;
    }

    Type accumulator() const { return attune::accumulator_of(dtype); }
};
}  // namespace

HALIDE_REGISTER_GENERATOR(SdpaBackward, sdpa_backward)
