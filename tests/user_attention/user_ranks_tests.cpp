// SPDX-License-Identifier: MIT
// Users' attention over the ranks of a communicator: indices of the score and mask are those of all positions, so the results
// are those of the formula on one machine, with the same bits for any number of ranks.
#include "alibi_of_16_bits.h"
#include "tests/context_parallel/thread_ranks.h"
#include "tests/user_attention/everything_case.h"

using namespace attune_test;
using attune::ConstView, attune::View, attune::ParallelLayout;

namespace {

struct RankedCase {
    Scheme scheme = Scheme::ring;
    ParallelLayout layout = ParallelLayout::contiguous;
    Index chunk = 16;
    bool documents = false;  // batch entries are documents of one sequence
};

// (D, H, L, width) as (1, H, D L, width), and back.
template<typename T> std::vector<T> packed(const std::vector<T> &x, const UserSizes &s, Index heads, bool back) {
    std::vector<T> y(x.size());
    const Index width = Index(x.size()) / (s.batch * heads * s.keys);
    for (Index b = 0; b < s.batch; b++)
        for (Index h = 0; h < heads; h++)
            for (Index n = 0; n < s.keys * width; n++) {
                const Index at = (b * heads + h) * s.keys * width + n, to = (h * s.batch + b) * s.keys * width + n;
                y[std::size_t(back ? at : to)] = x[std::size_t(back ? to : at)];
            }
    return y;
}

attune::ParallelPlan plan_of(const RankedCase &c, const UserSizes &s, int ranks) {
    attune::ParallelPlan plan;
    std::vector<std::int32_t> ends;
    for (Index b = 0; c.documents && b <= s.batch; b++) ends.push_back(std::int32_t(b * s.keys));
    attune::ParallelBand band;
    if (c.documents) band.cu_seqlens = ConstView(ends);
    const Index positions = c.documents ? s.batch * s.keys : s.keys;
    REQUIRE(attune::plan_positions(positions, ranks, c.layout, c.chunk, band, plan).ok());
    return plan;
}

// One rank's part of a call of Everything: its rows of `all`; the gradients of captures are its own.
template<typename T>
attune::Status run_rank(attune::Context &context, const attune::Communicator &communicator, const RankedCase &c,
                        const attune::ParallelPlan &plan, EverythingArrays<T> &all, const everything::Options &options,
                        Captured<T> &grad_captures) {
    const UserSizes &s = all.sizes;
    const int rank = communicator.rank;
    const Index b = c.documents ? 1 : s.batch, rows = plan.positions_of(rank), d = s.head_dim, q_outer = b * s.heads,
                k_outer = b * s.key_heads;
    RankRows<T> query(plan, rank, q_outer, d), key(plan, rank, k_outer, d), value(plan, rank, k_outer, d),
        out(plan, rank, q_outer, d), lse(plan, rank, q_outer, 1), grad_out(plan, rank, q_outer, d),
        grad_query(plan, rank, q_outer, d), grad_key(plan, rank, k_outer, d), grad_value(plan, rank, k_outer, d);
    const ConstView q(query.from(all.query), {b, s.heads, rows, d}), k(key.from(all.key), {b, s.key_heads, rows, d}),
        v(value.from(all.value), {b, s.key_heads, rows, d});
    const View o(out.rows, {b, s.heads, rows, d}), l(lse.rows, {b, s.heads, rows});
    everything::Options given = options;
    given.sdpa.lse = l;
    const auto forward = c.scheme == Scheme::ring       ? everything::ring_attention
                         : c.scheme == Scheme::gathered ? everything::gathered_attention
                                                        : everything::head_parallel_attention;
    if (attune::Status status = forward(context, communicator, plan, q, k, v, o, given, nullptr); !status.ok()) return status;
    out.to(all.out), lse.to(all.lse);
    given.sdpa.lse = {};
    everything::Gradients gradients{.sdpa = {.query = View(grad_query.rows, {b, s.heads, rows, d}),
                                             .key = View(grad_key.rows, {b, s.key_heads, rows, d}),
                                             .value = View(grad_value.rows, {b, s.key_heads, rows, d})},
                                    .table = View(grad_captures[0].data(), {s.heads, 11}),
                                    .temperature = View(grad_captures[1].data(), {s.batch, s.heads}),
                                    .decay = View(grad_captures[4].data(), {1})};
    const attune::SdpaForward results{o, l, View(grad_out.from(all.grad_out), {b, s.heads, rows, d}), {}};
    attune::Status status =
        everything::ring_attention_backward(context, communicator, plan, q, k, v, results, gradients, given, nullptr);
    if (!status.ok()) return status;
    grad_query.to(all.grad_query), grad_key.to(all.grad_key), grad_value.to(all.grad_value);
    return status;
}

// The results on so many ranks, of all positions; every rank must have the same gradients of captures.
template<typename T> EverythingArrays<T> on_so_many(int ranks, const RankedCase &c, const UserSizes &sizes) {
    EverythingArrays<T> all(sizes, 11);
    const auto pack = [&](bool back) {
        if (!c.documents) return;
        for (auto *x : {&all.query, &all.out, &all.grad_out, &all.grad_query, &all.lse})
            *x = packed(*x, sizes, sizes.heads, back);
        for (auto *x : {&all.key, &all.value, &all.grad_key, &all.grad_value}) *x = packed(*x, sizes, sizes.key_heads, back);
    };
    pack(false);
    const attune::ParallelPlan plan = plan_of(c, sizes, ranks);
    std::vector<Captured<T>> grad_captures(std::size_t(ranks), all.grad_captures);
    const everything::Options options = all.options();
    const auto statuses = on_ranks(ranks, [&](attune::Communicator communicator, attune::Context &context) {
        return run_rank(context, communicator, c, plan, all, options, grad_captures[std::size_t(communicator.rank)]);
    });
    for (const attune::Status &status : statuses) {
        INFO(status.message());
        REQUIRE(status.ok());
    }
    for (const auto &of_rank : grad_captures)
        for (const std::size_t n : {0u, 1u, 4u}) CHECK(of_rank[n] == grad_captures[0][n]);
    all.grad_captures = grad_captures[0];
    pack(true);
    return all;
}

template<typename T> void check_same_bits(const EverythingArrays<T> &a, const EverythingArrays<T> &b) {
    CHECK(a.out == b.out);
    CHECK(a.lse == b.lse);
    CHECK(a.grad_query == b.grad_query);
    CHECK(a.grad_key == b.grad_key);
    CHECK(a.grad_value == b.grad_value);
    for (const std::size_t n : {0u, 1u, 4u}) CHECK(a.grad_captures[n] == b.grad_captures[n]);
}

// One rank agrees with the formula; more ranks, every layout and function have its bits.
template<typename T>
void check_ranks(const UserSizes &sizes, Index chunk, bool documents, std::initializer_list<Scheme> schemes,
                 std::initializer_list<ParallelLayout> layouts) {
    const EverythingArrays<T> one = on_so_many<T>(1, {.chunk = chunk, .documents = documents}, sizes);
    check_user_attention<EverythingFormula>(one, {0, 1, 4});
    for (const Scheme scheme : schemes)
        for (const ParallelLayout layout : layouts)
            for (const int ranks : {2, 3, 4}) {
                if (scheme == Scheme::heads && sizes.key_heads % ranks != 0) continue;
                CAPTURE(int(scheme), int(layout), ranks);
                check_same_bits(on_so_many<T>(ranks, {scheme, layout, chunk, documents}, sizes), one);
            }
}

}  // namespace

