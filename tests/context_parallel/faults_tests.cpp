// SPDX-License-Identifier: MIT
// Context parallelism where something is wrong: ranks that disagree, a rank that ends, a communicator that fails, wrong plans
// and arguments. Every rank answers within the time limit, and says what is wrong.
#include "tests/context_parallel/own_collectives.h"
#include "tests/context_parallel/thread_ranks.h"
#include "tests/support/catch.h"
#include <atomic>
#include <regex>
#include <tuple>

using namespace attune_test;
using attune::Causal, attune::ParallelLayout, attune::ParallelPlan, attune::Status, attune::StatusCode;

namespace {

constexpr double limit = 0.4;  // seconds

// Runs a case on three ranks, of which rank 1 has been changed.
std::vector<Status> with_other_rank(const ParallelCase &c, const ParallelCase &other) {
    return on_ranks(3, [&](attune::Communicator communicator, attune::Context &context) {
        const ParallelCase &own = communicator.rank == 1 ? other : c;
        const ParallelArrays<float> arrays(own);
        ParallelResults<float> results(own);
        ParallelPlan plan;
        if (Status s = plan_of(own, 3, plan); !s.ok()) return s;
        return run_rank(context, communicator, own, plan, arrays, results);
    });
}

void check_disagreement(const ParallelCase &c, const ParallelCase &other, const std::string &name) {
    for (const Status &s : with_other_rank(c, other)) {
        INFO(name << ": " << s.message());
        CHECK(s.code() == StatusCode::invalid_argument);
        CHECK(s.message().find(name) != std::string::npos);
        CHECK(s.message().find("disagree") != std::string::npos);
    }
}

}  // namespace

TEST_CASE("context parallel: a disagreement is an error on every rank", "[context_parallel][faults]") {
    ParallelCase c{.positions = 90};
    const auto changed = [&](auto change) {
        ParallelCase other = c;
        change(other);
        return other;
    };
    check_disagreement(c, changed([](auto &o) { o.positions = 91; }), "plan.positions");
    check_disagreement(c, changed([](auto &o) { o.chunk = 8; }), "plan.chunk");
    check_disagreement(c, changed([](auto &o) { o.layout = ParallelLayout::striped; }), "plan.of_rank");
    check_disagreement(c, changed([](auto &o) { o.documents = {0, 9}; }), "plan.documents");
    check_disagreement(c, changed([](auto &o) { o.batch = 2; }), "batch");
    check_disagreement(c, changed([](auto &o) { o.query_heads = 2; }), "query heads");
    check_disagreement(c, changed([](auto &o) { o.head_dim = 40; }), "head size");
    check_disagreement(c, changed([](auto &o) { o.value_dim = 40; }), "value size");
    check_disagreement(c, changed([](auto &o) { o.causal = Causal::top_left; }), "plan.band.causal");
    check_disagreement(c, changed([](auto &o) { o.window.left = 5; }), "plan.band.window.left");
    check_disagreement(c, changed([](auto &o) { o.softcap = 3; }), "softcap");
    check_disagreement(c, changed([](auto &o) { o.sinks = true; }), "sinks");
    check_disagreement(c, changed([](auto &o) { o.dropout.probability = 0.25; }), "dropout");
    check_disagreement(c, changed([](auto &o) { o.lens = {8}; }), "valid_lens");
    check_disagreement(c, changed([](auto &o) { o.scheme = Scheme::gathered; }), "gathered_attention");
    check_disagreement(c, changed([](auto &o) { o.mask = true; }), "mask");
    c.backward = c.alibi = true;
    check_disagreement(c, changed([](auto &o) { o.grad_slopes = false; }), "gradients.alibi_slopes");
}

