// SPDX-License-Identifier: MIT
// Wiring only: parameters, inputs, outputs. All kinds of kernels of all attentions of the library.
#include "generators/attention/equations/scores.h"
#include "generators/attention/equations/user_attention.h"
#include "generators/attention/forward/quantised_rows.h"
#include "generators/math/accumulator.h"
#include "generators/programs/dropout_inputs.h"
#include "generators/programs/sdpa_forms.h"
#include "lowering/require.h"
#include <optional>

namespace {
using namespace Halide;
enum class Schedule {};  // a row of sdpa_forms()
enum class Cache { dense, pages, int8, int4 };
enum class Kind { plain, scored, training, weights };
enum class Pair { dot_product, cosine, gaussian, additive, additive_separable };

std::map<std::string, Schedule> schedules() {
    std::map<std::string, Schedule> names;
    for (const attune::NamedForm &form : attune::sdpa_forms()) names.emplace(form.schedule, Schedule(int(names.size())));
    return names;
}

class Sdpa : public Halide::Generator<Sdpa> {
public:
    GeneratorParam<Schedule> schedule_name{"schedule", Schedule(0), schedules()};
    GeneratorParam<Kind> kind{
        "kind",
        Kind::plain,
        {{"plain", Kind::plain}, {"scored", Kind::scored}, {"training", Kind::training}, {"weights", Kind::weights}}};
    GeneratorParam<Pair> pair{"pair",
                              Pair::dot_product,
                              {{"dot_product", Pair::dot_product},
                               {"cosine", Pair::cosine},
                               {"gaussian", Pair::gaussian},
                               {"additive", Pair::additive},
                               {"additive_separable", Pair::additive_separable}}};
    GeneratorParam<Type> dtype{"dtype", Float(32)};
    GeneratorParam<int> head_dim{"head_dim", 0, 0, 1024};  // of query, key and value; 0: any sizes, known at run time
    GeneratorParam<int> kv_block{"kv_block", 128, 1, 1 << 20};
    GeneratorParam<int> tile_q{"tile_q", 0, 0, 1024};
    GeneratorParam<int> key_tile{"key_tile", 4, 1, 64};
    GeneratorParam<int> channel_tile{"channel_tile", 4, 1, 64};
    GeneratorParam<int> value_block{"value_block", 8, 1, 1024};
    GeneratorParam<int> value_rows{"value_rows", 0, 0, 1024};
    GeneratorParam<int> prefetch_keys{"prefetch_keys", 0, 0, 1024};
    GeneratorParam<int> prefetch_tiles{"prefetch_tiles", 0, 0, 1};
    GeneratorParam<int> prefetch_queries{"prefetch_queries", 0, 0, 1};
    GeneratorParam<int> prefetch_tables{"prefetch_tables", 0, 0, 1};
    // Rows of keys and values: in order, or where row_shift says; then also quantised.
    GeneratorParam<Cache> cache{
        "cache",
        Cache::dense,
        {{"dense", Cache::dense}, {"pages", Cache::pages}, {"int8", Cache::int8}, {"int4", Cache::int4}}};
    GeneratorParam<int> kv_subblock{"kv_subblock", 0, 0, 1024};  // 0: key_tile

    Input<Buffer<void, 4>> query{"query"}, key{"key"};
    Input<Buffer<int32_t, 1>> band_begin{"band_begin"}, band_end{"band_end"}, offset{"offset"};
    Input<Buffer<int32_t, 2>> lengths{"lengths"}, shortest{"shortest"}, longest{"longest"};
    Input<double> scale{"scale"};

