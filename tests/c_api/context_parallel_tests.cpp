// SPDX-License-Identifier: MIT
// Context parallelism from C: ranks that are threads, each with the bits of the call in C++; plans, forecasts and reports; a
// disagreement and a communicator that fails are errors on every rank.
#include "tests/c_api/mirror_structs.h"
#include "tests/context_parallel/thread_ranks.h"
#include "tests/support/catch.h"

using namespace attune_test;
using attune::ConstPages, attune::ConstView, attune::ParallelLayout, attune::ParallelPlan, attune::Status, attune::View;

namespace {

// A plan of C with its end.
struct CPlan {
    explicit CPlan(attune_context *c) { attune_parallel_plan_create(c, &plan); }
    CPlan(const CPlan &) = delete;
    ~CPlan() { attune_parallel_plan_destroy(plan); }
    // The plan of C++, range by range.
    attune_status copy(attune_context *c, const ParallelPlan &from) {
        attune::ParallelBand band = from.band;
        if (!from.documents.empty()) band.cu_seqlens = ConstView(from.documents);
        const auto ranks = static_cast<int32_t>(from.of_rank.size());
        Mirror m;
        attune_status status =
            attune_plan_positions(c, from.positions, ranks, ATTUNE_PARALLEL_LAYOUT_CONTIGUOUS, from.chunk, m.of(band), plan);
        for (int32_t rank = 0; status == ATTUNE_OK && rank < ranks; rank++) {
            std::vector<attune_position_range> ranges;
            for (const auto &r : from.of_rank[std::size_t(rank)]) ranges.push_back({r.begin, r.end});
            status = attune_parallel_plan_set_ranges(c, plan, rank, ranges.data(), ranges.size());
            CHECK(attune_parallel_plan_positions_of(plan, rank) == from.positions_of(rank));
        }
        return status;
    }
    attune_parallel_plan *plan = nullptr;
};

// The C++ function of the same arguments by a call in C: call(context, plan of C, mirror).
template<typename Call> Status in_c(const ParallelPlan &plan, attune::ParallelReport *report, const Call &call) {
    const CContext c(1);
    CPlan of_c(c);
    attune_status status = of_c.copy(c, plan);
    Mirror m;
    attune_parallel_report figures = ATTUNE_PARALLEL_REPORT_INIT;
    if (status == ATTUNE_OK) status = call(c.context, of_c.plan, m, &figures);
    if (report) *report = {figures.bytes_sent, figures.seconds, figures.waiting_seconds};
    return status == ATTUNE_OK ? Status() : Status(static_cast<attune::StatusCode>(status), c.message());
}

template<auto function>
Status forward(attune::Context &, const attune::Communicator &communicator, const ParallelPlan &plan, const ConstView &q,
               const ConstView &k, const ConstView &v, const View &out, const attune::ParallelOptions &options) noexcept {
    return in_c(plan, options.report, [&](auto c, auto of_c, Mirror &m, attune_parallel_report *report) {
        attune_parallel_options *given = m.of(options);
        given->report = options.report ? report : nullptr;
        return function(c, m.of(communicator), of_c, m.of(q), m.of(k), m.of(v), m.of(out), given);
    });
}
Status backward(attune::Context &, const attune::Communicator &communicator, const ParallelPlan &plan, const ConstView &q,
                const ConstView &k, const ConstView &v, const attune::SdpaForward &results,
                const attune::SdpaGradients &gradients, const attune::ParallelOptions &options) noexcept {
    return in_c(plan, options.report, [&](auto c, auto of_c, Mirror &m, attune_parallel_report *report) {
        attune_parallel_options *given = m.of(options);
        given->report = options.report ? report : nullptr;
        return attune_ring_attention_backward(c, m.of(communicator), of_c, m.of(q), m.of(k), m.of(v), m.of(results),
                                              m.of(gradients), given);
    });
}
const ParallelCalls calls_of_c{forward<&attune_ring_attention>, forward<&attune_gathered_attention>,
                               forward<&attune_head_parallel_attention>, forward<&attune_sharded_decode>, backward};

template<typename T> void check_same(int ranks, const ParallelCase &c) {
    INFO(describe(c) << ", ranks " << ranks);
    ParallelResults<T> in_cpp(c), of_c(c);
    CHECK(results_on(ranks, c, in_cpp) == "");
    CHECK(results_on(ranks, c, of_c, calls_of_c) == "");
    ParallelPlan plan;
    REQUIRE(plan_of(c, 1, plan).ok());
    CHECK(difference(c, plan, 0, in_cpp, of_c) == "");
}

}  // namespace

