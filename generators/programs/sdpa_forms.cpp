// SPDX-License-Identifier: MIT
#include "generators/programs/sdpa_forms.h"
#include "lowering/instructions/bf16.h"
#include "lowering/instructions/powers.h"
#include "lowering/require.h"
#include "schedules/amx_tiles.h"
#include <algorithm>
#include <memory>
#include <optional>

namespace attune {
using namespace Halide;

namespace {

Func out_of(const SdpaStages &s) { return s.out; }
Func out_of(const SdpaBf16DotStages &stages) { return stages.s.out; }
Func out_of(const SdpaInt8Stages &stages) { return stages.s.out; }
Func out_of(const SdpaAmxStages &stages) { return stages.s.out; }
Func out_of(const WeightsStages &w) { return w.out; }

// A form from `make`, which gives the stages, and `schedule`, which takes them.
template<typename Stages, typename Make, typename Schedule>
SdpaForm form_of(const SdpaNumerics &numerics, const ScheduleHints &hints, Make make, Schedule schedule) {
    SdpaForm form{numerics, hints, {}, {}};
    const auto made = std::make_shared<std::optional<Stages>>();
    form.stages = [=](const SdpaInputs &in, const Score &score) {
        made->emplace(make(in, numerics, hints, score));
        return out_of(**made);
    };
    form.schedule = [=](Func out, const SdpaTensors &of, Passes &passes) { schedule(**made, out, of, passes); };
    return form;
}

SdpaNumerics numerics_of(const SdpaKernel &kernel, const SdpaParameters &n) {
    return {kernel.accumulator, n.kv_block, n.kv_subblock};
}
SdpaNumerics numerics_of(const SdpaKernel &kernel, const SdpaParameters &n, const Target &target) {
    SdpaNumerics numerics = numerics_of(kernel, n);
    numerics.powers = power_instructions(target);
    return numerics;
}

// Keys that are summed one after another in a KV block that is long.
int keys_of_a_sum(const SdpaNumerics &numerics) {
    int keys = std::max(64 / numerics.kv_subblock, 1) * numerics.kv_subblock;
    while (keys > numerics.kv_subblock && numerics.kv_block % keys != 0) keys -= numerics.kv_subblock;
    return keys;
}
// Over 256 weights that are summed one after another may leave lse more than two roundings of f32 from the exact one.
SdpaNumerics with_short_sums(SdpaNumerics numerics) {
    if (numerics.kv_block > 256) numerics.sum_weights = keys_of_a_sum(numerics);
    return numerics;
}
SdpaNumerics split_numerics_of(const SdpaKernel &kernel, const SdpaParameters &n, const Target &target) {
    SdpaNumerics numerics = numerics_of(kernel, n, target);
    if (kernel.accumulator == kernel.type) numerics.sum_keys = keys_of_a_sum(numerics);
    return numerics;
}

void fetch_given_tables(const SdpaStages &s, const SdpaTensors &of, const PrefillParameters &parameters, Passes &passes) {
    for (const auto &[table, name, given] : of.fetched_tables) fetch_tables(s, passes, table, name, given, parameters);
}

SdpaForm weights_form(const SdpaNumerics &numerics, const ScheduleHints &hints, const Expr &probabilities,
                      const std::function<void(WeightsStages &, Func out)> &schedule) {
    return form_of<WeightsStages>(
        numerics, hints,
        [=](const SdpaInputs &in, const SdpaNumerics &numerics, const ScheduleHints &hints, const Score &score) {
            return weights_stages(in, numerics, hints, score, probabilities);
        },
        [=](WeightsStages &w, const Func &out, const SdpaTensors &, Passes &) { schedule(w, out); });
}

SdpaForm root_form(const SdpaKernel &kernel, const SdpaParameters &n, const Target &) {
    const SdpaNumerics numerics = numerics_of(kernel, n);
    const ScheduleHints hints = hints_for_root(kernel);
    if (kernel.probabilities.defined()) return weights_form(numerics, hints, kernel.probabilities, schedule_weights_root);
    return form_of<SdpaStages>(numerics, hints, sdpa_stages,
                               [](SdpaStages &s, const Func &out, const SdpaTensors &, Passes &) { schedule_root(s, out); });
}

// Baselines of the benchmarks: the stages of root, scheduled by Halide's autoschedulers.
template<void (*schedule)(const Pipeline &, const Target &)>
SdpaForm autoscheduled_form(const SdpaKernel &kernel, const SdpaParameters &n, const Target &target) {
    return form_of<SdpaStages>(
        numerics_of(kernel, n), hints_for_root(kernel), sdpa_stages,
        [=](SdpaStages &, const Func &out, const SdpaTensors &, Passes &) { schedule(Pipeline(out), target); });
}

SdpaForm prefill_form(const SdpaKernel &kernel, const SdpaParameters &n, const Target &target) {
    PrefillParameters parameters{n.kv_block, n.tile_q, n.key_tile, n.channel_tile};
    parameters.line_channels = line_channels_of(parameters, kernel.type, kernel.accumulator);
    SdpaForm form =
        form_of<SdpaStages>(with_short_sums(numerics_of(kernel, n, target)), hints_for_prefill(parameters, kernel), sdpa_stages,
                            [=](SdpaStages &s, const Func &out, const SdpaTensors &of, Passes &passes) {
                                schedule_prefill(s, out, parameters, target, of.value_dim);
                                if (n.prefetch_tiles) fetch_next_tiles(s, passes, of.key, of.value, n.channel_tile);
                                if (n.prefetch_queries) fetch_next_queries(s, out, passes, of.query, kernel.head_dim);
                                fetch_given_tables(s, of, parameters, passes);
                            });
    form.fetches_tiles = form.fetches_tables = true;
    return form;
}

SdpaForm bf16_dot_form(const SdpaKernel &kernel, const SdpaParameters &n, const Target &target) {
    require(kernel.bf16_products, "schedule bf16_dot is for dot products of bf16, without dropout");
    const PrefillParameters parameters{n.kv_block, n.tile_q, n.key_tile, n.channel_tile};
    SdpaForm form = form_of<SdpaBf16DotStages>(
        numerics_of(kernel, n, target), hints_for_bf16_dot(parameters, kernel),
        [round = rounding_to_bf16(target)](const SdpaInputs &in, const SdpaNumerics &numerics, const ScheduleHints &hints,
                                           const Score &score) {
            return sdpa_bf16_dot_stages(in, numerics, hints, score, round);
        },
        [=](SdpaBf16DotStages &stages, const Func &out, const SdpaTensors &of, Passes &passes) {
            schedule_bf16_dot(stages, out, parameters, target, of.value_dim);
            fetch_given_tables(stages.s, of, parameters, passes);
        });
    form.fetches_tables = true;
    return form;
}

SdpaForm amx_form(const SdpaKernel &kernel, const SdpaParameters &n, const Target &target) {
    const PrefillParameters parameters{n.kv_block, n.tile_q, n.kv_subblock, n.channel_tile};
    return form_of<SdpaAmxStages>(
        with_short_sums(numerics_of(kernel, n)), hints_for_amx(parameters, kernel),
        [round = rounding_to_bf16(target)](const SdpaInputs &in, const SdpaNumerics &numerics, const ScheduleHints &hints,
                                           const Score &score) {
            return sdpa_amx_stages(in, numerics, hints, score, round, amx_tile_depth);
        },
        [=](SdpaAmxStages &stages, const Func &out, const SdpaTensors &of, Passes &passes) {
            schedule_amx(stages, out, parameters, target, of.value_dim);
            passes.join_amx_tiles = true;
        });
}

SdpaForm decode_form(const SdpaKernel &kernel, const SdpaParameters &n, const Target &target) {
    const DecodeParameters parameters{n.kv_block,    n.tile_q,       n.kv_subblock, n.key_tile,
                                      n.value_block, n.channel_tile, n.value_rows,  n.prefetch_keys};
    const ScheduleHints hints = hints_for_decode(parameters, kernel, target);
    SdpaNumerics numerics = split_numerics_of(kernel, n, target);
    numerics.channel_group = decode_channel_group(target, kernel.accumulator, kernel.head_dim);
    const auto schedule = [=](auto &stages, const Func &out, const SdpaTensors &of, Passes &passes) {
        schedule_decode(stages, out, passes, parameters, target,
                        {of.key, of.value, of.row_shift, of.value_dim, of.heads_of_task});
    };
    if (decode_takes_int8(kernel))
        return form_of<SdpaInt8Stages>(
            numerics, hints,
            [digits = digits_of_target(target)](const SdpaInputs &in, const SdpaNumerics &numerics, const ScheduleHints &hints,
                                                const Score &score) {
                return sdpa_int8_split_stages(in, numerics, hints, score, digits);
            },
            schedule);
    if (!decode_takes_bf16_dots(kernel, target)) return form_of<SdpaStages>(numerics, hints, sdpa_split_stages, schedule);
    return form_of<SdpaBf16DotStages>(
        numerics, hints,
        [round = rounding_to_bf16(target)](const SdpaInputs &in, const SdpaNumerics &numerics, const ScheduleHints &hints,
                                           const Score &score) {
            return sdpa_bf16_dot_split_stages(in, numerics, hints, score, round);
        },
        schedule);
}

SdpaForm split_form(const SdpaKernel &kernel, const SdpaParameters &n, const Target &target) {
    SdpaNumerics numerics = split_numerics_of(kernel, n, target);
    numerics.sum_weights = keys_of_a_sum(numerics);  // of 16-bit types too: lse has the accuracy of f32
    PrefillParameters parameters{n.kv_block, n.tile_q, n.key_tile, n.channel_tile};
    parameters.sum_keys = numerics.sum_keys;
    return form_of<SdpaStages>(numerics, hints_for_split(parameters, kernel), sdpa_split_stages,
                               [=](SdpaStages &s, const Func &out, const SdpaTensors &of, Passes &) {
                                   schedule_split(s, out, parameters, target, of.value_dim);
                               });
}

SdpaForm rows_form(const SdpaKernel &kernel, const SdpaParameters &n, const Target &target) {
    require(kernel.probabilities.defined(), "schedule rows is for kind weights");
    const WeightsParameters parameters{n.kv_block, n.tile_q, n.key_tile};
    return weights_form(numerics_of(kernel, n, target), hints_for_weights(parameters, kernel), kernel.probabilities,
                        [=](WeightsStages &w, const Func &out) { schedule_weights(w, out, parameters, target); });
}

}  // namespace

const std::vector<NamedForm> &sdpa_forms() {
    static const std::vector<NamedForm> forms = {
        {"root", root_form},
        {"prefill", prefill_form},
        {"bf16_dot", bf16_dot_form},
        {"amx", amx_form, false, true},
        {"decode", decode_form, true},
        {"split", split_form},
        {"rows", rows_form},
        {"mullapudi2016", autoscheduled_form<schedule_mullapudi2016>},
        {"adams2019", autoscheduled_form<schedule_adams2019>},
    };
    return forms;
}

}  // namespace attune