TEST_CASE("context parallel: a rank whose arguments are refused stops all", "[context_parallel][faults]") {
    const ParallelCase c{.positions = 90};
    const auto statuses = on_ranks(3, [&](attune::Communicator communicator, attune::Context &context) {
        ParallelArrays<float> arrays(c);
        ParallelResults<float> results(c);
        ParallelPlan plan;
        if (Status s = plan_of(c, 3, plan); !s.ok()) return s;
        if (communicator.rank != 1) return run_rank(context, communicator, c, plan, arrays, results);
        const auto one = attune::View(arrays.query, {1, 4, 1, 64});  // too few rows
        return attune::ring_attention(context, communicator, plan, one, one, one, one);
    });
    CHECK(statuses[1].message().find("the plan gives this rank") != std::string::npos);
    for (const int rank : {0, 2}) {
        CHECK(statuses[std::size_t(rank)].code() == StatusCode::invalid_argument);
        CHECK(statuses[std::size_t(rank)].message().find("rank 1 refused") != std::string::npos);
    }
}

TEST_CASE("context parallel: a rank that does not call, or ends in the middle", "[context_parallel][faults]") {
    const ParallelCase c{.positions = 200, .chunk = 8};
    const ParallelArrays<float> arrays(c);
    ParallelPlan plan;
    REQUIRE(plan_of(c, 3, plan).ok());
    for (const int messages : {0, 3, 5, 9})  // which rank 1 starts before it ends
        for (const bool any_thread : {true, false}) {
            ParallelCase own = c;
            own.any_thread = any_thread;
            const auto statuses = on_ranks(
                3,
                [&](attune::Communicator communicator, attune::Context &context) {
                    ParallelResults<float> results(c);
                    if (communicator.rank == 1) {
                        struct Ending {
                            attune::Communicator inner;
                            std::atomic<int> left;
                        };
                        static Ending *ending;
                        Ending here{communicator, {messages}};
                        ending = &here;
                        communicator.user = &here;
                        communicator.start_send_receive = [](void *, const void *send, std::size_t sent, int to, void *receive,
                                                             std::size_t received, int from, void **request) {
                            if (ending->left-- <= 0) return -1;
                            return ending->inner.start_send_receive(ending->inner.user, send, sent, to, receive, received, from,
                                                                    request);
                        };
                        communicator.wait = [](void *, void *request, double seconds) {
                            return ending->inner.wait(ending->inner.user, request, seconds);
                        };
                        communicator.abandon = [](void *, void *request) {
                            return ending->inner.abandon(ending->inner.user, request);
                        };
                        return run_rank(context, communicator, own, plan, arrays, results);
                    }
                    return run_rank(context, communicator, own, plan, arrays, results);
                },
                limit);
            INFO(messages << " messages, any_thread " << any_thread << ": " << statuses[0].message() << "; "
                          << statuses[1].message() << "; " << statuses[2].message());
            CHECK(statuses[1].code() == StatusCode::communication);
            // Either end of a message, or both, or a message of all.
            static const std::regex said("communicator: a message (of all ranks|from rank [02](, or a message to rank [02])?|"
                                         "to rank [02]) could not be started");
            CHECK(std::regex_match(std::string(statuses[1].message()), said));
            for (const Status &s : statuses) CHECK((s.ok() || s.code() == StatusCode::communication));
            CHECK(!(statuses[0].ok() && statuses[2].ok()));
        }
}

