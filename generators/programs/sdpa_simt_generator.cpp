// SPDX-License-Identifier: MIT
// Wiring only: attention in the forms of simt_stages.h and mma_stages.h, and its gradients in those of simt_gradient_stages.h
// and mma_gradient_stages.h. Inputs differ from sdpa_generator.cpp, because no argument may be computed or copied from host
// memory here: bands are numbers, lengths and offsets the caller's.
#include "generators/attention/backward/row_stages.h"
#include "generators/attention/equations/scores.h"
#include "generators/attention/equations/user_attention.h"
#include "generators/math/bf16_bits.h"
#include "generators/programs/dropout_inputs.h"
#include "generators/programs/pair_outputs.h"
#include "generators/programs/quantised_inputs.h"
#include "lowering/lower.h"
#include "lowering/require.h"
#include "schedules/sdpa/mma_schedules.h"

namespace {
using namespace Halide;
// A form, SIMT or MMA, with or without splits of the keys.
struct Form {
    const char *schedule;
    bool mma, splits;
};
constexpr Form forms[] = {{"simt", false, false}, {"split", false, true}, {"mma", true, false}, {"mma_split", true, true}};
enum class Schedule {};  // a row of `forms`
std::map<std::string, Schedule> schedules() {
    std::map<std::string, Schedule> names;
    for (const Form &form : forms) names.emplace(form.schedule, Schedule(int(names.size())));
    return names;
}
enum class Kind { plain, scored, training, weights };  // training: scored, with dropout; weights: of scored ones, alone
enum class Pair { dot_product, additive };
enum class Cache { dense, pages, int8, int4 };  // int8, int4: pages of quantised rows

class SdpaSimt : public Halide::Generator<SdpaSimt> {
public:
    GeneratorParam<Schedule> schedule_name{"schedule", Schedule(0), schedules()};
    GeneratorParam<Kind> kind{
        "kind",
        Kind::plain,
        {{"plain", Kind::plain}, {"scored", Kind::scored}, {"training", Kind::training}, {"weights", Kind::weights}}};
    GeneratorParam<bool> gradients{"gradients", false};
    GeneratorParam<bool> of_captures{"of_captures", false};  // with gradients: that of a user's captured buffer, by simt
    GeneratorParam<bool> captures{"captures", false};        // with gradients: those of bias and slopes, by simt
    GeneratorParam<Pair> pair{"pair", Pair::dot_product, {{"dot_product", Pair::dot_product}, {"additive", Pair::additive}}};
    GeneratorParam<Cache> cache{
        "cache",
        Cache::dense,
        {{"dense", Cache::dense}, {"pages", Cache::pages}, {"int8", Cache::int8}, {"int4", Cache::int4}}};
    GeneratorParam<Type> dtype{"dtype", Float(32)};
    GeneratorParam<int> head_dim{"head_dim", 0, 0, 256};  // of query, key and value; 0: any sizes up to `channels`
    GeneratorParam<int> channels{"channels", 0, 0, 256};  // 0: head_dim
    GeneratorParam<int> kv_block{"kv_block", 8, 1, 64};
    GeneratorParam<int> tile_q{"tile_q", 128, 1, 1024};             // split: of the rows of a key head
    GeneratorParam<int> split_keys{"split_keys", 128, 1, 1 << 20};  // split: keys of a split
    GeneratorParam<int> lane_rows{"lane_rows", 4, 1, 16};
    GeneratorParam<int> stage_resident{"stage_resident", 0, 0,
                                       1};  // mma: rows of the block in shared memory (1) or in registers
    GeneratorParam<int> channel_lanes{"channel_lanes", 4, 1, 32};

    Input<Buffer<void, 4>> query{"query"}, key{"key"}, value{"value"};
    Input<float> scale{"scale"};
    // Keys of query i of batch entry b: [i + offset + band_begin, i + offset + band_end), where offset is the band's and not
    // ALiBi's; and below the length. Offset and length are table element plus number, or the number alone without a table.
    Input<int32_t> band_begin{"band_begin"}, band_end{"band_end"}, offset{"offset"}, length{"length"};
    Input<bool> has_offsets{"has_offsets"}, has_lengths{"has_lengths"};
    Input<Buffer<int32_t, 1>> offsets{"offsets"};
    Input<Buffer<int32_t, 2>> lengths{"lengths"};