    void configure() {
        const Type stored = cache == Cache::int8 ? Int(8) : cache == Cache::int4 ? UInt(8) : static_cast<Type>(dtype);
        query.set_type(dtype), key.set_type(stored);
        if (cache != Cache::dense) {
            row_shift = add_input<Buffer<>>("row_shift", Int(32), 2);
            keys = add_input<int32_t>("keys");
            heads_of_task = add_input<int32_t>("heads_of_task");
        }
        if (kind != Kind::weights) value = add_input<Buffer<>>("value", stored, 4);
        if (cache == Cache::int8 || cache == Cache::int4) {
            of_keys.scale_f16 = add_input<Buffer<>>("key_scale_f16", Float(16), 4);
            of_values.scale_f16 = add_input<Buffer<>>("value_scale_f16", Float(16), 4);
        }
        if (cache == Cache::int8) {
            of_keys.scale_f32 = add_input<Buffer<>>("key_scale_f32", Float(32), 4);
            of_values.scale_f32 = add_input<Buffer<>>("value_scale_f32", Float(32), 4);
            of_keys.is_f16 = add_input<bool>("key_scale_is_f16"), of_values.is_f16 = add_input<bool>("value_scale_is_f16");
        }
        if (cache == Cache::int4) {
            of_keys.minimum = add_input<Buffer<>>("key_minimum", Float(16), 4);
            of_values.minimum = add_input<Buffer<>>("value_minimum", Float(16), 4);
            of_keys.blocks = add_input<int32_t>("key_blocks_of_group");
            of_values.blocks = add_input<int32_t>("value_blocks_of_group");
        }
        if (is_additive()) {
            pair_weight = add_input<Buffer<>>("pair_weight", dtype, 1);
            pair_bias = add_input<double>("pair_bias");
        }
        if (kind != Kind::plain) {
            softcap = add_input<double>("softcap");
            has_bias = add_input<bool>("has_bias"), bias = add_input<Buffer<>>("bias", dtype, 4);
            has_alibi = add_input<bool>("has_alibi"), slopes = add_input<Buffer<>>("slopes", Float(32), 2);
            has_mask = add_input<bool>("has_mask"), mask = add_input<Buffer<>>("mask", UInt(8), 4);
            has_sinks = add_input<bool>("has_sinks"), sinks = add_input<Buffer<>>("sinks", Float(32), 1);
        }
        if (kind != Kind::weights) finite_values = add_input<Buffer<>>("finite_values", Int(32), 1);
        if (kind == Kind::training) dropout_inputs.add_to(*this);
        if (kind == Kind::weights) probabilities = add_input<bool>("probabilities");
        if (const attune::UserAttention *user = attune::user_attention()) {
            if (user->mask) blocks = add_input<Buffer<>>("blocks", Int(32), 4);
            user_inputs.add_to(*this, accumulator());
        }
        if (kind == Kind::weights) {
            out = add_output<Func>("out", static_cast<Type>(dtype), 4);
        } else {
            // lse is the second value of out: the runtime gives it stride 0 along d.
            out = add_output<Func>("out", {dtype, accumulator()}, 4);
        }
    }

    void generate() {
        attune::require(cache == Cache::dense || named_form().reads_pages, "pages are for decode");
        attune::require(cache != Cache::int4 || head_dim % 32 == 0, "rows of int4 have blocks of 32 channels");
        form = named_form().make(kernel(), parameters(), target);
        attune::SdpaInputs in = inputs();
        *out = form.stages(in, score_of(in));
    }

    void schedule() {
        constrain_layout();
        attune::require(prefetch_tiles == 0 || form.fetches_tiles, "prefetch_tiles is for prefill");
        attune::require(prefetch_queries == 0 || form.fetches_tiles, "prefetch_queries is for prefill");
        attune::require(prefetch_tables == 0 || (form.fetches_tables && bias),
                        "prefetch_tables is for prefill and bf16_dot of a kind that has a bias");
        attune::Passes passes;
        attune::SdpaTensors tensors{query, key, {}, {}, in_value_dim(), {}, {}};
        if (value) tensors.value = *value;
        if (row_shift) tensors.row_shift = *row_shift, tensors.heads_of_task = *heads_of_task;
        if (prefetch_tables)
            tensors.fetched_tables = {{*bias, Func(*bias).name(), *has_bias}, {*mask, Func(*mask).name(), *has_mask}};
        if (using_autoscheduler())
            set_estimates();
        else
            form.schedule(*out, tensors, passes);
        passes.whole_vectors = passes.pin_stack_slots = true;
        if (head_dim == 0) passes.masked_tail_loads = {query, key};
        if (head_dim == 0 && value) passes.masked_tail_loads.push_back(*value);
        attune::lower(get_pipeline(), passes, target);
    }

private:
    // Inputs of quantised keys, or values.
    struct Scales {
        Input<Buffer<>> *scale_f32 = nullptr, *scale_f16 = nullptr, *minimum = nullptr;
        Input<bool> *is_f16 = nullptr;
        Input<int32_t> *blocks = nullptr;
    };
    Scales of_keys, of_values;
    Input<Buffer<>> *value = nullptr, *pair_weight = nullptr, *bias = nullptr, *slopes = nullptr, *mask = nullptr,
                    *sinks = nullptr, *finite_values = nullptr, *blocks = nullptr, *row_shift = nullptr;
    Input<int32_t> *keys = nullptr, *heads_of_task = nullptr;
    Input<bool> *has_bias = nullptr, *has_alibi = nullptr, *has_mask = nullptr, *has_sinks = nullptr, *probabilities = nullptr;
    Input<double> *pair_bias = nullptr, *softcap = nullptr;
    attune::DropoutInputs<double> dropout_inputs;
    Output<Func> *out = nullptr;
    attune::UserInputs user_inputs;
    attune::SdpaForm form;