TEST_CASE("context parallel: a message that cannot be started is named by its ends", "[context_parallel][faults]") {
    const ParallelCase c{.positions = 64, .any_thread = false};
    const ParallelArrays<float> arrays(c);
    ParallelPlan plan;
    REQUIRE(plan_of(c, 2, plan).ok());
    for (const auto &[from, to, ends] : {std::tuple(0, -1, "from rank 0"), {-1, 0, "to rank 0"}}) {
        struct Refusing {
            attune::Communicator inner;
            int from, to;
        };
        const auto statuses = on_ranks(
            2,
            [&, from = from, to = to](attune::Communicator communicator, attune::Context &context) {
                ParallelResults<float> results(c);
                Refusing refusing{communicator, from, to};
                if (communicator.rank == 1) {
                    communicator.user = &refusing;
                    communicator.start_send_receive = [](void *user, const void *send, std::size_t sent, int receiver,
                                                         void *receive, std::size_t received, int sender, void **request) {
                        const auto &r = *static_cast<Refusing *>(user);
                        if (sender == r.from && receiver == r.to) return -1;
                        return r.inner.start_send_receive(r.inner.user, send, sent, receiver, receive, received, sender,
                                                          request);
                    };
                    communicator.wait = [](void *user, void *request, double seconds) {
                        const auto &r = *static_cast<Refusing *>(user);
                        return r.inner.wait(r.inner.user, request, seconds);
                    };
                    communicator.abandon = [](void *user, void *request) {
                        const auto &r = *static_cast<Refusing *>(user);
                        return r.inner.abandon(r.inner.user, request);
                    };
                }
                return run_rank(context, communicator, c, plan, arrays, results);
            },
            limit);
        CHECK(statuses[1].code() == StatusCode::communication);
        CHECK(statuses[1].message() == std::string("communicator: a message ") + ends + " could not be started");
    }
}

TEST_CASE("context parallel: plans", "[context_parallel]") {
    ParallelPlan plan;
    REQUIRE(attune::plan_positions(100, 4, ParallelLayout::head_tail, 10, {}, plan).ok());
    CHECK(plan.of_rank[0].size() == 2);
    CHECK(plan.of_rank[0][0].begin == 0);
    CHECK(plan.of_rank[0][1].end == 100);
    REQUIRE(attune::plan_positions(25, 4, ParallelLayout::striped, 10, {}, plan).ok());
    CHECK(plan.positions_of(2) == 5);
    CHECK(plan.positions_of(3) == 0);
    // Under a causal mask the first ranks hold more positions.
    REQUIRE(attune::plan_positions(1000, 2, ParallelLayout::balanced, 10, {.causal = Causal::top_left}, plan).ok());
    CHECK(plan.positions_of(0) == 710);
    const auto refused = [](ParallelPlan p, const std::string &what) {
        attune::ParallelForecast forecast;
        const Status s = attune::forecast_parallel(p, {}, attune::ParallelScheme::ring, {}, forecast);
        INFO(s.message());
        CHECK(s.code() == StatusCode::invalid_argument);
        CHECK(s.message().find(what) != std::string::npos);
    };
    const ParallelPlan good{.positions = 20, .chunk = 10, .of_rank = {{{0, 10}}, {{10, 20}}}};
    const auto changed = [&](auto change) {
        ParallelPlan p = good;
        change(p);
        return p;
    };
    refused(changed([](auto &p) { p.chunk = 0; }), "plan.chunk");
    refused(changed([](auto &p) { p.of_rank[1][0].begin = 0; }), "of another rank");
    refused(changed([](auto &p) { p.of_rank[1].clear(); }), "by no rank");
    refused(changed([](auto &p) { p.of_rank[1][0].begin = 12; }), "multiples of the chunk");
    refused(changed([](auto &p) { p.of_rank[1][0].end = 30; }), "beyond 20");
    refused(changed([](auto &p) { p.documents = {0, 30}; }), "beyond 20");
    refused(changed([](auto &p) { p.documents = {0, 9, 8}; }), "must not fall");
    CHECK(attune::plan_positions(-1, 2, ParallelLayout::striped, 10, {}, plan).code() == StatusCode::invalid_argument);
    CHECK(attune::plan_positions(1, 0, ParallelLayout::striped, 10, {}, plan).code() == StatusCode::invalid_argument);
    CHECK(attune::plan_positions(1, 1, ParallelLayout::striped, -10, {}, plan).code() == StatusCode::invalid_argument);
}