    void configure() {
        query.set_type(held());
        for (auto *rows_of_keys : {&key, &value})
            rows_of_keys->set_type(cache == Cache::int8 ? Int(8) : cache == Cache::int4 ? UInt(8) : held());
        if (cache != Cache::dense) {
            block_table = add_input<Buffer<>>("block_table", Int(32), 2);
            of_pages.add_to(*this, {"keys", "pages", "page_bits", "page_stride"});
        }
        if (cache == Cache::int8) quantised_inputs.add_int8_to(*this);
        if (cache == Cache::int4) quantised_inputs.add_int4_to(*this);
        if (pair == Pair::additive) {
            has_pair_weight = add_input<bool>("has_pair_weight");
            pair_weight = add_input<Buffer<>>("pair_weight", Float(32), 1);  // (d), any stride
            pair_bias = add_input<float>("pair_bias");
        }
        if (by_mma())
            query_address = add_input<uint64_t>("query_address"), key_address = add_input<uint64_t>("key_address"),
            value_address = add_input<uint64_t>("value_address");
        if (scored()) {
            softcap = add_input<float>("softcap");
            has_bias = add_input<bool>("has_bias"), bias = add_input<Buffer<>>("bias", held(), 4);
            has_alibi = add_input<bool>("has_alibi"), slopes = add_input<Buffer<>>("slopes", Float(32), 2);
            has_mask = add_input<bool>("has_mask"), mask = add_input<Buffer<>>("mask", UInt(8), 4);
            has_sinks = add_input<bool>("has_sinks"), sinks = add_input<Buffer<>>("sinks", Float(32), 1);
        }
        if (kind == Kind::training) dropout_inputs.add_to(*this);
        user_inputs.add_to(*this, Float(32));
        if (gradients) {
            forward_out = add_input<Buffer<>>("forward_out", held(), 4);
            grad_out = add_input<Buffer<>>("grad_out", held(), 4);
            lse = add_input<Buffer<>>("lse", Float(32), 3);
            has_grad_lse = add_input<bool>("has_grad_lse"), grad_lse = add_input<Buffer<>>("grad_lse", Float(32), 3);
            if (by_mma()) grad_out_address = add_input<uint64_t>("grad_out_address");
            if (of_captures) captured_gradient.configure_inputs(*this);
            if (captures) table_gradients.configure_inputs(*this);
            rows = add_output<Func>("rows", {Float(32), Float(32)}, 3);
            if (of_captures) captured_gradient.configure_outputs(*this);
            if (captures) table_gradients.configure_outputs(*this, held());
            if (of_captures || captures) return;
            for (const auto &[name, gradient] :
                 {std::pair("grad_query", &of_query), {"grad_key", &of_key}, {"grad_value", &of_value}})
                *gradient = add_output<Func>(name, held(), 4);
            return;
        }
        if (kind == Kind::weights) {
            weights_output.configure(*this, held());
            return;
        }
        // lse is the second value of out: the runtime gives it stride 0 along d.
        out = add_output<Func>("out", {held(), Float(32)}, 4);
        // Sums and maxima of state likewise.
        if (in_splits()) state = add_output<Func>("state", {Float(32), Float(32), Float(32)}, 4);
    }

