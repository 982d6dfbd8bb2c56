// SPDX-License-Identifier: MIT
// Decoding over pages whose positions are spread over ranks: the definition by the error rule, the same bits for any number of
// ranks, disagreements and refusals.
#include "tests/context_parallel/thread_ranks.h"
#include "tests/reference/sdpa_reference.h"
#include "tests/support/catch.h"
#include "tests/support/error_rule.h"

using namespace attune_test;
using attune::ConstPages, attune::ConstView, attune::ParallelLayout, attune::ParallelPlan, attune::Status, attune::View;

namespace {

// Sequences of which the last one is empty, with rows of one tensor (B, Hkv, S, D); a rank's pool has its pages backwards.
struct PagedDecodeCase {
    Index batch = 4, query_heads = 4, key_heads = 2, positions = 150, dim = 64, page = 16, chunk = 32;
    ParallelLayout layout = ParallelLayout::striped;
    std::vector<std::int32_t> lens = {150, 37, 1, 0};
    bool sinks = false, weight_sums = false;
};

template<typename T> struct PagedDecodeArrays {
    explicit PagedDecodeArrays(const PagedDecodeCase &c) {
        std::mt19937 random(5);
        std::uniform_real_distribution<double> of(-1.7, 1.7);
        for (auto [v, n] : {std::pair(&query, c.batch * c.query_heads * c.dim),
                            {&key, c.batch * c.key_heads * c.positions * c.dim},
                            {&value, c.batch * c.key_heads * c.positions * c.dim}})
            for (Index k = 0; k < n; k++) v->push_back(T(of(random)));
        for (Index h = 0; h < c.query_heads; h++) sinks.push_back(float(of(random)));
    }
    std::vector<T> query, key, value;
    std::vector<float> sinks;
};

// The pool of a rank, (P, page, Hkv, D); rows beyond a sequence's length are NaN.
template<typename T>
std::vector<T> pool_of(const PagedDecodeCase &c, const ParallelPlan &plan, int rank, const std::vector<T> &rows,
                       std::vector<std::int32_t> &table) {
    const Index pages = (plan.positions_of(rank) + c.page - 1) / c.page, all = c.batch * pages + 1;
    std::vector<T> pool(std::size_t(all * c.page * c.key_heads * c.dim), std::numeric_limits<T>::quiet_NaN());
    table.assign(std::size_t(c.batch * pages), 0);
    for (Index b = 0; b < c.batch; b++) {
        Index row = 0;
        for (Index n = 0; n < pages; n++) table[std::size_t(b * pages + n)] = std::int32_t(all - 1 - b * pages - n);
        for (const attune::PositionRange &r : plan.of_rank[std::size_t(rank)])
            for (Index p = r.begin; p < r.end; p++, row++)
                for (Index h = 0; p < c.lens[std::size_t(b)] && h < c.key_heads; h++) {
                    const Index page = table[std::size_t(b * pages + row / c.page)], at = page * c.page + row % c.page;
                    std::copy_n(&rows[std::size_t(((b * c.key_heads + h) * c.positions + p) * c.dim)], c.dim,
                                &pool[std::size_t((at * c.key_heads + h) * c.dim)]);
                }
    }
    return pool;
}

template<typename T>
Status decode_rank(attune::Context &context, const attune::Communicator &communicator, const PagedDecodeCase &c,
                   std::vector<T> &out, std::vector<Sum<T>> &lse) {
    const PagedDecodeArrays<T> a(c);
    ParallelPlan plan;
    if (Status s = attune::plan_positions(c.positions, communicator.size, c.layout, c.chunk, {}, plan); !s.ok()) return s;
    std::vector<std::int32_t> table;
    const std::vector<T> key = pool_of(c, plan, communicator.rank, a.key, table),
                         value = pool_of(c, plan, communicator.rank, a.value, table);
    const Index pages = Index(table.size()) / c.batch, all = c.batch * pages + 1;
    out.assign(std::size_t(c.batch * c.query_heads * c.dim), T(77)), lse.assign(std::size_t(c.query_heads * c.batch), 77);
    attune::PagedOptions options;
    options.lse = View(lse, {c.query_heads, c.batch});
    if (c.sinks) options.sinks = ConstView(a.sinks);
    std::vector<Sum<T>> sums(std::size_t(c.batch * c.query_heads * c.positions), 77);
    if (c.weight_sums) options.weight_sums = View(sums, {c.batch, c.query_heads, c.positions});
    const attune::Dims sizes{all, c.page, c.key_heads, c.dim};
    return attune::sharded_paged_decode(context, communicator, plan, ConstView(a.query, {c.batch, c.query_heads, c.dim}),
                                        ConstPages(ConstView(key, sizes)), ConstPages(ConstView(value, sizes)),
                                        ConstView(table, {c.batch, pages}), ConstView(c.lens),
                                        View(out, {c.batch, c.query_heads, c.dim}), options);
}

template<typename T> void check_decode(const PagedDecodeCase &c) {
    INFO("type " << attune::name_of(attune::dtype_of<T>()) << " layout " << int(c.layout) << " sinks " << c.sinks);
    std::vector<T> one;
    std::vector<Sum<T>> one_lse;
    for (const int ranks : {1, 2, 3, 4}) {
        std::vector<std::vector<T>> out(static_cast<std::size_t>(ranks));
        std::vector<std::vector<Sum<T>>> lse(out.size());
        const auto statuses = on_ranks(ranks, [&](attune::Communicator communicator, attune::Context &context) {
            const auto rank = std::size_t(communicator.rank);
            return decode_rank(context, communicator, c, out[rank], lse[rank]);
        });
        for (const Status &s : statuses) {
            INFO(s.message());
            REQUIRE(s.ok());
        }
        if (ranks == 1) one = out[0], one_lse = lse[0];
        for (std::size_t rank = 0; rank < out.size(); rank++) {
            INFO(ranks << " ranks, rank " << rank);
            CHECK(std::memcmp(out[rank].data(), one.data(), one.size() * sizeof(T)) == 0);
            CHECK(std::memcmp(lse[rank].data(), one_lse.data(), one_lse.size() * sizeof(Sum<T>)) == 0);
        }
    }
    const PagedDecodeArrays<T> a(c);
    attune::SdpaOptions options;
    options.valid_lens = ConstView(c.lens);
    if (c.sinks) options.sinks = ConstView(a.sinks);
    const ConstView query(a.query, {c.batch, c.query_heads, 1, c.dim}), key(a.key, {c.batch, c.key_heads, c.positions, c.dim}),
        value(a.value, {c.batch, c.key_heads, c.positions, c.dim});
    const auto exact = sdpa_reference<Reference<T>, T>(query, key, value, options);
    const Verdict v = judge(exact.out, plain_sdpa<T>(query, key, value, options).out, one);
    INFO(v.why);
    CHECK(v.right);
}

}  // namespace