TEMPLATE_TEST_CASE("a user's attention over ranks agrees with its formula, with the bits of one rank",
                   "[user_attention][context_parallel]", float, double) {
    check_ranks<TestType>(sizes_of(2, 4, 4, 67, 67, 16), 16, false, {Scheme::ring, Scheme::gathered, Scheme::heads},
                          {ParallelLayout::contiguous, ParallelLayout::head_tail, ParallelLayout::striped});
    for (const auto &[positions, chunk] : {std::pair(1, 16), {3, 1}, {70, 64}, {35, 17}}) {
        CAPTURE(positions, chunk);
        check_ranks<TestType>(sizes_of(1, 4, 2, positions, positions, 24), chunk, false, {Scheme::ring},
                              {ParallelLayout::contiguous});
    }
}

TEST_CASE("packed documents are batch entries for a user's attention over ranks", "[user_attention][context_parallel]") {
    for (const Index chunk : {16, 37}) {
        CAPTURE(chunk);
        check_ranks<float>(sizes_of(3, 4, 2, 25, 25, 16), chunk, true, {Scheme::ring, Scheme::gathered, Scheme::heads},
                           {ParallelLayout::striped});
    }
}

TEST_CASE("a user's attention decodes over caches of several ranks", "[user_attention][context_parallel]") {
    UserSizes sizes = sizes_of(2, 4, 2, 3, 150, 16);
    const std::vector<std::int32_t> held = {150, 77};
    for (std::size_t b = 0; b < held.size(); b++) sizes.lengths[b] = held[b], sizes.offset[b] = held[b] - sizes.queries;
    std::vector<float> bits;
    for (const int ranks : {1, 2, 3, 4}) {
        CAPTURE(ranks);
        EverythingArrays<float> all(sizes, 11);
        const attune::ParallelPlan plan = plan_of({.layout = ParallelLayout::striped, .chunk = 32}, sizes, ranks);
        std::vector<std::vector<float>> outs(std::size_t(ranks), all.out), lses(std::size_t(ranks), all.lse);
        const auto statuses = on_ranks(ranks, [&](attune::Communicator communicator, attune::Context &context) {
            const auto rank = std::size_t(communicator.rank);
            const Index rows = plan.positions_of(communicator.rank);
            RankRows<float> key(plan, communicator.rank, 4, 16), value(plan, communicator.rank, 4, 16);
            everything::Options options = all.options();
            options.sdpa.valid_lens = ConstView(held);
            options.sdpa.lse = View(lses[rank], {2, 4, 3});
            return everything::sharded_decode(context, communicator, plan, ConstView(all.query, {2, 4, 3, 16}),
                                              ConstView(key.from(all.key), {2, 2, rows, 16}),
                                              ConstView(value.from(all.value), {2, 2, rows, 16}),
                                              View(outs[rank], {2, 4, 3, 16}), options);
        });
        for (const attune::Status &status : statuses) {
            INFO(status.message());
            REQUIRE(status.ok());
        }
        for (std::size_t rank = 0; rank < outs.size(); rank++) CHECK(outs[rank] == outs[0]);
        if (ranks == 1) bits = outs[0];
        CHECK(outs[0] == bits);
        all.out = outs[0], all.lse = lses[0];
        check_user_attention<EverythingFormula>(all, {}, false);
    }
}