TEST_CASE("context parallelism from C has the bits of that from C++", "[c_api]") {
    for (unsigned seed = 1; seed <= 40; seed++) {
        const ParallelCase c = random_case(seed);
        const int ranks = c.scheme == Scheme::heads ? 3 : 1 + int(seed % 4);
        seed % 5 == 0 ? check_same<BFloat16>(ranks, c) : check_same<float>(ranks, c);
    }
    for (const Scheme scheme : {Scheme::ring, Scheme::gathered, Scheme::heads, Scheme::decode})
        check_same<double>(2, {.positions = 70, .scheme = scheme, .backward = scheme == Scheme::ring, .sinks = true});
}

TEST_CASE("a plan of C has the ranges of that of C++", "[c_api]") {
    const CContext c(1);
    CPlan of_c(c);
    const std::vector<std::int32_t> documents{0, 20, 90};
    const attune::ParallelBand bands[] = {{}, {attune::Causal::top_left}, {attune::Causal::none, {16, 0}, documents}};
    for (const attune::ParallelBand &band : bands)
        for (const auto layout :
             {ParallelLayout::contiguous, ParallelLayout::head_tail, ParallelLayout::striped, ParallelLayout::balanced}) {
            ParallelPlan plan;
            REQUIRE(attune::plan_positions(97, 3, layout, 8, band, plan).ok());
            Mirror m;
            REQUIRE(attune_plan_positions(c, 97, 3, static_cast<attune_parallel_layout>(layout), 8, m.of(band), of_c.plan) ==
                    ATTUNE_OK);
            for (int rank = 0; rank < 3; rank++) {
                const attune_position_range *ranges = nullptr;
                size_t count = 77;
                REQUIRE(attune_parallel_plan_ranges(c, of_c.plan, rank, &ranges, &count) == ATTUNE_OK);
                const auto &expected = plan.of_rank[std::size_t(rank)];
                REQUIRE(count == expected.size());
                for (size_t n = 0; n < count; n++)
                    CHECK((ranges[n].begin == expected[n].begin && ranges[n].end == expected[n].end));
            }
        }
    const auto refused = [&](attune_status status) {
        CHECK(status == ATTUNE_INVALID_ARGUMENT);
        return c.message();
    };
    CHECK(refused(attune_plan_positions(c, -1, 3, 0, 8, nullptr, of_c.plan)).find("positions") == 0);
    CHECK(refused(attune_plan_positions(c, 97, 3, 4, 8, nullptr, of_c.plan)).find("layout: must be one of 0 (contig") == 0);
    CHECK(refused(attune_plan_positions(c, 97, 3, 0, 8, nullptr, nullptr)) == "plan: must be given");
    CHECK(refused(attune_parallel_plan_set_ranges(c, of_c.plan, 3, nullptr, 0)) == "rank: must be from 0 to 2, got 3");
    CHECK(refused(attune_parallel_plan_set_ranges(c, of_c.plan, 0, nullptr, 1)) == "ranges: must be given");
    CPlan empty(c);
    const attune_position_range *ranges = nullptr;
    size_t count = 0;
    CHECK(refused(attune_parallel_plan_ranges(c, empty.plan, 0, &ranges, &count)) == "rank: the plan has no ranks yet, got 0");
    CHECK(attune_parallel_plan_positions_of(of_c.plan, 3) == 0);
    CHECK(attune_parallel_plan_positions_of(nullptr, 0) == 0);
    attune_parallel_plan_destroy(nullptr);
}

