// SPDX-License-Identifier: MIT
// One call of context parallelism as data: sizes, options and layout, with tensors of all positions, the same on every rank.
// No test framework: the program for MPI uses it, too.
#pragma once
#include "attune/context_parallel.h"
#include "tests/support/half_elements.h"
#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <vector>

namespace attune_test {

using Index = std::int64_t;
enum class Scheme { ring, gathered, heads, decode };

struct ParallelCase {
    Index batch = 1, query_heads = 4, key_heads = 2, positions = 100, head_dim = 64, value_dim = 64, chunk = 16;
    Index queries = 1;  // of sharded_decode
    attune::ParallelLayout layout = attune::ParallelLayout::contiguous;
    Scheme scheme = Scheme::ring;
    bool backward = false;
    attune::Causal causal = attune::Causal::none;
    attune::Window window = {};
    std::vector<std::int32_t> documents = {}, lens = {};
    bool sinks = false, mask = false, bias = false, alibi = false, grad_lse = false;
    bool slopes = false;      // of ALiBi, given as a tensor
    bool grad_slopes = true;  // wanted in the backward of a case with ALiBi
    bool grad_rows = true;    // gradients of query, key and value are wanted in the backward
    double softcap = 0;
    attune::Dropout dropout = {};
    unsigned seed = 1;
    bool any_thread = true;
};

inline std::string describe(const ParallelCase &c) {
    constexpr const char *schemes[] = {"ring", "gathered", "heads", "decode"};
    std::ostringstream to;
    to << schemes[int(c.scheme)] << (c.backward ? " and backward" : "") << " B " << c.batch << " Hq " << c.query_heads
       << " Hkv " << c.key_heads << " S " << c.positions << " Dk " << c.head_dim << " Dv " << c.value_dim << " chunk "
       << c.chunk << " layout " << int(c.layout) << " causal " << int(c.causal) << " window " << c.window.left << ','
       << c.window.right << (c.sinks ? " sinks" : "") << (c.mask ? " mask" : "") << (c.bias ? " bias" : "")
       << (c.alibi ? " alibi" : "") << (c.slopes ? " slopes" : "") << " softcap " << c.softcap
       << (c.grad_lse ? " grad_lse" : "");
    if (c.scheme == Scheme::decode) to << " queries " << c.queries;
    for (const auto &list : {std::pair("documents", c.documents), {"lens", c.lens}}) {
        if (!list.second.empty()) to << ' ' << list.first;
        for (const std::int32_t n : list.second) to << ' ' << n;
    }
    const attune::Dropout &d = c.dropout;
    if (d.probability > 0)
        to << " dropout " << d.probability << ' ' << d.seed << " first " << d.first_query << ' ' << d.first_key << ' '
           << d.first_head << ' ' << d.heads;
    to << " seed " << c.seed;
    return to.str();
}

// A case of awkward sizes: chunks that divide nothing, fewer chunks than ranks, no positions.
inline ParallelCase random_case(unsigned seed) {
    std::mt19937 random(seed);
    const auto one_of = [&](std::initializer_list<Index> all) { return all.begin()[random() % all.size()]; };
    const auto chance = [&](unsigned n) { return random() % n == 0; };
    ParallelCase c;
    c.seed = seed;
    c.scheme = Scheme(random() % 4);
    c.key_heads = c.scheme == Scheme::heads ? 12 : one_of({1, 2, 3});
    c.query_heads = c.key_heads * (c.scheme == Scheme::heads ? 1 : one_of({1, 2, 4}));
    c.batch = one_of({1, 1, 2});
    c.positions = one_of({0, 1, 2, 3, 17, 64, 97, 130});
    c.head_dim = one_of({64, 64, 40}), c.value_dim = chance(3) ? 48 : c.head_dim;
    c.chunk = one_of({5, 16, 32, 64});
    c.queries = one_of({1, 1, 3});
    c.layout = attune::ParallelLayout(random() % 4);
    c.causal = chance(2) ? attune::Causal::top_left : attune::Causal::none;
    if (chance(3)) c.window = {one_of({-1, 0, 7, 40}), one_of({-1, 0, 9})};
    c.sinks = chance(3), c.softcap = chance(4) ? 5 : 0;
    const bool decode = c.scheme == Scheme::decode, heads = c.scheme == Scheme::heads;
    if (!decode && !heads) c.mask = chance(5), c.bias = chance(5);
    if (!heads) c.alibi = chance(5);
    if (!decode && chance(4)) {
        c.batch = 1, c.documents = {0};
        while (c.documents.back() < c.positions && c.documents.size() < 6)
            c.documents.push_back(std::int32_t(std::min<Index>(c.positions, c.documents.back() + one_of({0, 1, 20, 47}))));
    } else if (chance(3) || decode) {
        for (Index b = 0; b < c.batch; b++) c.lens.push_back(std::int32_t(random() % std::uint64_t(c.positions + 1)));
    }
    c.backward = c.scheme == Scheme::ring && chance(2);
    c.grad_lse = c.backward && chance(3);
    c.any_thread = !chance(3);
    if (c.backward && !c.alibi) c.slopes = chance(4);
    if (!decode && chance(3)) {
        c.dropout = {0.3, seed, 1};
        if (chance(2)) c.dropout.first_query = 7, c.dropout.first_key = 9, c.dropout.first_head = 3, c.dropout.heads = 17;
    }
    return c;
}

// A random case with dropout and packed documents, empty ones and one position among them; a ring has a backward, too.
inline ParallelCase random_packed_dropout(unsigned seed) {
    ParallelCase c = random_case(seed);
    std::mt19937 random(seed * 2 + 2);
    if (c.scheme == Scheme::decode) c.scheme = Scheme::ring;
    c.batch = 1, c.lens = {}, c.backward = c.scheme == Scheme::ring;
    c.positions = std::max<Index>(c.positions, 3);
    c.documents = {0};
    for (std::uint32_t n = 1 + random() % 5; n > 0; n--)
        c.documents.push_back(std::int32_t(
            std::min<Index>(c.positions, c.documents.back() + std::array<Index, 5>{0, 1, 13, 30, 61}[random() % 5])));
    c.dropout = {0.1 + 0.1 * double(random() % 7), random(), std::uint32_t(random() % 3)};
    if (random() % 2) c.dropout.first_query = std::uint32_t(random()), c.dropout.first_key = std::uint32_t(random());
    if (random() % 2)
        c.dropout.first_head = std::uint32_t(random()), c.dropout.heads = std::uint32_t(Index(random() % 5) + c.query_heads);
    return c;
}

// Tensors of all positions, equal for equal cases.
template<typename T> struct ParallelArrays {
    using Sums = Sum<T>;
    explicit ParallelArrays(const ParallelCase &c) {
        std::mt19937 random(c.seed * 2 + 1);
        const auto fill = [&](auto &v, Index n, double spread) {
            std::uniform_real_distribution<double> of(-spread, spread);
            for (Index k = 0; k < n; k++) v.push_back(typename std::decay_t<decltype(v)>::value_type(of(random)));
        };
        const Index rows = c.scheme == Scheme::decode ? c.queries : c.positions;
        fill(query, c.batch * c.query_heads * rows * c.head_dim, 1.7);
        fill(key, c.batch * c.key_heads * c.positions * c.head_dim, 1.7);
        fill(value, c.batch * c.key_heads * c.positions * c.value_dim, 1.7);
        fill(grad_out, c.batch * c.query_heads * rows * c.value_dim, 1);
        fill(grad_lse, c.batch * c.query_heads * rows, 1);
        fill(sinks, c.query_heads, 2);
        fill(bias, c.query_heads * c.positions * c.positions, 1);
        for (Index k = 0; k < c.positions * c.positions; k++) mask.push_back(random() % 4 != 0);
        for (Index b = 0; b < c.batch; b++)
            for (const float slope : attune::alibi_slopes(c.query_heads)) slopes.push_back(slope);
    }
    std::vector<T> query, key, value, grad_out, bias;
    std::vector<Sums> grad_lse;
    std::vector<float> sinks, slopes;
    std::vector<unsigned char> mask;  // bool
};

// Results of all positions; a rank writes its own rows. Rows that nobody writes stay as they are.
template<typename T> struct ParallelResults {
    explicit ParallelResults(const ParallelCase &c) {
        const Index rows = c.scheme == Scheme::decode ? c.queries : c.positions;
        out.resize(std::size_t(c.batch * c.query_heads * rows * c.value_dim), T(77));
        lse.resize(std::size_t(c.batch * c.query_heads * rows), Sum<T>(77));
        if (!c.backward) return;
        query.resize(std::size_t(c.batch * c.query_heads * rows * c.head_dim), T(77));
        key.resize(std::size_t(c.batch * c.key_heads * c.positions * c.head_dim), T(77));
        value.resize(std::size_t(c.batch * c.key_heads * c.positions * c.value_dim), T(77));
        if (c.bias) bias.resize(std::size_t(c.query_heads * c.positions * c.positions), T(77));
        sinks.resize(std::size_t(c.query_heads), 77);
        if (c.alibi || c.slopes) slopes.resize(std::size_t((c.slopes ? c.batch : 1) * c.query_heads), 77);
    }
    std::vector<T> out, query, key, value, bias;  // out, and gradients
    std::vector<Sum<T>> lse;
    std::vector<float> sinks, slopes;
};

// Rows of a rank of arrays (.., S, D), and back.
template<typename T> class RankRows {
public:
    RankRows(const attune::ParallelPlan &plan, int rank, Index outer, Index width)
        : plan_(plan), rank_(rank), outer_(outer), width_(width), rows(std::size_t(outer * plan.positions_of(rank) * width)) {}
    std::vector<T> &from(const std::vector<T> &all) {
        each([&](Index at, Index of_all, Index n) { std::memcpy(&rows[at], &all[of_all], n * sizeof(T)); });
        return rows;
    }
    void to(std::vector<T> &all) const {
        each([&](Index at, Index of_all, Index n) { std::memcpy(&all[of_all], &rows[at], n * sizeof(T)); });
    }
    // Whether the rank's rows of two arrays have the same bits.
    bool same(const std::vector<T> &a, const std::vector<T> &b) const {
        bool all = true;
        each([&](Index, Index of_all, Index n) { all = all && std::memcmp(&a[of_all], &b[of_all], n * sizeof(T)) == 0; });
        return all;
    }

private:
    template<typename F> void each(const F &f) const {
        Index at = 0;
        for (Index o = 0; o < outer_; o++)
            for (const attune::PositionRange &r : plan_.of_rank[std::size_t(rank_)]) {
                const Index n = (r.end - r.begin) * width_;
                f(at, (o * plan_.positions + r.begin) * width_, n);
                at += n;
            }
    }
    const attune::ParallelPlan &plan_;
    const int rank_;
    const Index outer_, width_;

public:
    std::vector<T> rows;
};

inline attune::Status plan_of(const ParallelCase &c, int ranks, attune::ParallelPlan &plan) {
    attune::ParallelBand band{c.causal, c.window, {}};
    if (!c.documents.empty()) band.cu_seqlens = attune::ConstView(c.documents);
    return attune::plan_positions(c.positions, ranks, c.layout, c.chunk, band, plan);
}

// The options of all positions, but for mask and bias.
template<typename T> attune::SdpaOptions options_of(const ParallelCase &c, const ParallelArrays<T> &a) {
    attune::SdpaOptions o;
    o.dropout = c.dropout, o.softcap = c.softcap, o.causal = c.causal, o.window = c.window, o.alibi = c.alibi;
    if (!c.lens.empty()) o.valid_lens = attune::ConstView(c.lens);
    if (c.sinks) o.sinks = attune::ConstView(a.sinks);
    if (c.slopes) o.alibi_slopes = attune::ConstView(a.slopes, {c.batch, c.query_heads});
    return o;
}
inline attune::ConstView mask_view(const unsigned char *mask, Index rows, Index columns) {
    return {reinterpret_cast<const bool *>(mask), {rows, columns}};
}

// The functions that a case calls: those of C++, or functions of their types over another API.
struct ParallelCalls {
    decltype(&attune::ring_attention) ring = attune::ring_attention, gathered = attune::gathered_attention,
                                      heads = attune::head_parallel_attention, decode = attune::sharded_decode;
    decltype(&attune::ring_attention_backward) backward = attune::ring_attention_backward;
};

// One rank's part of a case; `report` of the forward.
template<typename T>
attune::Status run_rank(attune::Context &context, attune::Communicator communicator, const ParallelCase &c,
                        const attune::ParallelPlan &plan, const ParallelArrays<T> &a, ParallelResults<T> &all,
                        attune::ParallelReport *report = nullptr, attune::ParallelReport *of_backward = nullptr,
                        const ParallelCalls &calls = {}) {
    using attune::ConstView, attune::View;
    const int rank = communicator.rank;
    communicator.any_thread = communicator.any_thread && c.any_thread;
    const Index b = c.batch, hq = c.query_heads, hk = c.key_heads, s = plan.positions_of(rank);
    attune::ParallelOptions options{options_of(c, a), report};
    RankRows<T> key(plan, rank, b * hk, c.head_dim), value(plan, rank, b * hk, c.value_dim);
    const ConstView k(key.from(a.key), {b, hk, s, c.head_dim}), v(value.from(a.value), {b, hk, s, c.value_dim});
    if (c.scheme == Scheme::decode) {  // every rank has the whole result: it writes its own copy
        ParallelResults<T> own(c);
        options.attention.lse = View(own.lse, {b, hq, c.queries});
        const ConstView q(a.query, {b, hq, c.queries, c.head_dim});
        const attune::Status status =
            calls.decode(context, communicator, plan, q, k, v, View(own.out, {b, hq, c.queries, c.value_dim}), options);
        all = std::move(own);
        return status;
    }
    RankRows<T> query(plan, rank, b * hq, c.head_dim), out(plan, rank, b * hq, c.value_dim);
    RankRows<Sum<T>> lse(plan, rank, b * hq, 1);
    RankRows<unsigned char> mask(plan, rank, 1, c.positions);
    RankRows<T> bias(plan, rank, hq, c.positions);
    const ConstView q(query.from(a.query), {b, hq, s, c.head_dim});
    if (c.mask) options.attention.mask = mask_view(mask.from(a.mask).data(), s, c.positions);
    if (c.bias) options.attention.bias = ConstView(bias.from(a.bias), {hq, s, c.positions});
    options.attention.lse = View(lse.rows, {b, hq, s});
    const auto forward = c.scheme == Scheme::ring ? calls.ring : c.scheme == Scheme::gathered ? calls.gathered : calls.heads;
    attune::Status status = forward(context, communicator, plan, q, k, v, View(out.rows, {b, hq, s, c.value_dim}), options);
    if (!status.ok()) return status;
    out.to(all.out), lse.to(all.lse);
    if (!c.backward) return status;

    RankRows<T> grad_out(plan, rank, b * hq, c.value_dim), grad_query(plan, rank, b * hq, c.head_dim),
        grad_key(plan, rank, b * hk, c.head_dim), grad_value(plan, rank, b * hk, c.value_dim);
    RankRows<Sum<T>> grad_lse(plan, rank, b * hq, 1);
    std::vector<float> sinks(std::size_t(hq), 77), slopes(ParallelResults<T>(c).slopes);
    attune::SdpaForward results{View(out.rows, {b, hq, s, c.value_dim}), View(lse.rows, {b, hq, s}),
                                View(grad_out.from(a.grad_out), {b, hq, s, c.value_dim})};
    if (c.grad_lse) results.grad_lse = View(grad_lse.from(a.grad_lse), {b, hq, s});
    attune::SdpaGradients gradients{View(grad_query.rows, {b, hq, s, c.head_dim}), View(grad_key.rows, {b, hk, s, c.head_dim}),
                                    View(grad_value.rows, {b, hk, s, c.value_dim})};
    RankRows<T> grad_bias(plan, rank, hq, c.positions);
    if (!c.grad_rows) gradients = {};
    if (c.sinks) gradients.sinks = View(sinks);
    if (c.slopes && c.grad_slopes) gradients.alibi_slopes = View(slopes, {b, hq});
    if (c.alibi && c.grad_slopes) gradients.alibi_slopes = View(slopes, {hq});
    if (c.bias && s > 0) gradients.bias = View(grad_bias.rows, {hq, s, c.positions});
    options.attention.lse = {}, options.report = of_backward;
    status = calls.backward(context, communicator, plan, q, k, v, results, gradients, options);
    if (!status.ok()) return status;
    grad_query.to(all.query), grad_key.to(all.key), grad_value.to(all.value);
    if (c.bias) grad_bias.to(all.bias);
    if (c.sinks && rank == 0) all.sinks = sinks;
    if (rank == 0) all.slopes = slopes;
    return status;
}

// Names the first result of which a rank's rows have other bits; empty: none.
template<typename T>
std::string difference(const ParallelCase &c, const attune::ParallelPlan &plan, int rank, const ParallelResults<T> &a,
                       const ParallelResults<T> &b) {
    if (c.scheme == Scheme::decode)
        return a.out.size() == b.out.size() && std::memcmp(a.out.data(), b.out.data(), a.out.size() * sizeof(T)) == 0 &&
                       std::memcmp(a.lse.data(), b.lse.data(), a.lse.size() * sizeof(Sum<T>)) == 0
                   ? ""
                   : "out or lse";
    const Index of_queries = c.batch * c.query_heads, of_keys = c.batch * c.key_heads;
    if (!RankRows<T>(plan, rank, of_queries, c.value_dim).same(a.out, b.out)) return "out";
    if (!RankRows<Sum<T>>(plan, rank, of_queries, 1).same(a.lse, b.lse)) return "lse";
    if (!c.backward) return "";
    if (!RankRows<T>(plan, rank, of_queries, c.head_dim).same(a.query, b.query)) return "gradient of query";
    if (!RankRows<T>(plan, rank, of_keys, c.head_dim).same(a.key, b.key)) return "gradient of key";
    if (!RankRows<T>(plan, rank, of_keys, c.value_dim).same(a.value, b.value)) return "gradient of value";
    if (c.bias && !RankRows<T>(plan, rank, c.query_heads, c.positions).same(a.bias, b.bias)) return "gradient of bias";
    if (rank == 0 && std::memcmp(a.sinks.data(), b.sinks.data(), a.sinks.size() * sizeof(float)) != 0)
        return "gradient of sinks";
    if (rank == 0 && !a.slopes.empty() && std::memcmp(a.slopes.data(), b.slopes.data(), a.slopes.size() * sizeof(float)) != 0)
        return "gradient of slopes";
    return "";
}

}  // namespace attune_test
