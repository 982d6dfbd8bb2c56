// SPDX-License-Identifier: MIT
#include "generators/arguments/kernel_arguments.h"
#include <algorithm>

namespace attune {
namespace {

using Arguments = std::vector<KernelArgument>;
using Type = KernelArgument::Type;
constexpr Type boolean = Type::boolean, int32 = Type::int32, uint32 = Type::uint32, uint64 = Type::uint64, f32 = Type::f32,
               f64 = Type::f64;

KernelArgument buffer(const std::string &name, int dimensions) { return {name, Type::buffer, dimensions}; }
KernelArgument value_of(const std::string &output, const std::string &name, int dimensions) {
    return {name, Type::buffer, dimensions, 0, {}, output};
}
KernelArgument number(const std::string &name, Type type) { return {name, type}; }
KernelArgument captures() { return {"captures", Type::captures}; }

Arguments buffers(const std::vector<std::string> &names, int dimensions) {
    Arguments all;
    for (const std::string &name : names) all.push_back(buffer(name, dimensions));
    return all;
}
Arguments numbers(const std::vector<std::string> &names, Type type) {
    Arguments all;
    for (const std::string &name : names) all.push_back(number(name, type));
    return all;
}
Arguments only_for(const std::string &parameter, const std::vector<std::string> &values, Arguments arguments) {
    for (KernelArgument &a : arguments) a.when[parameter] = values;
    return arguments;
}
Arguments join(const std::vector<Arguments> &lists) {
    Arguments all;
    for (const Arguments &list : lists) all.insert(all.end(), list.begin(), list.end());
    return all;
}

const ArgumentChoice kinds{"kind", {{"plain"}, {"scored"}, {"training"}}};
const ArgumentChoice kinds_with_weights{"kind", {{"plain"}, {"scored"}, {"training"}, {"weights"}}};
const ArgumentChoice users{"user", {{"none"}, {"unmasked"}, {"masked"}}};

// Numbers are of type `real`.
Arguments softcap_to_mask(Type real, int dimensions) {
    return {number("softcap", real), number("has_bias", boolean), buffer("bias", dimensions), number("has_alibi", boolean),
            buffer("slopes", 2),     number("has_mask", boolean), buffer("mask", dimensions)};
}
Arguments sinks() { return {number("has_sinks", boolean), buffer("sinks", 1)}; }
// keep_scale is of type `real`.
Arguments dropout(Type real) {
    return join({numbers({"seed_low", "seed_high", "dropout_offset", "first_query", "first_key", "first_head", "counted_heads",
                          "threshold"},
                         uint32),
                 numbers({"keep_scale"}, real)});
}
Arguments blocks_of_mask(int dimensions) { return only_for("user", {"masked"}, buffers({"blocks"}, dimensions)); }
Arguments captures_of_user() { return only_for("user", {"unmasked", "masked"}, {captures()}); }

// Arguments of quantised keys and values: their scales, and of int4 two numbers that say which group a channel is in.
Arguments scales_of_rows(const std::vector<std::string> &groups) {
    return join({only_for("cache", {"int8", "int4"}, buffers({"key_scale_f16", "value_scale_f16"}, 4)),
                 only_for("cache", {"int8"}, buffers({"key_scale_f32", "value_scale_f32"}, 4)),
                 only_for("cache", {"int8"}, numbers({"key_scale_is_f16", "value_scale_is_f16"}, boolean)),
                 only_for("cache", {"int4"}, buffers({"key_minimum", "value_minimum"}, 4)),
                 only_for("cache", {"int4"}, numbers(groups, int32))});
}

ArgumentLists attention() {
    const std::vector<std::string> of_values = {"plain", "scored", "training"}, scored = {"scored", "training", "weights"};
    return {"sdpa",
            {{"Attention", join({buffers({"query", "key"}, 4),
                                 buffers({"band_begin", "band_end", "offset"}, 1),
                                 buffers({"lengths", "shortest", "longest"}, 2),
                                 numbers({"scale"}, f64),
                                 only_for("cache", {"pages", "int8", "int4"},
                                          join({{buffer("row_shift", 2)}, numbers({"keys", "heads_of_task"}, int32)})),
                                 only_for("kind", of_values, buffers({"value"}, 4)),
                                 scales_of_rows({"key_blocks_of_group", "value_blocks_of_group"}),
                                 only_for("pair", {"additive"}, {buffer("pair_weight", 1), number("pair_bias", f64)}),
                                 only_for("kind", scored, join({softcap_to_mask(f64, 4), sinks()})),
                                 only_for("kind", of_values, buffers({"finite_values"}, 1)),
                                 only_for("kind", {"training"}, dropout(f64)),
                                 only_for("kind", {"weights"}, numbers({"probabilities"}, boolean)),
                                 blocks_of_mask(4),
                                 captures_of_user(),
                                 {value_of("out", "out", 4)},
                                 only_for("kind", of_values, {value_of("out", "lse", 4)})})}},
            {kinds_with_weights,
             {"pair", {{"dot_product", "cosine", "gaussian"}, {"additive", "additive_separable"}}},
             {"cache", {{"dense"}, {"pages"}, {"int8"}, {"int4"}}},
             users},
            "Attention"};
}

ArgumentLists attention_backward() {
    Arguments bias = only_for("pair", {"product"}, only_for("kind", {"scored", "training"}, buffers({"grad_bias"}, 3)));
    return {
        "sdpa_backward",
        {{"AttentionBackward",
          join({buffers({"query", "grad_out"}, 3), buffers({"key", "value", "row_lse", "row_delta"}, 2),
                buffers({"lengths", "shortest", "longest"}, 1), numbers({"band_begin", "band_end", "offset"}, int32),
                numbers({"first_query_tile", "query_tiles", "first_key_tile", "key_tiles"}, int32),
                numbers({"wants_query", "wants_key", "wants_bias"}, boolean), numbers({"scale"}, f64),
                only_for("kind", {"scored", "training"}, softcap_to_mask(f64, 3)), only_for("kind", {"training"}, dropout(f64)),
                only_for("pair", {"additive"}, {buffer("pair_weight", 1), number("pair_bias", f64)}),
                only_for("user", {"unmasked", "masked"}, numbers({"entry", "key_head", "head"}, int32)), blocks_of_mask(3),
                captures_of_user()})},
         {"AttentionGradients",
          join({{buffer("grad_query", 3), buffer("grad_key", 2), buffer("grad_value", 2)},
                only_for("user", {"none"}, bias),
                only_for("pair", {"additive"}, buffers({"grad_weight"}, 2))}),
          {{"captures", {"false"}}, {"of_user", {"false"}}}},
         {"TableGradient",
          {buffer("before", 2), number("step", int32), number("keeps_queries", int32), buffer("grad_capture", 2)},
          {{"captures", {"true"}}, {"of_user", {"false"}}}},
         {"CaptureGradient", {number("which", int32), buffer("captured", 1)}, {{"of_user", {"true"}}}}},
        {kinds,
         {"pair", {{"product", "cosine"}, {"gaussian"}, {"additive"}}},
         users,
         {"captures", {{"false"}, {"true"}}},
         {"of_user", {{"false"}, {"true"}}}},
        "AttentionBackward"};
}

ArgumentLists attention_on_device() {
    const std::vector<std::string> mma = {"mma", "mma_split"};
    Arguments state = {value_of("state", "state", 4), value_of("state", "sums", 4), value_of("state", "maxima", 4)};
    return {
        "sdpa_simt",
        {{"DeviceAttention",
          join({buffers({"query", "key", "value"}, 4),
                numbers({"scale"}, f32),
                numbers({"band_begin", "band_end", "offset", "length"}, int32),
                numbers({"has_offsets", "has_lengths"}, boolean),
                {buffer("offsets", 1), buffer("lengths", 2)},
                only_for("cache", {"pages", "int8", "int4"},
                         join({{buffer("block_table", 2)}, numbers({"keys", "pages", "page_bits", "page_stride"}, int32)})),
                scales_of_rows({"key_group_bits", "value_group_bits"}),
                only_for("pair", {"additive"},
                         {number("has_pair_weight", boolean), buffer("pair_weight", 1), number("pair_bias", f32)}),
                only_for("schedule", mma, numbers({"query_address", "key_address", "value_address"}, uint64)),
                only_for("kind", {"scored", "training", "weights"}, join({softcap_to_mask(f32, 4), sinks()})),
                only_for("kind", {"training"}, dropout(f32)),
                captures_of_user()})},
         {"DeviceAttentionOut",
          join({{value_of("out", "out", 4), value_of("out", "lse", 4)}, only_for("schedule", {"split", "mma_split"}, state)}),
          {{"gradients", {"false"}}, {"kind", {"plain", "scored", "training"}}}},
         {"DeviceWeights",
          join(
              {{buffer("lse", 3)}, numbers({"mode", "heads_of_mean"}, int32), {buffer("row_totals", 3), buffer("weights", 4)}}),
          {{"gradients", {"false"}}, {"kind", {"weights"}}}},
         {"DeviceGradientRows",
          join({buffers({"forward_out", "grad_out"}, 4),
                {buffer("lse", 3), number("has_grad_lse", boolean), buffer("grad_lse", 3)},
                only_for("schedule", mma, numbers({"grad_out_address"}, uint64))}),
          {{"gradients", {"true"}}}},
         {"DeviceCaptureGradient",
          numbers({"which", "copies", "elements", "extent_x", "extent_y", "extent_z"}, int32),
          {{"of_captures", {"true"}}}},
         {"DeviceTableGradient",
          join({numbers({"wants_bias", "wants_slopes"}, boolean),
                numbers({"bias_keys", "bias_queries", "bias_heads", "bias_batch", "slope_batch"}, int32)}),
          {{"captures", {"true"}}}},
         {"DeviceRowTotals", {value_of("rows", "row_lse", 3), value_of("rows", "row_delta", 3)}, {{"gradients", {"true"}}}},
         {"DeviceGradients",
          buffers({"grad_query", "grad_key", "grad_value"}, 4),
          {{"gradients", {"true"}}, {"of_captures", {"false"}}, {"captures", {"false"}}}},
         {"DeviceTableSums",
          {buffer("slope_rows", 3), buffer("grad_slopes", 2), buffer("grad_bias", 4)},
          {{"captures", {"true"}}}},
         {"DeviceCaptureSums", {buffer("sums", 2), buffer("grad_capture", 4)}, {{"of_captures", {"true"}}}}},
        {kinds_with_weights,
         {"pair", {{"dot_product"}, {"additive"}}},
         {"schedule", {{"simt"}, {"split"}, {"mma"}, {"mma_split"}}},
         {"cache", {{"dense"}, {"pages"}, {"int8"}, {"int4"}}},
         users,
         {"gradients", {{"false"}, {"true"}}},
         {"of_captures", {{"false"}, {"true"}}},
         {"captures", {{"false"}, {"true"}}}},
        "DeviceAttention"};
}

// norm_eps and hadamard_factor are of type `real`.
Arguments steps_on_rows(Type real) {
    return join({buffers({"positions", "cos", "sin", "norm_weight", "norm_weight_f32"}, 2),
                 numbers({"has_norm", "weight_is_f32"}, boolean), numbers({"norm_eps", "hadamard_factor"}, real),
                 numbers({"halves", "neighbours", "first_rotated", "butterflies", "half_block"}, int32)});
}

// Rows after their steps, stored at `places`. `name` begins the names of the lists.
ArgumentLists stored_rows(const std::string &generator, const std::string &name, const Arguments &places, Type real) {
    return {generator,
            {{name + "Rows", join({buffers({"x"}, 4), places, steps_on_rows(real), numbers({"out_rows", "out_batch"}, int32)})},
             {name + "RowsOut", buffers({"out"}, 4), {{"quantised", {"false"}}}},
             {name + "QuantisedRows",
              join({buffers({"static_scale"}, 2), numbers({"has_static_scale", "scale_is_f16"}, boolean),
                    numbers({"channels_of_int8", "groups_of_int4", "channels_of_group"}, int32),
                    buffers({"int8", "int4", "scale_f32", "scale_f16", "minimum_f16"}, 4)}),
              {{"quantised", {"true"}}}}},
            {{"quantised", {{"false"}, {"true"}}}}};
}
ArgumentLists rows() { return stored_rows("rows", "", buffers({"places"}, 3), f64); }
ArgumentLists rows_on_device() {
    const Arguments places =
        join({numbers({"has_slots", "has_held_rows", "has_new_rows", "has_positions"}, boolean), buffers({"slots"}, 2),
              buffers({"held_rows", "new_rows"}, 1), numbers({"first_row"}, int32)});
    return stored_rows("rows_simt", "Device", places, f32);
}

// Kernels with one list each.
ArgumentLists list(const std::string &generator, const std::string &name, const std::vector<Arguments> &arguments) {
    return {generator, {{name, join(arguments)}}};
}

std::vector<ArgumentLists> parts_of_attention() {
    return {
        list("backward_rows", "BackwardRows",
             {buffers({"attended", "grad_out"}, 4),
              buffers({"lse", "grad_lse"}, 3),
              numbers({"has_grad_lse"}, boolean),
              {value_of("rows", "row_lse", 3), value_of("rows", "row_delta", 3)}}),
        list("sink_gradient_simt", "DeviceSinkGradient",
             {buffers({"sinks"}, 1), buffers({"row_lse", "row_delta"}, 3), buffers({"grad_sinks"}, 1)}),
        list("sink_gradient", "SinkGradient",
             {buffers({"sinks"}, 1), buffers({"row_lse", "row_delta"}, 3), buffers({"grad_sinks"}, 1)}),
        list("capture_sum", "CaptureSum",
             {buffers({"sums"}, 2), numbers({"sums_keys"}, boolean), buffers({"grad_capture"}, 2)}),
        list("capture_sum_simt", "DeviceCaptureSum",
             {buffers({"sums"}, 2), numbers({"sums_keys"}, boolean), buffers({"grad_capture"}, 2)}),
        list("mask_blocks", "MaskBlocks",
             {numbers({"query_heads", "key_heads", "queries", "keys"}, int32),
              numbers({"block_heads", "block_queries", "block_keys"}, int32),
              buffers({"offset"}, 1),
              {captures()},
              buffers({"blocks"}, 4)}),
        list("max_magnitude", "MaxMagnitude", {buffers({"x"}, 4), buffers({"out"}, 1)}),
        list("head_mean", "HeadMean", {buffers({"x"}, 4), buffers({"out"}, 3)}),
        list("weight_sums", "WeightSums", {buffers({"x"}, 4), buffers({"before", "out"}, 2)}),
        list("merge_simt", "DeviceMerge",
             {buffers({"out_0", "out_1", "out_2", "out_3", "out_4", "out_5", "out_6", "out_7"}, 4),
              buffers({"lse_0", "lse_1", "lse_2", "lse_3", "lse_4", "lse_5", "lse_6", "lse_7"}, 3), numbers({"count"}, int32),
              buffers({"out"}, 4), buffers({"lse"}, 3)}),
        list("merge", "Merge",
             {buffers({"out_0", "out_1", "out_2", "out_3", "lses", "sum_before"}, 4), numbers({"first", "count"}, int32),
              buffers({"out", "sum"}, 4), buffers({"lse"}, 3)}),
    };
}

std::vector<ArgumentLists> other_ops() {
    return {
        rows(),
        rows_on_device(),
        list("transform_rows_backward", "TransformRowsBackward",
             {buffers({"x", "grad_out"}, 4), steps_on_rows(f64), numbers({"heads_of_weight"}, int32), buffers({"grad_x"}, 4),
              buffers({"grad_weight"}, 2)}),
        list("dequantise_rows", "DequantiseRows",
             {buffers({"bytes", "scale_f32", "scale_f16", "minimum_f16"}, 3), numbers({"scale_is_f16"}, boolean),
              buffers({"static_scale"}, 2), numbers({"has_static_scale"}, boolean), buffers({"row_shift"}, 1),
              numbers({"channels_of_int8", "groups_of_int4", "channels_of_group"}, int32), buffers({"out"}, 3)}),
        list("convert_rows", "ConvertRows",
             {buffers({"x"}, 4), buffers({"factor"}, 2), numbers({"by_nibbles"}, boolean), buffers({"out"}, 4)}),
        list("linear", "Linear",
             {buffers({"x"}, 4),
              {{"weight", Type::buffer, 2, 3}},  // 3: packed
              buffers({"bias"}, 1),
              numbers({"ahead", "task_tiles"}, int32),
              buffers({"out"}, 4)}),
        list("linear_simt", "DeviceLinear",
             {{buffer("x", 4), buffer("weight", 2), number("has_bias", boolean), buffer("bias", 1), buffer("out", 4)}}),
        list("batch_dot", "BatchDot", {buffers({"a", "x"}, 4), numbers({"task_tiles"}, int32), buffers({"out"}, 4)}),
        list("transposed_dot", "TransposedDot", {buffers({"a", "x", "out"}, 4)}),
        list("pack_linear_weight", "PackLinearWeight", {buffers({"weight"}, 2), buffers({"packed"}, 3)}),
        list("masked_softmax", "MaskedSoftmax",
             {buffers({"scores"}, 4), buffers({"lengths"}, 2), {number("seed", boolean)}, buffers({"out"}, 4)}),
        list("masked_softmax_simt", "DeviceMaskedSoftmax",
             {{buffer("scores", 4), number("has_lengths", boolean), buffer("lengths", 2), number("seed", boolean),
               buffer("out", 4)}}),
        list("masked_softmax_backward", "MaskedSoftmaxBackward",
             {buffers({"weights", "grad_weights"}, 4), buffers({"lengths"}, 2), buffers({"grad_scores"}, 4)}),
        list("dropout_mask", "DropoutMask",
             {numbers({"seed_low", "seed_high", "offset", "first_query", "first_key", "first_head", "heads", "threshold"},
                      uint32),
              buffers({"out"}, 4)}),
    };
}

}  // namespace

const std::vector<ArgumentLists> &all_argument_lists() {
    static const std::vector<ArgumentLists> lists = [] {
        std::vector<ArgumentLists> all = {attention(), attention_backward(), attention_on_device()};
        for (const auto &more : {parts_of_attention(), other_ops()}) all.insert(all.end(), more.begin(), more.end());
        return all;
    }();
    return lists;
}

bool holds(const Condition &condition, const ParameterValues &form) {
    return std::all_of(condition.begin(), condition.end(), [&](const auto &c) {
        return std::find(c.second.begin(), c.second.end(), form.at(c.first)) != c.second.end();
    });
}

std::string type_in_words(const KernelArgument &a) {
    switch (a.type) {
    case Type::boolean: return "bool";
    case Type::int32: return "int32";
    case Type::uint32: return "uint32";
    case Type::uint64: return "uint64";
    case Type::f32: return "float";
    case Type::f64: return "double";
    case Type::captures: return "captures of a user's attention";
    case Type::buffer: break;
    }
    const std::string more = a.more_dimensions ? " or " + std::to_string(a.more_dimensions) : "";
    return "buffer of rank " + std::to_string(a.dimensions) + more;
}

}  // namespace attune