    void generate() {
        auto narrowed = [this](const Expr &x) { return attune::stored(held(), x); };
        user_inputs.connect();
        if (by_mma()) attune::require_mma(mma_shape());
        attune::require(!is_quantised() || (head_dim == 0 && !by_mma() && !gradients),
                        "quantised rows are for kernels of any head size, without tensor cores and gradients");
        if (gradients) {
            const Func grads = in_f32(*grad_out, "grad_out_f32");
            row_stages = attune::backward_rows_stages(
                {in_f32(*forward_out, "forward_out_f32"), grads, *lse, *grad_lse, *has_grad_lse, inputs().value_dim},
                Float(32));
            *rows = row_stages.out;
            Func row_lse("row_lse"), row_delta("row_delta");
            const std::vector<Var> at = row_stages.out.args();
            const std::vector<Expr> of_row(at.begin(), at.end());
            row_lse(at) = row_stages.out(of_row)[0], row_delta(at) = row_stages.out(of_row)[1];
            const attune::GradientInputs in{inputs(), grads, row_lse, row_delta};
            if (of_captures || captures) {
                attune::require(!by_mma() && !in_splits(), "gradients of tables are for schedule simt");
                const attune::SimtInstructions does = attune::simt_instructions(target);
                if (captures)
                    table_gradients.generate(in, does, query.dim(3).extent(), score(), narrowed);
                else
                    captured_gradient.generate(in, does, query.dim(3).extent(), score(), user_inputs.buffers());
                return;
            }
            for (const auto &[of, out] : {std::pair(attune::GradientOf::query, of_query),
                                          {attune::GradientOf::key, of_key},
                                          {attune::GradientOf::value, of_value}}) {
                if (by_mma()) {
                    mma_gradients.push_back(attune::mma_gradient(of, in, raw_inputs(), mma_shape(), score(),
                                                                 attune::mma_instructions(target, held()), narrowed));
                    *out = mma_gradients.back().out;
                } else {
                    simt_gradients.push_back(attune::simt_gradient(of, in, lanes(), kv_block, tile_q, score(),
                                                                   attune::simt_instructions(target), narrowed));
                    *out = simt_gradients.back().out;
                }
            }
            return;
        }
        if (kind == Kind::weights) {
            attune::require(!by_mma() && !in_splits(), "weights are for schedule simt");
            weights_output.generate(inputs(), attune::simt_instructions(target), score(), narrowed);
            return;
        }
        if (by_mma()) {
            const attune::RawGradientInputs all = raw_inputs();
            const attune::RawInputs read = {all.query, all.key, all.value};
            const attune::MmaInstructions does = attune::mma_instructions(target, held());
            mma = in_splits() ? attune::mma_split_stages(inputs(), read, mma_shape(), split_keys, score(), does, narrowed)
                              : attune::mma_stages(inputs(), read, mma_shape(), score(), does, narrowed);
            *out = mma.s.out;
            if (in_splits()) *state = mma.state;
        } else if (in_splits()) {
            stages = attune::simt_split_stages(inputs(), lanes(), kv_block, split_keys, tile_q, score(),
                                               attune::simt_instructions(target), narrowed);
            *out = stages.s.out, *state = stages.state;
        } else {
            stages =
                attune::simt_stages(inputs(), lanes(), kv_block, tile_q, score(), attune::simt_instructions(target), narrowed);
            *out = stages.s.out;
        }
    }