TEST_CASE("context parallel: bytes sent are those of the forecast", "[context_parallel]") {
    using attune::ParallelScheme;
    for (const ParallelLayout layout : {ParallelLayout::contiguous, ParallelLayout::head_tail, ParallelLayout::striped})
        for (const attune::Window window : {attune::Window{}, attune::Window{30, 0}})
            for (const Scheme scheme : {Scheme::ring, Scheme::gathered, Scheme::heads}) {
                ParallelCase c{.query_heads = 8, .key_heads = 4, .positions = 200, .layout = layout, .window = window};
                c.scheme = scheme, c.backward = scheme == Scheme::ring;
                INFO(describe(c));
                const ParallelArrays<float> arrays(c);
                ParallelPlan plan;
                REQUIRE(plan_of(c, 4, plan).ok());
                const attune::ParallelProblem problem{.query_heads = 8, .key_heads = 4, .head_dim = 64, .value_dim = 64};
                attune::ParallelForecast forecast, of_backward;
                const ParallelScheme which = scheme == Scheme::ring       ? ParallelScheme::ring
                                             : scheme == Scheme::gathered ? ParallelScheme::gathered
                                                                          : ParallelScheme::heads;
                REQUIRE(attune::forecast_parallel(plan, problem, which, {}, forecast).ok());
                REQUIRE(attune::forecast_parallel(plan, problem, ParallelScheme::ring_backward, {}, of_backward).ok());
                for (const bool own_collectives : {false, true})
                    on_ranks(4, [&](attune::Communicator communicator, attune::Context &context) {
                        ParallelResults<float> results(c);
                        OwnCollectives collectives(communicator);
                        if (own_collectives) communicator = collectives.communicator();
                        attune::ParallelReport report, report_of_backward;
                        const Status s =
                            run_rank(context, communicator, c, plan, arrays, results, &report, &report_of_backward);
                        const auto rank = std::size_t(communicator.rank);
                        static std::mutex one_at_a_time;
                        const std::lock_guard lock(one_at_a_time);
                        CHECK(s.ok());
                        CHECK(report.bytes_sent == forecast.bytes_sent[rank]);
                        if (c.backward) CHECK(report_of_backward.bytes_sent == of_backward.bytes_sent[rank]);
                        return s;
                    });
            }
}

TEST_CASE("context parallel: collectives of a communicator's own send the bytes of messages", "[context_parallel]") {
    ParallelCase c{.positions = 200};
    c.scheme = Scheme::decode;
    const ParallelArrays<float> arrays(c);
    ParallelPlan plan;
    REQUIRE(plan_of(c, 4, plan).ok());
    std::int64_t bytes[2][4] = {};
    for (const int own_collectives : {0, 1})
        for (const Status &s : on_ranks(4, [&](attune::Communicator communicator, attune::Context &context) {
                 ParallelResults<float> results(c);
                 OwnCollectives collectives(communicator);
                 if (own_collectives) communicator = collectives.communicator();
                 attune::ParallelReport report;
                 const Status s = run_rank(context, communicator, c, plan, arrays, results, &report);
                 bytes[own_collectives][communicator.rank] = report.bytes_sent;
                 return s;
             }))
            CHECK(s.ok());
    for (int rank = 0; rank < 4; rank++) {
        CHECK(bytes[0][rank] > 0);
        CHECK(bytes[1][rank] == bytes[0][rank]);
    }
}