    const attune::NamedForm &named_form() const { return attune::sdpa_forms()[std::size_t(Schedule(schedule_name))]; }
    Type accumulator() const { return attune::accumulator_of(dtype); }
    attune::SdpaParameters parameters() const {
        return {kv_block,    tile_q,     key_tile,      channel_tile,        kv_subblock == 0 ? key_tile : kv_subblock,
                value_block, value_rows, prefetch_keys, prefetch_tiles != 0, prefetch_queries != 0};
    }
    attune::SdpaKernel kernel() const {
        const attune::UserAttention *user = attune::user_attention();
        attune::SdpaKernel kernel{dtype, accumulator(), head_dim, kind != Kind::plain, is_additive(), false, {}};
        kernel.bf16_products = static_cast<Type>(dtype).is_bfloat() && pair == Pair::dot_product && kind != Kind::training &&
                               !(user && user->probability);
        kernel.int8_rows = cache == Cache::int8;
        if (probabilities) kernel.probabilities = *probabilities;
        return kernel;
    }
    bool is_additive() const { return pair == Pair::additive || pair == Pair::additive_separable; }
    Expr in_value_dim() const {
        if (head_dim != 0) return Expr(head_dim);
        return value ? value->dim(0).extent() : Expr(1);
    }

    attune::SdpaInputs inputs() {
        attune::SdpaInputs in;
        in.query = query, in.key = key;
        if (value) in.value = *value;
        if (row_shift) in.key = rows_of("key_row", key, of_keys), in.value = rows_of("value_row", *value, of_values);
        if (attune::decode_takes_int8(kernel())) {
            in.key_scale = scales_of("key_row_scale", key, of_keys);
            in.value_scale = scales_of("value_row_scale", *value, of_values);
        }
        in.band_begin = band_begin, in.band_end = band_end, in.offset = offset, in.lengths = lengths;
        in.shortest = shortest, in.longest = longest;
        in.scale = scale;
        in.queries = query.dim(1).extent(), in.keys = keys ? Expr(*keys) : key.dim(1).extent();
        in.query_heads = query.dim(2).extent(), in.key_heads = key.dim(2).extent();
        in.head_dim = head_dim == 0 ? query.dim(0).extent() : Expr(head_dim);
        in.value_dim = in_value_dim();
        if (sinks) in.sinks = *sinks, in.has_sinks = *has_sinks;
        if (finite_values && form.hints.asks_finite_values) in.finite_values = *finite_values;
        if (blocks) in.blocks = *blocks;
        in.dropout = dropout_inputs.dropout();
        return in;
    }

    template<typename Tensor> Func rows_of(const std::string &name, Tensor &tensor, const Scales &s) {
        const Func shift = *row_shift;
        const Expr rows = tensor.dim(1).extent();
        if (attune::decode_takes_int8(kernel())) return attune::placed_rows(name, tensor, shift, rows);
        switch (cache) {
        case Cache::int8: return attune::int8_rows(name, tensor, {*s.scale_f32, *s.scale_f16, *s.is_f16}, shift, rows);
        case Cache::int4: return attune::int4_rows(name, tensor, {*s.scale_f16, *s.minimum, *s.blocks}, shift, rows);
        default: return attune::placed_rows(name, tensor, shift, rows);
        }
    }

    template<typename Tensor> Func scales_of(const std::string &name, Tensor &tensor, const Scales &s) {
        return attune::int8_scales(name, {*s.scale_f32, *s.scale_f16, *s.is_f16}, *row_shift, tensor.dim(1).extent());
    }

