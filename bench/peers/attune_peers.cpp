// SPDX-License-Identifier: MIT
// The library as plain C functions, for peers/attune_library.py, which has the same structs. A function returns null, or an
// error message that lives until the next call.
#include "attune/attune.h"
#include "cases/machine.h"
#include "peers/tensor.h"
#include <string>

extern "C" {

struct PeersOptions {
    std::int32_t score, causal, alibi, weights_mode;  // attune::Score, Causal, bool, WeightsMode
    double scale, softcap, dropout;                   // scale NaN: not given
    std::uint64_t seed;
    std::int64_t left, right;  // attune::Window
    PeersTensor score_weight, bias, mask, valid_lens, cache_lens, weights, lse;
};

struct PeersPages {
    PeersTensor rows, scale, minimum;
};

struct PeersRowSteps {
    PeersTensor norm_weight, cos, sin, positions;
    std::int32_t hadamard;  // bool: of keys and values
};

struct PeersBackward {
    PeersTensor out, lse, grad_out;                                       // of the forward pass
    PeersTensor grad_query, grad_key, grad_value, grad_bias, grad_score;  // outputs; grad_score is by w_score
};

struct PeersMultiHead {
    std::int64_t heads, key_heads;
    PeersTensor query, key, value, out, query_bias, key_bias, value_bias, out_bias;
};
}

namespace {

struct Session {
    Session(int threads, void *stream)
        : context({.threads = threads, .device = {.cuda_stream = stream}}),
          team(context.threads() > 0 ? context.threads() : 1) {}
    attune::Context context;
    bench::Team team;
    std::string message, text;
};

using bench::output;
using bench::view;

attune::SdpaOptions options(const PeersOptions &p) {
    attune::SdpaOptions o;
    o.score = static_cast<attune::Score>(p.score);
    o.causal = static_cast<attune::Causal>(p.causal);
    o.alibi = p.alibi != 0;
    o.weights_mode = static_cast<attune::WeightsMode>(p.weights_mode);
    if (p.scale == p.scale) o.scale = p.scale;
    o.softcap = p.softcap;
    o.dropout = {p.dropout, p.seed, 0};
    o.window = {p.left, p.right};
    o.score_weight = view(p.score_weight);
    o.bias = view(p.bias), o.mask = view(p.mask);
    o.valid_lens = view(p.valid_lens), o.cache_lens = view(p.cache_lens);
    o.weights = output(p.weights), o.lse = output(p.lse);
    return o;
}

attune::Pages pages(const PeersPages &p) { return {output(p.rows), output(p.scale), output(p.minimum)}; }

const char *answer(Session &s, const attune::Status &status) {
    s.message = status.message();
    return status.ok() ? nullptr : s.message.c_str();
}

}  // namespace

