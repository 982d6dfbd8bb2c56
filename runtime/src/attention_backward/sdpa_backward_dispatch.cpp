// SPDX-License-Identifier: MIT
// Which kernels compute the gradients of a call.
#include "attention_backward/sdpa_backward_call.h"
#include "user_attention/user_call.h"
#include <algorithm>

namespace attune {
namespace {

// The gradient of bias is a sum of one, and all steps of the score only add to it. Tiles do not cut vectors at the last key.
bool bias_goes_with_tiles(const BackwardCall &call, const VariantRecord &variant) {
    const SdpaProblem &p = call.forward.sizes;
    if (!call.bias.given() || !gives_bias(call.forward.op.id, variant)) return false;
    const std::int64_t every[] = {p.batch, p.query_heads, p.queries, p.keys};
    return std::equal(every, every + 4, call.bias.extent) && call.forward.softcap == 0 && p.keys % variant.kv_block == 0;
}

// f16 is taken apart for AMX tiles, once for a key head: few keys do not pay for that, and very many take too much memory.
// f32 gains nothing by that.
bool worth_amx_tiles(const SdpaProblem &p) {
    if (p.dtype == DType::bf16) return true;
    constexpr std::int64_t keys_at_least = 192, bytes_of_query = 24, bytes_of_key = 20, bytes_at_most = 256 << 20;
    if (p.dtype != DType::f16 || p.keys < keys_at_least) return false;
    return (rows_of_key_head(p) * bytes_of_query + p.keys * bytes_of_key) * std::max(p.head_dim, p.value_dim) <= bytes_at_most;
}

}  // namespace

bool gives_bias(OpId op, const VariantRecord &variant) {
    return variant.kind_id != Kind::plain && (op == OpId::sdpa_backward || op == OpId::cosine_backward);
}

namespace {

// Checks of inputs that only the kernels of the choice take: refused here, before any of them runs.
Status check_parts(const BackwardCall &call, const BackwardChoice &choice) {
    const SdpaCall &c = call.forward;
    const SdpaProblem &p = c.sizes;
    if (p.batch * p.query_heads == 0 || p.queries == 0 || p.keys == 0) return {};
    const VariantRecord &tiles = *choice.tiles.variant;
    if (tiles.schedule_id == Schedule::amx) {
        const NamedView of_gradients[] = {{"grad_out", call.grad_out},
                                          {"gradients.query", call.query},
                                          {"gradients.key", call.key},
                                          {"gradients.value", call.value},
                                          {"gradients.bias", call.bias}};
        if (Status s = check_32_bit_places(places_of(c), kernels_of_amx); !s.ok()) return s;
        if (Status s = check_32_bit_places(of_gradients, kernels_of_amx); !s.ok()) return s;
    }
    Choice blocks;
    for (const VariantRecord *v : {&tiles, choice.user_captures.variant})
        if (v && c.user && c.user->attention->has_mask)
            if (Status s = choose_blocks(c, {1, v->tile_q, v->kv_block}, blocks); !s.ok()) return s;
    return {};
}

}  // namespace

Status choose_backward(const Context::State &context, const BackwardCall &call, std::string_view variant,
                       BackwardChoice &choice) {
    const SdpaProblem &p = call.forward.sizes;
    const Op &op = call.forward.op;
    const Forced forced = forced_variant(context, variant, op);
    // Products of AMX tiles and of pairs first, on CPUs that have such instructions.
    std::vector<Candidate> tiles;
    if (worth_amx_tiles(p)) tiles.push_back({Schedule::amx, "", "tiles of queries and keys"});
    tiles.insert(tiles.end(), {{Schedule::bf16_dot, "", "tiles of queries and keys"},
                               {Schedule::blocked, "", "tiles of queries and keys"},
                               {Schedule::root, "", "nothing else is built"}});
    const Kind kind = p.dropout ? Kind::training : p.scored ? Kind::scored : Kind::plain;
    if (Status s = choose_variant({op, p.dtype, kind, p.head_dim, p.value_dim}, tiles, forced, choice.tiles); !s.ok()) return s;
    const Candidate root[] = {{Schedule::root, "", "nothing else is built"}};
    const Candidate rows[] = {{Schedule::rows, "", ""}, {Schedule::root, "", ""}};
    if (Status s = choose_variant({ops::backward_rows, p.dtype}, rows, {}, choice.rows); !s.ok()) return s;
    choice.bias_with_tiles = bias_goes_with_tiles(call, *choice.tiles.variant);
    if ((call.bias.given() && !choice.bias_with_tiles) || call.alibi_slopes.given()) {
        const Candidate captures[] = {{Schedule::blocked, "", ""}, {Schedule::root, "", ""}};
        const VariantNeeds needs{call.capture_op, p.dtype, Kind::training, p.head_dim, p.value_dim};
        if (Status s = choose_variant(needs, captures, forced_variant(context, {}, needs.op), choice.captures); !s.ok())
            return s;
        const Op &slopes = p.dtype == DType::f64 ? ops::capture_sum_of_f64 : ops::capture_sum;
        if (Status s = choose_variant({ops::capture_sum, p.dtype}, root, {}, choice.bias_sum); !s.ok()) return s;
        if (Status s = choose_variant({slopes, DType::f32}, root, {}, choice.slope_sum); !s.ok()) return s;
    }
    if (Status s = choose_variant({ops::sink_gradient, sum_type(p.dtype)}, root, {}, choice.sinks); !s.ok()) return s;
    if (Status s = choose_user_captures(call, choice); !s.ok()) return s;
    return check_parts(call, choice);
}

}  // namespace attune