TEST_CASE("a user's attention of 16 bits over ranks agrees with its formula", "[user_attention][context_parallel]") {
    const UserSizes sizes = sizes_of(1, 2, 1, 75, 75, 16);
    std::vector<BFloat16> bits;
    for (const int ranks : {1, 3}) {
        CAPTURE(ranks);
        UserArrays<BFloat16> all(sizes, {{0.25f, 0.125f}}, 7);
        const attune::ParallelPlan plan = plan_of({.chunk = 16}, sizes, ranks);
        const auto statuses = on_ranks(ranks, [&](attune::Communicator communicator, attune::Context &context) {
            const int rank = communicator.rank;
            const Index rows = plan.positions_of(rank);
            RankRows<BFloat16> query(plan, rank, 2, 16), key(plan, rank, 1, 16), value(plan, rank, 1, 16),
                out(plan, rank, 2, 16);
            RankRows<float> lse(plan, rank, 2, 1);
            const attune::Status status = alibi_of_16_bits::ring_attention(
                context, communicator, plan, ConstView(query.from(all.query), {1, 2, rows, 16}),
                ConstView(key.from(all.key), {1, 1, rows, 16}), ConstView(value.from(all.value), {1, 1, rows, 16}),
                View(out.rows, {1, 2, rows, 16}),
                {.slopes = ConstView(all.captures[0].data(), {2}), .sdpa = {.lse = View(lse.rows, {1, 2, rows})}});
            out.to(all.out), lse.to(all.lse);
            return status;
        });
        for (const attune::Status &status : statuses) {
            INFO(status.message());
            REQUIRE(status.ok());
        }
        if (ranks == 1) bits = all.out;
        CHECK(std::memcmp(all.out.data(), bits.data(), bits.size() * sizeof(BFloat16)) == 0);
        check_user_attention<AlibiFormula>(all, {}, false);
    }
}