extern "C" {

// Opens a session. stream: a CUstream for tensors on a device; null: its default stream.
Session *attune_peers_open(int threads, void *stream) { return new Session(threads, stream); }
void attune_peers_close(Session *s) { delete s; }
const char *attune_peers_status(Session *s) { return answer(*s, s->context.status()); }
const char *attune_peers_last_variant(Session *s) { return s->context.last_variant().c_str(); }

const char *attune_peers_sdpa(Session *s, const PeersTensor *query, const PeersTensor *key, const PeersTensor *value,
                              const PeersTensor *out, const PeersOptions *o) {
    return answer(*s, attune::scaled_dot_product_attention(s->context, view(*query), view(*key), view(*value), output(*out),
                                                           options(*o)));
}

const char *attune_peers_sdpa_backward(Session *s, const PeersTensor *query, const PeersTensor *key, const PeersTensor *value,
                                       const PeersBackward *b, const PeersOptions *o) {
    const attune::SdpaForward forward{view(b->out), view(b->lse), view(b->grad_out)};
    attune::SdpaGradients gradients;
    gradients.query = output(b->grad_query), gradients.key = output(b->grad_key), gradients.value = output(b->grad_value);
    gradients.bias = output(b->grad_bias);
    return answer(*s, attune::scaled_dot_product_attention_backward(s->context, view(*query), view(*key), view(*value), forward,
                                                                    gradients, options(*o)));
}

const char *attune_peers_variable_length(Session *s, const PeersTensor *query, const PeersTensor *key, const PeersTensor *value,
                                         const PeersTensor *cu_seqlens_q, const PeersTensor *cu_seqlens_k,
                                         const PeersTensor *out, const PeersOptions *o) {
    return answer(*s, attune::variable_length_attention(s->context, view(*query), view(*key), view(*value), view(*cu_seqlens_q),
                                                        view(*cu_seqlens_k), output(*out), options(*o)));
}

const char *attune_peers_paged(Session *s, const PeersTensor *query, const PeersPages *keys, const PeersPages *values,
                               const PeersTensor *cu_seqlens_q, const PeersTensor *block_table, const PeersTensor *lens,
                               const PeersTensor *out) {
    return answer(*s, attune::paged_attention(s->context, view(*query), pages(*keys), pages(*values), view(*cu_seqlens_q),
                                              view(*block_table), view(*lens), output(*out)));
}

const char *attune_peers_append(Session *s, const PeersTensor *key, const PeersTensor *value, const PeersTensor *slots,
                                const PeersPages *keys, const PeersPages *values, const PeersRowSteps *steps) {
    attune::AppendOptions o;
    o.key_steps.norm_weight = view(steps->norm_weight);
    o.key_steps.rope.cos = view(steps->cos), o.key_steps.rope.sin = view(steps->sin);
    o.key_steps.hadamard = o.rotate_values = steps->hadamard != 0;
    o.positions = view(steps->positions);
    return answer(*s,
                  attune::paged_append(s->context, view(*key), view(*value), view(*slots), pages(*keys), pages(*values), o));
}

const char *attune_peers_additive(Session *s, const PeersTensor *query, const PeersTensor *key, const PeersTensor *value,
                                  const PeersTensor *out, const PeersTensor *w_query, const PeersTensor *w_key,
                                  const PeersTensor *w_score, const PeersOptions *o) {
    attune::AdditiveOptions additive;
    additive.w_query = view(*w_query), additive.w_key = view(*w_key), additive.w_score = view(*w_score);
    additive.attention = options(*o);
    return answer(*s, attune::additive_attention(s->context, view(*query), view(*key), view(*value), output(*out), additive));
}

const char *attune_peers_additive_backward(Session *s, const PeersTensor *query, const PeersTensor *key,
                                           const PeersTensor *value, const PeersTensor *w_score, const PeersBackward *b,
                                           const PeersOptions *o) {
    attune::AdditiveOptions additive;
    additive.w_score = view(*w_score);
    additive.attention = options(*o);
    attune::AdditiveGradients gradients;
    gradients.query = output(b->grad_query), gradients.key = output(b->grad_key), gradients.value = output(b->grad_value);
    gradients.w_score = output(b->grad_score);
    const attune::SdpaForward forward{view(b->out), view(b->lse), view(b->grad_out)};
    return answer(*s, attune::additive_attention_backward(s->context, view(*query), view(*key), view(*value), forward,
                                                          gradients, additive));
}

const char *attune_peers_multi_head(Session *s, const PeersTensor *query, const PeersTensor *key, const PeersTensor *value,
                                    const PeersTensor *out, const PeersMultiHead *layer, const PeersOptions *o) {
    attune::MultiHeadWeights w;
    w.query = view(layer->query), w.key = view(layer->key), w.value = view(layer->value), w.out = view(layer->out);
    w.query_bias = view(layer->query_bias), w.key_bias = view(layer->key_bias);
    w.value_bias = view(layer->value_bias), w.out_bias = view(layer->out_bias);
    attune::MultiHeadOptions multi_head;
    multi_head.heads = layer->heads, multi_head.key_heads = layer->key_heads;
    multi_head.attention = options(*o);
    multi_head.attention.average_weights = multi_head.attention.weights.rank == 3;
    return answer(
        *s, attune::multi_head_attention(s->context, view(*query), view(*key), view(*value), w, output(*out), multi_head));
}

const char *attune_peers_linear(Session *s, const PeersTensor *x, const PeersTensor *weight, const PeersTensor *bias,
                                const PeersTensor *out) {
    return answer(*s, attune::linear(s->context, view(*x), view(*weight), view(*bias), output(*out)));
}

const char *attune_peers_pack_linear_weight(Session *s, const PeersTensor *weight, const PeersTensor *packed) {
    return answer(*s, attune::pack_linear_weight(s->context, view(*weight), output(*packed)));
}

const char *attune_peers_batch_dot(Session *s, const PeersTensor *a, const PeersTensor *x, const PeersTensor *out) {
    return answer(*s, attune::batch_dot(s->context, view(*a), view(*x), output(*out)));
}

const char *attune_peers_masked_softmax(Session *s, const PeersTensor *scores, const PeersTensor *out,
                                        const PeersTensor *valid_lens) {
    attune::MaskedSoftmaxOptions o;
    o.valid_lens = view(*valid_lens);
    return answer(*s, attune::masked_softmax(s->context, view(*scores), output(*out), o));
}

const char *attune_peers_dropout_mask(Session *s, double probability, std::uint64_t seed, const PeersTensor *mask) {
    return answer(*s, attune::dropout_mask(s->context, {probability, seed, 0}, output(*mask)));
}

// Peaks in FLOP/s: multiply-adds in f32, bf16 dot products, AMX tiles of bf16 (0 where the CPU has none).
double attune_peers_fma_peak(Session *s) { return bench::fma_peak(s->team, attune::DType::f32); }
double attune_peers_dot_peak(Session *s) { return bench::bf16_dot_peak(s->team); }
double attune_peers_tile_peak(Session *s) { return bench::bf16_tile_peak(s->team); }

double attune_peers_cpu_seconds_of_others() { return bench::cpu_seconds_of_others(); }

// One write of an array by all threads: the least cost of an output of that size.
const char *attune_peers_write(Session *s, const PeersTensor *out, std::int64_t bytes) {
    const int parts = 8 * s->team.threads();
    s->team.run(parts, [&](int part) {
        const std::int64_t from = bytes * part / parts, to = bytes * (part + 1) / parts;
        std::memset(static_cast<char *>(out->data) + from, 1, static_cast<std::size_t>(to - from));
    });
    return nullptr;
}

// One copy of so many bytes by all threads: the least cost of a call that reads and writes as much.
const char *attune_peers_copy(Session *s, const PeersTensor *from, const PeersTensor *to, std::int64_t bytes) {
    const int parts = 8 * s->team.threads();
    s->team.run(parts, [&](int part) {
        const std::int64_t first = bytes * part / parts, end = bytes * (part + 1) / parts;
        std::memcpy(static_cast<char *>(to->data) + first, static_cast<const char *>(from->data) + first,
                    static_cast<std::size_t>(end - first));
    });
    return nullptr;
}

// One read of two arrays by all threads: the least time of a call that needs both.
const char *attune_peers_read(Session *s, const PeersTensor *key, const PeersTensor *value, std::int64_t key_bytes,
                              std::int64_t value_bytes) {
    bench::plain_sum(s->team, attune::DType::f32,
                     {{key->data, static_cast<std::size_t>(key_bytes)}, {value->data, static_cast<std::size_t>(value_bytes)}});
    return nullptr;
}

// Description of the machine in lines of "key<tab>value".
const char *attune_peers_machine(Session *s) {
    s->text.clear();
    for (const auto &t : attune::targets())
        if (s->text.empty() && t.missing.empty()) s->text = "target\t" + std::string(t.name) + "\n";
    for (const auto &[key, value] : bench::describe_machine()) s->text += key + "\t" + value + "\n";
    return s->text.c_str();
}
}
