// Wiring only: parameters, inputs, outputs.
#include "schedules/sdpa/sdpa_schedules.h"

namespace {
enum class Schedule { root, prefill, decode, mullapudi2016, adams2019 };

class Sdpa : public Halide::Generator<Sdpa> {
public:
    GeneratorParam<Schedule> schedule_name{"schedule",
                                           Schedule::root,
                                           {{"root", Schedule::root},
                                            {"prefill", Schedule::prefill},
                                            {"decode", Schedule::decode},
                                            {"mullapudi2016", Schedule::mullapudi2016},
                                            {"adams2019", Schedule::adams2019}}};
    GeneratorParam<Halide::Type> dtype{"dtype", Halide::Float(32)};
    GeneratorParam<int> head_dim{"head_dim", 0, 0, 1024};  // of query, key and value; 0: any sizes, known at run time
    GeneratorParam<int> chunk{"chunk", 128, 1, 1 << 20};
    GeneratorParam<int> tile_q{"tile_q", 0, 0, 1024};
    GeneratorParam<int> key_tile{"key_tile", 4, 1, 64};
    GeneratorParam<int> channel_tile{"channel_tile", 4, 1, 64};
    GeneratorParam<int> value_block{"value_block", 8, 1, 1024};

    Input<Buffer<void, 4>> query{"query"}, key{"key"}, value{"value"};
    Input<Buffer<int32_t, 1>> band_begin{"band_begin"}, band_end{"band_end"}, offset{"offset"};
    Input<Buffer<int32_t, 2>> lengths{"lengths"}, shortest{"shortest"}, longest{"longest"};
    Input<double> scale{"scale"};

    void configure() {
        for (auto *in : {&query, &key, &value}) in->set_type(dtype);
        // lse is the second value of out: the runtime gives it stride 0 along d.
        out = add_output<Func>("out", {dtype, dtype}, 4);
    }

    void generate() {
        attune::SdpaInputs in;
        in.query = query, in.key = key, in.value = value;
        in.band_begin = band_begin, in.band_end = band_end, in.offset = offset, in.lengths = lengths;
        in.shortest = shortest, in.longest = longest;
        in.scale = scale;
        in.queries = query.dim(1).extent(), in.keys = key.dim(1).extent();
        in.query_heads = query.dim(2).extent(), in.key_heads = key.dim(2).extent();
        const bool any = head_dim == 0;
        in.head_dim = any ? query.dim(0).extent() : Halide::Expr(head_dim);
        in.value_dim = any ? value.dim(0).extent() : Halide::Expr(head_dim);
        const bool split = schedule_name == Schedule::decode;
        const attune::SdpaShape shape{dtype, chunk, tile_q, any};
        stages = split ? attune::sdpa_split_stages(in, shape, {}) : attune::sdpa_stages(in, shape, {});
        *out = stages.out;
    }

    void schedule() {
        constrain_layout();
        const Halide::Expr value_dim = head_dim == 0 ? value.dim(0).extent() : Halide::Expr(head_dim);
        if (using_autoscheduler()) {
            set_estimates();
        } else if (schedule_name == Schedule::prefill) {
            attune::schedule_prefill(stages, *out, {chunk, tile_q, key_tile, channel_tile}, target, value_dim);
        } else if (schedule_name == Schedule::decode) {
            attune::schedule_decode(stages, *out, {chunk, tile_q, key_tile, value_block, channel_tile}, target, value_dim);
        } else if (schedule_name == Schedule::mullapudi2016) {
            attune::schedule_mullapudi2016(get_pipeline(), target);
        } else if (schedule_name == Schedule::adams2019) {
            attune::schedule_adams2019(get_pipeline(), target);
        } else {
            attune::schedule_root(stages, *out);
        }
    }

private:
    Output<Func> *out = nullptr;
    attune::SdpaStages stages;

    void constrain_layout() {
        for (auto *in : {&query, &key, &value}) {
            for (int n = 0; n < 4; n++) in->dim(n).set_min(0);
            if (head_dim != 0) in->dim(0).set_extent(head_dim);
        }
        for (auto *in : {&band_begin, &band_end, &offset}) in->dim(0).set_min(0).set_stride(Halide::Expr());
        for (auto *in : {&lengths, &shortest, &longest}) {
            for (int n = 0; n < 2; n++) in->dim(n).set_min(0);
            in->dim(0).set_stride(Halide::Expr());
        }
        auto outputs = static_cast<Halide::Func>(*out).output_buffers();
        for (int n = 0; n < 4; n++) outputs[0].dim(n).set_min(0);
        if (head_dim != 0) outputs[0].dim(0).set_extent(head_dim);
        outputs[1].dim(0).set_stride(0);
    }

    // The shape that the autoscheduled baselines are made for.
    void set_estimates() {
        const int d = head_dim == 0 ? 64 : int(head_dim), s = 1024, heads = 8, batch = 1;
        for (auto *in : {&query, &key, &value}) in->set_estimates({{0, d}, {0, s}, {0, heads}, {0, batch}});
        for (auto *in : {&band_begin, &band_end, &offset}) in->set_estimates({{0, batch}});
        for (auto *in : {&lengths, &shortest, &longest}) in->set_estimates({{0, s}, {0, batch}});
        scale.set_estimate(0.125);
        static_cast<Halide::Func>(*out).set_estimates({{0, d}, {0, s}, {0, heads}, {0, batch}});
    }
};
}  // namespace

HALIDE_REGISTER_GENERATOR(Sdpa, sdpa)