TEST_CASE("context parallel: decoding over pages", "[context_parallel]") {
    PagedDecodeCase c;
    check_decode<float>(c);
    c.layout = ParallelLayout::contiguous, c.sinks = true;
    check_decode<float>(c);
    check_decode<BFloat16>(c);
    c.lens = {0, 37, 1, 150};  // a chunk's sequences with rows do not begin at the first sequence
    check_decode<float>(c);
    c.lens = {0, 0, 0, 0};
    check_decode<float>(c);
}

TEST_CASE("context parallel: decoding over pages, refused on every rank", "[context_parallel][faults]") {
    const auto messages = [](const auto &change) {
        const auto statuses = on_ranks(3, [&](attune::Communicator communicator, attune::Context &context) {
            PagedDecodeCase c;
            if (communicator.rank == 1) change(c);
            std::vector<float> out, lse;
            const Status s = decode_rank(context, communicator, c, out, lse);
            return !s.ok() && !out.empty() && out[0] != 77 ? Status(attune::StatusCode::internal, "out was written") : s;
        });
        std::string all;
        for (const Status &s : statuses) all += s.message() + "\n";
        return all;
    };
    CHECK(messages([](auto &c) { c.lens[0] = 149; }) == "lens: ranks disagree, rank 0 has other numbers than rank 1\n"
                                                        "lens: ranks disagree, rank 0 has other numbers than rank 1\n"
                                                        "lens: ranks disagree, rank 0 has other numbers than rank 1\n");
    const std::string refused = messages([](auto &c) { c.lens[1] = 151; });
    CHECK(refused.find("lens: entry (1) must be from 0 to 150, got 151") != std::string::npos);
    CHECK(refused.find("rank 1 refused its arguments") != std::string::npos);
    CHECK(messages([](auto &c) { c.chunk = 8; }).find("plan.chunk: 8 is no multiple of a page, 16 rows") != std::string::npos);
    CHECK(messages([](auto &c) { c.weight_sums = true; }).find("weight_sums: is not taken by sharded_paged_decode") !=
          std::string::npos);
}