TEST_CASE("context parallel: what is not taken is refused", "[context_parallel][faults]") {
    const ParallelCase c{.positions = 40};
    ParallelArrays<float> a(c);
    ParallelResults<float> r(c);
    ParallelPlan plan;
    REQUIRE(plan_of(c, 1, plan).ok());
    attune::Context context({.threads = 1});
    const attune::ConstView q(a.query, {1, 4, 40, 64}), k(a.key, {1, 2, 40, 64}), v(a.value, {1, 2, 40, 64});
    const attune::View out(r.out, {1, 4, 40, 64});
    const auto refused = [&](const attune::ParallelOptions &options, const std::string &what) {
        const Status s = attune::ring_attention(context, {}, plan, q, k, v, out, options);
        INFO(s.message());
        CHECK(!s.ok());
        CHECK(s.message().find(what) == 0);
        CHECK(r.out[0] == 77);
    };
    refused({.attention = {.dropout = {.probability = 1.5}}}, "dropout");
    refused({.attention = {.dropout = {.probability = 0.5, .heads = 3}}}, "dropout");
    attune::ParallelOptions drops;
    drops.attention.dropout.probability = 0.5;
    CHECK(attune::sharded_decode(context, {}, plan, q, k, v, out, drops).message().find("dropout") == 0);
    refused({.attention = {.offset = 3}}, "offset");
    refused({.attention = {.causal = Causal::top_left}}, "causal");
    for (const attune::Window window : {attune::Window{3, 0}, {3, -1}, {-1, 0}})
        refused({.attention = {.window = window}}, "window");
    refused({.attention = {.variant = "no_such_variant"}}, "variant");
    const bool wrong[5] = {};
    refused({.attention = {.mask = attune::ConstView(wrong, {1, 5})}}, "mask");
    attune::ThreadGroup group(2);
    const auto refuses = [&](const char *member, auto change) {
        attune::Communicator c = group.communicator(0, 20);
        change(c);
        const Status s = attune::ring_attention(context, c, plan, q, k, v, out);
        INFO(s.message());
        CHECK(s.code() == StatusCode::invalid_argument);
        CHECK(s.message().find(std::string("communicator.") + member + ": ") == 0);
    };
    refuses("size", [](auto &x) { x.size = 0; });
    refuses("rank", [](auto &x) { x.rank = -1; });
    refuses("rank", [](auto &x) { x.rank = 2; });
    for (const double limit : {0.0, -1.0, std::nan("")}) refuses("time_limit", [=](auto &x) { x.time_limit = limit; });
    refuses("start_send_receive", [](auto &x) { x.start_send_receive = nullptr; });
    refuses("wait", [](auto &x) { x.wait = nullptr; });
    refuses("abandon", [](auto &x) { x.abandon = nullptr; });
}

TEST_CASE("context parallel: forecasts that are refused", "[context_parallel]") {
    using attune::ParallelScheme;
    ParallelPlan plan;
    REQUIRE(attune::plan_positions(100, 4, ParallelLayout::contiguous, 10, {}, plan).ok());
    const auto refused = [&](const std::string &what, const attune::ParallelProblem &p, ParallelScheme scheme,
                             const attune::ParallelMachine &machine) {
        attune::ParallelForecast forecast;
        const Status s = attune::forecast_parallel(plan, p, scheme, machine, forecast);
        INFO(s.message());
        CHECK(s.code() == StatusCode::invalid_argument);
        CHECK(s.message().find(what + ": ") == 0);
    };
    for (auto size :
         {&attune::ParallelProblem::batch, &attune::ParallelProblem::query_heads, &attune::ParallelProblem::key_heads,
          &attune::ParallelProblem::head_dim, &attune::ParallelProblem::value_dim}) {
        attune::ParallelProblem p;
        p.*size = 0;
        refused("problem", p, ParallelScheme::ring, {});
    }
    for (const double rate : {0.0, -1.0, std::nan("")}) {
        refused("machine", {}, ParallelScheme::ring, {.multiply_adds_per_second = rate});
        refused("machine", {}, ParallelScheme::ring, {.bytes_per_second = rate});
    }
    refused("machine", {}, ParallelScheme::ring, {.seconds_per_message = -1e-9});
    refused("scheme", {}, static_cast<ParallelScheme>(4), {});
    refused("problem.key_heads", {.query_heads = 6, .key_heads = 6}, ParallelScheme::heads, {});
    attune::ParallelForecast forecast;
    CHECK(attune::forecast_parallel(plan, {}, ParallelScheme::ring, {.seconds_per_message = 0}, forecast).ok());
    // One rank keeps no buffer for keys of others.
    REQUIRE(attune::plan_positions(100, 1, ParallelLayout::contiguous, 10, {}, plan).ok());
    REQUIRE(attune::forecast_parallel(plan, {}, ParallelScheme::ring, {}, forecast).ok());
    CHECK(forecast.buffer_bytes == 0);
}