    void schedule() {
        constrain_layout();
        if (gradients) {
            attune::schedule_device_rows(row_stages, *rows, together());
            if (of_captures) captured_gradient.schedule();
            if (captures) table_gradients.schedule();
            for (attune::SimtGradient &g : simt_gradients) attune::schedule_simt_gradient(g, simt_parameters());
            for (attune::MmaGradient &g : mma_gradients) attune::schedule_mma_gradient(g, mma_shape());
        } else if (kind == Kind::weights) {
            weights_output.schedule();
        } else if (by_mma()) {
            if (in_splits())
                attune::schedule_split_mma(mma, *out, *state, mma_shape(), split_keys);
            else
                attune::schedule_mma(mma, *out, mma_shape());
        } else if (in_splits()) {
            attune::schedule_split_simt(stages, *out, *state, simt_parameters(), split_keys);
        } else {
            attune::schedule_simt(stages, *out, simt_parameters());
        }
        // In a SIMT kernel of splits only the conditions of steps that may mask bound loops; a user's mask always may. Where no
        // capture has a gradient, a kernel of captures has no such loop.
        const attune::UserAttention *user = attune::user_attention();
        const bool bounded_splits = scored() && !(user && user->mask);
        const bool of_pairs = by_mma() || !in_splits() || bounded_splits;
        const bool trims = of_captures ? captured_gradient.has_reads() : !captures && kind != Kind::weights && of_pairs;
        attune::lower(get_pipeline(), {.trim_gpu_loops = trims, .thread_local_registers = by_mma(), .async_copies = by_mma()},
                      target);
    }

private:
    // Addresses of the first elements.
    Input<uint64_t> *key_address = nullptr, *value_address = nullptr, *query_address = nullptr, *grad_out_address = nullptr;
    // Inputs of rows in pages: page block_table(n, b) holds keys [n, n + 1) * 2^page_bits of batch entry b, and begins
    // page_stride rows behind the page before it.
    Input<Buffer<>> *block_table = nullptr;
    attune::NumberInputs<4> of_pages;
    Input<float> *softcap = nullptr, *pair_bias = nullptr;
    Input<bool> *has_pair_weight = nullptr, *has_bias = nullptr, *has_alibi = nullptr, *has_mask = nullptr,
                *has_sinks = nullptr;
    Input<Buffer<>> *pair_weight = nullptr, *bias = nullptr, *slopes = nullptr, *mask = nullptr, *sinks = nullptr;
    attune::DropoutInputs<float> dropout_inputs;
    attune::QuantisedInputs quantised_inputs;
    // Inputs of gradients.
    Input<Buffer<>> *forward_out = nullptr, *grad_out = nullptr, *lse = nullptr, *grad_lse = nullptr;
    Input<bool> *has_grad_lse = nullptr;
    Output<Func> *out = nullptr, *state = nullptr, *rows = nullptr, *of_query = nullptr, *of_key = nullptr, *of_value = nullptr;
    attune::SimtStages stages;
    std::vector<attune::SimtGradient> simt_gradients;
    std::vector<attune::MmaGradient> mma_gradients;
    attune::CapturedGradient captured_gradient;
    attune::TableGradients table_gradients;
    attune::WeightsOutput weights_output;
    attune::BackwardRowsStages row_stages;
    attune::MmaStages mma;
    attune::UserInputs user_inputs;

    const Form &form() const { return forms[static_cast<int>(Schedule(schedule_name))]; }
    bool by_mma() const { return form().mma; }
    bool in_splits() const { return form().splits; }
    bool scored() const { return kind != Kind::plain; }
    bool is_quantised() const { return cache == Cache::int8 || cache == Cache::int4; }
    Type held() const { return attune::held_type(dtype); }
    int most_channels() const { return channels == 0 ? head_dim : channels; }
    attune::SimtShape lanes() const { return {lane_rows, channel_lanes, attune::lanes_in_step, most_channels()}; }
    attune::SimtParameters simt_parameters() const {
        return {lanes(), kv_block, tile_q, std::min(together(), lanes().lane_channels()),
                attune::simt_instructions(target).exchange};
    }
    attune::MmaShape mma_shape() const {
        return {tile_q, lane_rows, most_channels(), kv_block, 4 / held().bytes(), stage_resident != 0};
    }
    // Elements in 16 bytes, the widest load.
    int together() const { return head_dim == 0 ? 1 : 16 / held().bytes(); }

    // Elements as f32.
    Func in_f32(const Func &from, const std::string &name) const {
        Func f(name);
        const std::vector<Var> at = from.args();
        f(at) = attune::widened(from(std::vector<Expr>(at.begin(), at.end())));
        return f;
    }

    // The place of an element (d, s, h, b) in memory, which of keys and values may lie in pages.
    using Place = std::array<Expr, 4>;
    using PlaceOf = std::function<Place(const Place &)>;
    static Place in_order(const Place &at) { return at; }
    Place of_cache(const Place &at) const {
        if (cache == Cache::dense) return at;
        const auto &[d, j, h, b] = at;
        const Expr pages = of_pages[1], bits = of_pages[2], stride = of_pages[3];
        const Expr entry = unsafe_promise_clamped(j >> bits, 0, block_table->dim(0).extent() - 1);
        // Entries of a table are unchecked, as lengths are.
        const Expr page = clamp((*block_table)(entry, b), 0, pages - 1), row = page * stride + (j & ((1 << bits) - 1));
        return {d, unsafe_promise_clamped(row, 0, key.dim(1).extent() - 1), h, 0};
    }
    static std::vector<Expr> indices(const Place &at) { return {at.begin(), at.end()}; }