TEST_CASE("a forecast of C is that of C++, and a report has its bytes", "[c_api]") {
    const ParallelCase of_call{.positions = 96, .layout = ParallelLayout::striped, .causal = attune::Causal::top_left};
    ParallelPlan plan;
    REQUIRE(plan_of(of_call, 3, plan).ok());
    const attune::ParallelProblem problem{attune::DType::f32, 1, 4, 2, 64, 64};
    const attune::ParallelMachine machine{.bytes_per_second = 1e6};
    attune::ParallelForecast expected;
    REQUIRE(attune::forecast_parallel(plan, problem, attune::ParallelScheme::ring, machine, expected).ok());
    const CContext c(1);
    CPlan of_c(c);
    REQUIRE(of_c.copy(c, plan) == ATTUNE_OK);
    Mirror m;
    attune_parallel_forecast forecast = ATTUNE_PARALLEL_FORECAST_INIT;
    REQUIRE(attune_forecast_parallel(c, of_c.plan, m.of(problem), ATTUNE_PARALLEL_SCHEME_RING, m.of(machine), &forecast) ==
            ATTUNE_OK);
    const auto same = [](const auto &all, const auto *numbers, size_t count) {
        return count == all.size() && std::equal(all.begin(), all.end(), numbers);
    };
    CHECK(same(expected.bytes_sent, forecast.bytes_sent, forecast.bytes_sent_count));
    CHECK(same(expected.compute_seconds, forecast.compute_seconds, forecast.compute_seconds_count));
    CHECK(same(expected.waiting_seconds, forecast.waiting_seconds, forecast.waiting_seconds_count));
    CHECK((forecast.seconds == expected.seconds && forecast.buffer_bytes == expected.buffer_bytes));
    CHECK(attune_forecast_parallel(c, of_c.plan, nullptr, 4, nullptr, &forecast) == ATTUNE_INVALID_ARGUMENT);
    CHECK(c.message().find("scheme: must be one of") == 0);

    std::vector<attune::ParallelReport> reports(3);
    const ParallelArrays<float> arrays(of_call);
    for (const Status &s : on_ranks(3, [&](attune::Communicator communicator, attune::Context &context) {
             ParallelResults<float> results(of_call);
             return run_rank(context, communicator, of_call, plan, arrays, results, &reports[std::size_t(communicator.rank)],
                             nullptr, calls_of_c);
         }))
        CHECK(s.message() == "");
    for (std::size_t rank = 0; rank < 3; rank++) {
        CHECK(reports[rank].bytes_sent == expected.bytes_sent[rank]);
        CHECK(reports[rank].seconds > 0);
    }
}

TEST_CASE("paged decoding over ranks from C has the bits of that from C++", "[c_api]") {
    // Two sequences of 40 and 3 rows of 48; pages of 16 lie in the pool in the order of the positions of one rank.
    const std::vector<std::int32_t> lens{40, 3};
    std::vector<float> query(2 * 4 * 64), pool(6 * 16 * 2 * 64);
    std::mt19937 random(3);
    for (auto *all : {&query, &pool})
        for (float &x : *all) x = std::uniform_real_distribution<float>(-1.7f, 1.7f)(random);
    const ConstView q(query, {2, 4, 64}), held(lens);
    const auto decode = [&](bool from_c, int ranks, std::vector<float> &out, attune::ParallelReport *report) {
        return on_ranks(ranks, [&, ranks](attune::Communicator communicator, attune::Context &context) {
            ParallelPlan plan;
            if (Status s = attune::plan_positions(48, ranks, ParallelLayout::striped, 16, {}, plan); !s.ok()) return s;
            std::vector<std::int32_t> table;
            for (int b = 0; b < 2; b++)
                for (const auto &r : plan.of_rank[std::size_t(communicator.rank)])
                    for (Index at = r.begin; at < r.end; at += 16) table.push_back(std::int32_t(3 * b + at / 16));
            const ConstView blocks(table, {2, Index(table.size()) / 2});
            const ConstPages pages(ConstView(pool, {6, 16, 2, 64}));
            std::vector<float> own(query.size(), 77), lse(8, 77);
            const View to(own, {2, 4, 64});
            const attune::PagedOptions options{.lse = View(lse, {4, 2})};
            const auto of_c = [&](auto c, auto plan_of_c, Mirror &m, attune_parallel_report *figures) {
                return attune_sharded_paged_decode(c, m.of(communicator), plan_of_c, m.of(q), m.of(pages), m.of(pages),
                                                   m.of(blocks), m.of(held), m.of(to), m.of(options), figures);
            };
            attune::ParallelReport *const wanted = communicator.rank == 0 ? report : nullptr;
            const Status s = from_c ? in_c(plan, wanted, of_c)
                                    : attune::sharded_paged_decode(context, communicator, plan, q, pages, pages, blocks, held,
                                                                   to, options, wanted);
            own.insert(own.end(), lse.begin(), lse.end());
            if (communicator.rank == 0) out = own;
            return s;
        });
    };
    for (const int ranks : {1, 3}) {
        std::vector<float> in_cpp, of_c;
        attune::ParallelReport expected, report;
        for (const Status &s : decode(false, ranks, in_cpp, &expected)) CHECK(s.message() == "");
        for (const Status &s : decode(true, ranks, of_c, &report)) CHECK(s.message() == "");
        CHECK(in_cpp == of_c);
        CHECK(report.bytes_sent == expected.bytes_sent);
    }
}