    attune::PairTerm pair_term(attune::SdpaInputs &in) {
        attune::AdditiveInputs additive;
        if (is_additive()) additive = {*pair_weight, *pair_bias};
        switch (pair) {
        case Pair::cosine: return attune::cosine_pair(in.query, in.key, in.head_dim, accumulator(), named_form().parts_keys);
        case Pair::gaussian: return attune::gaussian_pair(accumulator());
        case Pair::additive: return attune::additive_pair(additive, accumulator());
        case Pair::additive_separable: return attune::additive_separable_pair(additive, accumulator());
        default: return {};
        }
    }

    attune::Score score_of(attune::SdpaInputs &in) {
        attune::Score score{pair_term(in), {}, {}};
        const attune::UserAttention *user = attune::user_attention();
        score.scaled_first = user || pair != Pair::dot_product;
        user_inputs.connect();
        if (kind != Kind::plain)
            score.steps = {attune::softcap_step(*softcap, accumulator()), attune::bias_step(*bias, *has_bias),
                           attune::alibi_step(*slopes, *has_alibi, accumulator())};
        if (user) user->add_score(score, user_inputs.global());
        if (kind != Kind::plain) score.steps.push_back(attune::mask_step(*mask, *has_mask));
        if (user) user->add_mask(score, user_inputs.global());
        return score;
    }

    void constrain_layout() {
        auto constrain = [&](auto &in, int dimensions) {
            for (int n = 0; n < dimensions; n++) in.dim(n).set_min(0);
        };
        constrain(query, 4), constrain(key, 4);
        const int stored = cache == Cache::int4 ? head_dim / 2 : int(head_dim);
        if (head_dim != 0) query.dim(0).set_extent(head_dim), key.dim(0).set_extent(stored);
        if (value) {
            constrain(*value, 4);
            if (head_dim != 0) value->dim(0).set_extent(stored);
        }
        for (const Scales *s : {&of_keys, &of_values})
            for (auto *in : {s->scale_f32, s->scale_f16, s->minimum})
                if (in) constrain(*in, 4);
        for (auto *in : {&band_begin, &band_end, &offset}) in->dim(0).set_min(0).set_stride(Expr());
        for (auto *in : {&lengths, &shortest, &longest}) {
            constrain(*in, 2);
            in->dim(0).set_stride(Expr());
        }
        if (row_shift) {
            constrain(*row_shift, 2);
            row_shift->dim(0).set_stride(Expr());
        }
        if (pair_weight) constrain(*pair_weight, 1);
        if (finite_values) constrain(*finite_values, 1);
        if (blocks) {
            constrain(*blocks, 4);
            for (int n = 1; n < 4; n++) blocks->dim(n).set_stride(Expr());
        }
        user_inputs.constrain();
        if (kind != Kind::plain) {
            constrain(*bias, 4), constrain(*mask, 4), constrain(*slopes, 2), constrain(*sinks, 1);
            slopes->dim(0).set_stride(Expr()), sinks->dim(0).set_stride(Expr());
        }
        auto outputs = static_cast<Func>(*out).output_buffers();
        for (int n = 0; n < 4; n++) outputs[0].dim(n).set_min(0);
        if (kind == Kind::weights) return;
        if (head_dim != 0) outputs[0].dim(0).set_extent(head_dim);
        outputs[1].dim(0).set_stride(0);
    }

    // The shape for which the autoscheduled baselines are made.
    void set_estimates() {
        const int d = head_dim == 0 ? 64 : int(head_dim), s = 1024, heads = 8, batch = 1;
        for (auto *in : {&query, &key}) in->set_estimates({{0, d}, {0, s}, {0, heads}, {0, batch}});
        value->set_estimates({{0, d}, {0, s}, {0, heads}, {0, batch}});
        for (auto *in : {&band_begin, &band_end, &offset}) in->set_estimates({{0, batch}});
        for (auto *in : {&lengths, &shortest, &longest}) in->set_estimates({{0, s}, {0, batch}});
        finite_values->set_estimates({{0, batch}});
        scale.set_estimate(0.125);
        static_cast<Func>(*out).set_estimates({{0, d}, {0, s}, {0, heads}, {0, batch}});
    }
};
}  // namespace

HALIDE_REGISTER_GENERATOR(Sdpa, sdpa)
