// An attention with a score and a mask of its own, both with captured buffers: ALiBi with given slopes, and a boolean mask.
#include "schedules/sdpa/sdpa_schedules.h"

namespace {

struct Alibi {
    attune::Capture slopes{"slopes", Halide::Float(32), 1};  // (h)
    attune::Capture allowed{"allowed", Halide::UInt(8), 2};  // (j, i)
    Halide::Expr score(Halide::Expr x, attune::Index at) const {
        return x - slopes(at.h) * Halide::abs(Halide::cast<float>(at.position - at.j));
    }
    Halide::Expr mask(attune::Index at) const { return allowed(at.j, at.i) != 0; }
};

class AlibiAttention : public Halide::Generator<AlibiAttention> {
public:
    GeneratorParam<bool> root{"root", false};
    GeneratorParam<bool> split{"split", false};
    Input<Buffer<float, 4>> query{"query"}, key{"key"}, value{"value"};
    Input<Buffer<int32_t, 1>> band_begin{"band_begin"}, band_end{"band_end"}, offset{"offset"};
    Input<Buffer<int32_t, 2>> lengths{"lengths"}, shortest{"shortest"}, longest{"longest"};
    Input<double> scale{"scale"};
    Output<Func> out{"out", {Halide::Float(32), Halide::Float(32)}, 4};

    void configure() {
        for (auto &c : captured.list) captures.push_back(add_input<Buffer<>>(c->name, c->type, c->dimensions));
    }

    void generate() {
        for (std::size_t n = 0; n < captures.size(); n++) captured.list[n]->func = *captures[n];
        attune::SdpaInputs in;
        in.query = query, in.key = key, in.value = value;
        in.band_begin = band_begin, in.band_end = band_end, in.offset = offset;
        in.lengths = lengths, in.shortest = shortest, in.longest = longest;
        in.scale = scale;
        in.queries = query.dim(1).extent(), in.keys = key.dim(1).extent();
        in.query_heads = query.dim(2).extent(), in.key_heads = key.dim(2).extent();
        in.head_dim = head_dim, in.value_dim = head_dim;
        attune::ScoreStep score_step, mask_step;
        score_step.score = [&](Halide::Expr x, const attune::Index &at) { return captured.user->score(x, at); };
        mask_step.mask = [&](const attune::Index &at) { return captured.user->mask(at); };
        mask_step.may_mask = true;
        const attune::Score score{{}, {score_step, mask_step}};
        const attune::SdpaShape shape{
            Halide::Float(32), chunk, split ? key_block : key_tile, root ? 0 : split ? row_tile : tile_q, false, split ? 1 : 0};
        stages = split ? attune::sdpa_split_stages(in, shape, score) : attune::sdpa_stages(in, shape, score);
        out = stages.out;
    }

    void schedule() {
        for (auto *in : {&query, &key, &value}) {
            for (int n = 0; n < 4; n++) in->dim(n).set_min(0);
            in->dim(0).set_extent(head_dim);
        }
        for (auto *in : {&band_begin, &band_end, &offset}) in->dim(0).set_min(0).set_stride(Halide::Expr());
        for (auto *in : {&lengths, &shortest, &longest}) in->dim(0).set_min(0).set_stride(Halide::Expr());
        auto outputs = static_cast<Halide::Func>(out).output_buffers();
        for (int n = 0; n < 4; n++) outputs[0].dim(n).set_min(0);
        outputs[0].dim(0).set_extent(head_dim);
        outputs[1].dim(0).set_stride(0);
        if (root)
            attune::schedule_root(stages, out);
        else if (split)
            attune::schedule_decode(stages, out, {chunk, row_tile, key_block, key_tile, 8, 2}, target, head_dim);
        else
            attune::schedule_prefill(stages, out, {chunk, tile_q, key_tile, 4}, target, head_dim);
    }

private:
    static constexpr int head_dim = 32, chunk = 32, tile_q = 16, row_tile = 4, key_tile = 4, key_block = 16;
    attune::Captured<Alibi> captured;
    std::vector<Input<Buffer<>> *> captures;
    attune::SdpaStages stages;
};
}  // namespace

HALIDE_REGISTER_GENERATOR(AlibiAttention, alibi_attention)