    // Keys or values as f32.
    template<typename In> Func rows_in_f32(const In &from, attune::QuantisedInputs::Of of, const std::string &name) const {
        Func f(name);
        const Var d("d"), j("j"), h("h"), b("b");
        const Place at = of_cache({d, j, h, b});
        f(d, j, h, b) =
            is_quantised() ? quantised_inputs.number(of, from, at[0], at[1], at[2]) : attune::widened(from(indices(at)));
        return f;
    }

    // Elements as their bits, and their address, if the kernel has `begin`, the address of the first element.
    template<typename In>
    attune::RawInput raw(const In &in, const std::string &name, const Input<uint64_t> *begin, const PlaceOf &place_of) const {
        attune::RawInput input{Func(name + "_bits"), {}};
        const Var d("d"), s("s"), h("h"), b("b");
        input.bits(d, s, h, b) = reinterpret(UInt(held().bits()), in(indices(place_of({d, s, h, b}))));
        if (!begin) return input;
        input.address = [this, &in, begin, place_of](const Expr &d, const Expr &s, const Expr &h, const Expr &b) {
            const Place at = place_of({d, s, h, b});
            // An element's index has 32 bits, as everywhere: tensors are no larger.
            Expr index = at[0];
            for (int n = 1; n < 4; n++) index += at[n] * in.dim(n).stride();
            return *begin + cast<uint64_t>(cast<int64_t>(index) * held().bytes());
        };
        return input;
    }
    attune::RawGradientInputs raw_inputs() const {
        const PlaceOf of_keys = [this](const Place &at) { return of_cache(at); };
        return {raw(query, "query", query_address, in_order), raw(key, "key", key_address, of_keys),
                raw(value, "value", value_address, of_keys),
                grad_out ? raw(*grad_out, "grad_out", grad_out_address, in_order) : attune::RawInput()};
    }

    attune::SdpaInputs inputs() {
        attune::SdpaInputs in;
        Var i("i"), b("b");
        in.query = in_f32(query, "query_f32");
        in.key = rows_in_f32(key, attune::QuantisedInputs::Of::key, "key_f32");
        in.value = rows_in_f32(value, attune::QuantisedInputs::Of::value, "value_f32");
        in.queries = query.dim(1).extent(), in.keys = block_table ? of_pages[0] : key.dim(1).extent();
        in.query_heads = query.dim(2).extent(), in.key_heads = key.dim(2).extent();
        in.head_dim = head_dim == 0 ? query.dim(0).extent() : Expr(head_dim);
        in.value_dim = head_dim == 0 ? value.dim(0).extent() * (cache == Cache::int4 ? 2 : 1) : Expr(head_dim);
        in.scale = cast<double>(scale);
        in.offset = Func("offset_of"), in.band_begin = Func("band_begin_of"), in.band_end = Func("band_end_of");
        in.lengths = Func("length_of");
        // Values in buffers are unchecked: offsets are clamped against overflow, lengths to the keys.
        constexpr int far = 1 << 29;
        const Expr own = select(has_offsets, clamp(offsets(b), -far, far), 0);
        in.offset(b) = own + offset, in.band_begin(b) = own + band_begin, in.band_end(b) = own + band_end;
        in.lengths(i, b) = min(select(has_lengths, clamp(lengths(i, b), 0, far), 0) + length, in.keys);
        // Where every query has its own length, no KV block is left out by lengths: a maximum over a tile would be a stage, and
        // a condition on a stage would not be evaluated once for a KV block.
        const Expr own_lengths = has_lengths && lengths.dim(0).stride() != 0;
        in.shortest = Func("shortest_of"), in.longest = Func("longest_of");
        in.shortest(i, b) = select(own_lengths, 0, in.lengths(0, b));
        in.longest(i, b) = select(own_lengths, in.keys, in.lengths(0, b));
        if (sinks) in.sinks = *sinks, in.has_sinks = *has_sinks;
        return in;
    }