TEST_CASE("ranks of C that disagree, and a communicator of C that fails, are errors on every rank", "[c_api]") {
    const auto on_three = [&](auto change) {
        return on_ranks(
            3,
            [&](attune::Communicator communicator, attune::Context &context) {
                ParallelCase c{.positions = 90};
                change(c, communicator);
                const ParallelArrays<float> arrays(c);
                ParallelResults<float> results(c);
                ParallelPlan plan;
                if (Status s = plan_of(c, 3, plan); !s.ok()) return s;
                return run_rank(context, communicator, c, plan, arrays, results, nullptr, nullptr, calls_of_c);
            },
            0.4);
    };
    for (const Status &s : on_three([](ParallelCase &c, auto &communicator) { c.softcap = communicator.rank == 1 ? 3 : 0; })) {
        CHECK(s.code() == attune::StatusCode::invalid_argument);
        CHECK(s.message() == "softcap: ranks disagree, rank 0 has other numbers than rank 1");
    }
    const auto failing = [](ParallelCase &, attune::Communicator &communicator) {
        if (communicator.rank == 1)
            communicator.start_send_receive = [](void *, const void *, std::size_t, int, void *, std::size_t, int, void **) {
                return 5;
            };
    };
    for (const Status &s : on_three(failing)) CHECK(s.code() == attune::StatusCode::communication);
    // Another number of ranks than the plan has; the same in words of one rank.
    const CContext c(1);
    CPlan plan(c);
    REQUIRE(attune_plan_positions(c, 8, 2, ATTUNE_PARALLEL_LAYOUT_CONTIGUOUS, 4, nullptr, plan.plan) == ATTUNE_OK);
    attune_communicator one = ATTUNE_COMMUNICATOR_INIT;
    CHECK(attune_ring_attention(c, &one, plan.plan, nullptr, nullptr, nullptr, nullptr, nullptr) == ATTUNE_INVALID_ARGUMENT);
    const auto no_plan = [&](attune_status status) {
        CHECK(status == ATTUNE_INVALID_ARGUMENT);
        CHECK(c.message() == "plan: must be given");
    };
    no_plan(attune_ring_attention(c, &one, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr));
    no_plan(attune_gathered_attention(c, &one, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr));
    no_plan(attune_head_parallel_attention(c, &one, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr));
    no_plan(attune_sharded_decode(c, &one, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr));
    one.any_thread = 2;
    CHECK(attune_ring_attention(c, &one, plan.plan, nullptr, nullptr, nullptr, nullptr, nullptr) == ATTUNE_INVALID_ARGUMENT);
    CHECK(c.message() == "communicator.any_thread: must be 0 or 1, got 2");
}