TEST_CASE("ranks refuse a user's attention together, before anything is written", "[user_attention][context_parallel]") {
    const UserSizes sizes = sizes_of(1, 4, 2, 130, 130, 16);
    const RankedCase c{.chunk = 32};
    const attune::ParallelPlan plan = plan_of(c, sizes, 3);
    // The message of each rank where `change` changes the options of one.
    const auto refused = [&](const auto &change) {
        EverythingArrays<float> all(sizes, 11);
        std::vector<Captured<float>> grad_captures(3, all.grad_captures);
        const auto statuses = on_ranks(3, [&](attune::Communicator communicator, attune::Context &context) {
            everything::Options options = all.options();
            change(communicator.rank, options);
            return run_rank(context, communicator, c, plan, all, options, grad_captures[std::size_t(communicator.rank)]);
        });
        std::vector<std::string> messages;
        for (const attune::Status &status : statuses) {
            CHECK_FALSE(status.ok());
            messages.emplace_back(status.message());
        }
        CHECK(std::all_of(all.out.begin(), all.out.end(), [](float x) { return std::isnan(x); }));
        return messages;
    };
    EverythingArrays<float> captures(sizes, 11);
    // Too small for the last rows alone, which rank 2 holds.
    auto messages = refused([&](int, everything::Options &o) { o.allowed = ConstView(captures.allowed.get(), {129, 130}); });
    CHECK(messages[2].find("allowed: is too small: everything reads beyond its extents") == 0);
    CHECK(messages[0] == "rank 2 refused its arguments: its own message says which");
    CHECK(messages[1] == messages[0]);
    messages = refused([&](int rank, everything::Options &o) {
        if (rank == 1) o.cap = 2.5;
    });
    CHECK(messages[0] == "captures: ranks disagree, rank 0 has other numbers than rank 1");
    messages = refused([&](int rank, everything::Options &o) {
        if (rank == 1) o.table = {};
    });
    CHECK(messages[1] == "table: must be given");
    messages = refused([&](int, everything::Options &o) { o.sdpa.score = attune::Score::cosine; });
    CHECK(messages[0].find("score: must be dot_product") == 0);
    // One rank calls with the library's score.
    EverythingArrays<float> all(sizes, 11);
    const auto statuses = on_ranks(3, [&](attune::Communicator communicator, attune::Context &context) {
        const Index rows = plan.positions_of(communicator.rank);
        const ConstView q(all.query, {1, 4, rows, 16}), k(all.key, {1, 2, rows, 16});
        std::vector<float> out(std::size_t(4 * rows * 16));
        const View o(out, {1, 4, rows, 16});
        if (communicator.rank == 1) return attune::ring_attention(context, communicator, plan, q, k, k, o);
        return everything::ring_attention(context, communicator, plan, q, k, k, o, all.options());
    });
    CHECK(statuses[0].message() == "attention: ranks disagree, rank 0 has other numbers than rank 1");
}