    attune::Score score() {
        attune::Score score;
        const attune::UserAttention *user = attune::user_attention();
        score.scaled_first = user || pair != Pair::dot_product;
        score.scaled_to_base2 = by_mma() && held().bits() == 16 && most_channels() == 128;  // otherwise it spills on sm_80
        if (pair == Pair::additive) {
            Func weight("pair_weight_f32");
            Var d("d");
            weight(d) = select(*has_pair_weight, (*pair_weight)(min(d, pair_weight->dim(0).extent() - 1)), 1.0f);
            score.pair = attune::additive_pair({weight, cast<double>(*pair_bias)}, Float(32));
        }
        if (scored())
            score.steps = {attune::softcap_step(cast<double>(*softcap), Float(32)),
                           attune::bias_step(in_f32(*bias, "bias_f32"), *has_bias),
                           attune::alibi_step(*slopes, *has_alibi, Float(32))};
        if (user) user->add_score(score, user_inputs.global());
        if (scored()) score.steps.push_back(attune::mask_step(*mask, *has_mask));
        if (user) user->add_mask(score, user_inputs.global());
        if (kind == Kind::training) {
            const auto kept = attune::kept_share(dropout_inputs.dropout()), own = score.probability;
            score.probability = own ? [=](const attune::Index &at) { return own(at) * kept(at); } : kept;
        }
        // No table of blocks is given here: a mask is asked where pairs are computed.
        for (attune::ScoreStep &step : score.steps) step.in_blocks = false;
        return score;
    }

    void constrain_layout() {
        // Rows of constant head sizes begin on 16 bytes; the runtime calls the variant of any size for other rows.
        auto constrain = [&](auto &in) {
            for (int n = 0; n < 4; n++) in.dim(n).set_min(0);
            if (head_dim == 0) return;
            in.set_host_alignment(16);
            in.dim(0).set_extent(head_dim);
            for (int n = 1; n < 4; n++) in.dim(n).set_stride(in.dim(n).stride() / together() * together());
        };
        constrain(query), constrain(key), constrain(value);
        offsets.dim(0).set_min(0).set_stride(Expr());
        quantised_inputs.constrain();
        if (block_table) block_table->dim(0).set_min(0).set_stride(Expr()), block_table->dim(1).set_min(0);
        for (int n = 0; n < 2; n++) lengths.dim(n).set_min(0);
        lengths.dim(0).set_stride(Expr());
        user_inputs.constrain();
        if (pair == Pair::additive) pair_weight->dim(0).set_min(0).set_stride(Expr());
        if (scored()) {
            for (auto *table : {bias, mask})
                for (int n = 0; n < 4; n++) table->dim(n).set_min(0);
            for (auto *table : {bias, mask}) table->dim(0).set_stride(Expr());
            for (int n = 0; n < 2; n++) slopes->dim(n).set_min(0);
            slopes->dim(0).set_stride(Expr());
            sinks->dim(0).set_min(0).set_stride(Expr());
        }
        if (gradients) {
            constrain(*forward_out), constrain(*grad_out);
            for (auto *of_row : {lse, grad_lse})
                for (int n = 0; n < 3; n++) of_row->dim(n).set_min(0);
            lse->dim(0).set_stride(Expr()), grad_lse->dim(0).set_stride(Expr());
            auto of_rows = static_cast<Func>(*rows).output_buffers();
            for (int n = 0; n < 3; n++) of_rows[0].dim(n).set_min(0);
            if (of_captures || captures) return;
            for (auto *gradient : {of_query, of_key, of_value}) {
                auto buffer = static_cast<Func>(*gradient).output_buffer();
                for (int n = 0; n < 4; n++) buffer.dim(n).set_min(0);
                if (head_dim != 0) buffer.dim(0).set_extent(head_dim);
            }
            return;
        }
        if (kind == Kind::weights) return;
        auto outputs = static_cast<Func>(*out).output_buffers();
        for (int n = 0; n < 4; n++) outputs[0].dim(n).set_min(0);
        if (head_dim != 0) outputs[0].dim(0).set_extent(head_dim);
        outputs[1].dim(0).set_stride(0);
        if (!state) return;
        auto states = static_cast<Func>(*state).output_buffers();
        for (int n = 0; n < 4; n++) states[0].dim(n).set_min(0);
        for (int n = 1; n < 3; n++) states[n].dim(0).set_stride(0);
    }
};
}  // namespace

HALIDE_REGISTER_GENERATOR(SdpaSimt, sdpa_simt)
