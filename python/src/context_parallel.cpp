// SPDX-License-Identifier: MIT
// Attention over positions that are spread over ranks: plans, forecasts, the collective calls.
#include "options.h"
#include "ranks.h"
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

namespace attune_python {
namespace {

using attune::Communicator;
using attune::ConstView;
using attune::Context;
using attune::ParallelPlan;
using attune::View;

constexpr Word<attune::ParallelLayout> layouts[] = {{"contiguous", attune::ParallelLayout::contiguous},
                                                    {"head_tail", attune::ParallelLayout::head_tail},
                                                    {"striped", attune::ParallelLayout::striped},
                                                    {"balanced", attune::ParallelLayout::balanced}};
constexpr Word<attune::ParallelScheme> schemes[] = {{"ring", attune::ParallelScheme::ring},
                                                    {"ring_backward", attune::ParallelScheme::ring_backward},
                                                    {"gathered", attune::ParallelScheme::gathered},
                                                    {"heads", attune::ParallelScheme::heads}};
constexpr Word<attune::Causal> causals[] = {{"none", attune::Causal::none},
                                            {"top_left", attune::Causal::top_left},
                                            {"bottom_right", attune::Causal::bottom_right},
                                            {"offset", attune::Causal::offset}};
constexpr Word<attune::DType> types[] = {
    {"f32", attune::DType::f32}, {"f64", attune::DType::f64}, {"bf16", attune::DType::bf16}, {"f16", attune::DType::f16}};

// Plans.

using Ranges = std::vector<std::vector<std::pair<std::int64_t, std::int64_t>>>;

Ranges ranges_of(const ParallelPlan &plan) {
    Ranges all;
    for (const auto &own : plan.of_rank) {
        all.emplace_back();
        for (const attune::PositionRange &r : own) all.back().emplace_back(r.begin, r.end);
    }
    return all;
}
void set_ranges(ParallelPlan &plan, const Ranges &all) {
    plan.of_rank.clear();
    for (const auto &own : all) {
        plan.of_rank.emplace_back();
        for (const auto &[begin, end] : own) plan.of_rank.back().push_back({begin, end});
    }
}
std::int64_t positions_of(const ParallelPlan &plan, int rank) {
    if (rank < 0 || static_cast<std::size_t>(rank) >= plan.of_rank.size())
        refuse("rank", "the plan has " + std::to_string(plan.of_rank.size()) + " ranks, got " + std::to_string(rank));
    return plan.positions_of(rank);
}

const Keywords &band_keywords() {
    using attune::ParallelBand;
    static const Keywords *const table = new Keywords{
        {"causal", "str | None", "None",
         "\"top_left\" or \"bottom_right\", which are one mask here: a query sees the keys up to its own position; \"offset\" "
         "is refused.",
         [](Call &, void *into, nb::handle v, const char *name) {
             static_cast<ParallelBand *>(into)->causal = word_of(name, v, causals);
         }},
        {"window", "tuple[int, int] | None", "None", "(left, right), as in the calls with the plan.",
         [](Call &c, void *into, nb::handle v, const char *name) {
             read_window(c, static_cast<ParallelBand *>(into)->window, v, name);
         }},
        {"cu_seqlens", "ArrayLike | Sequence[int] | None", "None",
         "Packed documents: i32 (D + 1), from 0, never falling; document d has the positions [cu[d], cu[d + 1]).",
         integers_<&ParallelBand::cu_seqlens>},
    };
    return *table;
}

ParallelPlan plan_positions(std::int64_t positions, int ranks, nb::handle layout, std::int64_t chunk,
                            const nb::kwargs &options) {
    Call call;
    attune::ParallelBand band;
    read_keywords(call, "plan_positions", options, {{band_keywords(), &band}});
    const auto how = word_of("layout", layout, layouts);
    ParallelPlan plan;
    call.run_unlocked([&] { return attune::plan_positions(positions, ranks, how, chunk, band, plan); });
    return plan;
}

// Sizes and rates of a forecast.
struct Forecast {
    attune::ParallelProblem problem;
    attune::ParallelMachine machine;
};
template<auto member> void of_problem(Call &call, void *into, nb::handle v, const char *name) {
    integer_<member>(call, &static_cast<Forecast *>(into)->problem, v, name);
}
template<auto member> void of_machine(Call &call, void *into, nb::handle v, const char *name) {
    number_<member>(call, &static_cast<Forecast *>(into)->machine, v, name);
}
const Keywords &forecast_keywords() {
    using attune::ParallelMachine;
    using attune::ParallelProblem;
    static const Keywords *const table = new Keywords{
        {"dtype", "str", "'f32'", "Type of query, key and value: \"f32\", \"f64\", \"bf16\", \"f16\".",
         [](Call &, void *into, nb::handle v, const char *name) {
             static_cast<Forecast *>(into)->problem.dtype = word_of(name, v, types);
         }},
        {"batch", "int", "1", "B.", of_problem<&ParallelProblem::batch>},
        {"query_heads", "int", "1", "Hq.", of_problem<&ParallelProblem::query_heads>},
        {"key_heads", "int", "1", "Hkv.", of_problem<&ParallelProblem::key_heads>},
        {"head_dim", "int", "1", "Dk.", of_problem<&ParallelProblem::head_dim>},
        {"value_dim", "int", "1", "Dv.", of_problem<&ParallelProblem::value_dim>},
        {"multiply_adds_per_second", "float", "100000000000.0", "Multiply-adds of a rank in a second.",
         of_machine<&ParallelMachine::multiply_adds_per_second>},
        {"bytes_per_second", "float", "10000000000.0", "Bytes that a link carries in a second.",
         of_machine<&ParallelMachine::bytes_per_second>},
        {"seconds_per_message", "float", "5e-06", "Seconds of a message beside those of its bytes.",
         of_machine<&ParallelMachine::seconds_per_message>},
    };
    return *table;
}

nb::dict forecast_parallel(ParallelPlan plan, nb::handle scheme, const nb::kwargs &options) {
    Call call;
    Forecast given_numbers;
    read_keywords(call, "forecast_parallel", options, {{forecast_keywords(), &given_numbers}});
    const auto which = word_of("scheme", scheme, schemes);
    attune::ParallelForecast made;
    call.run_unlocked(
        [&] { return attune::forecast_parallel(plan, given_numbers.problem, which, given_numbers.machine, made); });
    nb::dict d;
    d["bytes_sent"] = made.bytes_sent, d["compute_seconds"] = made.compute_seconds;
    d["waiting_seconds"] = made.waiting_seconds, d["seconds"] = made.seconds, d["buffer_bytes"] = made.buffer_bytes;
    return d;
}

// Calls.

// Names of functions that are alike but for the function of the library.
constexpr char ring_attention_name[] = "ring_attention", gathered_attention_name[] = "gathered_attention",
               head_parallel_attention_name[] = "head_parallel_attention", sharded_decode_name[] = "sharded_decode";

template<auto function, const char *name>
nb::object forward(RankCommunicator &communicator, ParallelPlan plan, nb::handle query, nb::handle key, nb::handle value,
                   const nb::kwargs &given_options) {
    HostCall call;
    attune::ParallelOptions options;
    Wanted wanted;
    Report report;
    read_keywords(call, name, given_options,
                  {{attention_keywords(), &options.attention},
                   {attention_outputs(), &wanted},
                   {weights_keywords(), &options.attention},
                   {report_keyword(), &report}});
    const ConstView q = call.input("query", query), k = call.input("key", key), v = call.input("value", value);
    Outputs made;
    const View out = call.output_or_new("out", wanted.out, query, q.dtype, out_extents(q, v), made.out, call.layout);
    made.add(call, wanted, query, q, k, options.attention);
    options.report = report.wanted();
    run_on_ranks(call, communicator,
                 [&](Context &c, const Communicator &of_ranks) { return function(c, of_ranks, plan, q, k, v, out, options); });
    report.fill();
    return made.result(wanted);
}

nb::object backward(RankCommunicator &communicator, ParallelPlan plan, nb::handle query, nb::handle key, nb::handle value,
                    nb::handle out, nb::handle lse, nb::handle grad_out, const nb::kwargs &given_options) {
    HostCall call;
    attune::ParallelOptions options;
    Wanted wanted;
    GradLse of_lse;
    Report report;
    read_keywords(call, "ring_attention_backward", given_options,
                  {{attention_keywords(), &options.attention},
                   {grad_lse_keyword(), &of_lse},
                   {gradients_keyword(), &wanted},
                   {report_keyword(), &report}});
    const ConstView q = call.input("query", query), k = call.input("key", key), v = call.input("value", value);
    const attune::SdpaForward results{call.input("out", out), call.input("lse", lse), call.input("grad_out", grad_out),
                                      of_lse.grad_lse};
    Gradients gradients(call, wanted.gradients, {"query", "key", "value"});
    attune::SdpaGradients into;
    gradients.add("query", query, q, into.query), gradients.add("key", query, k, into.key);
    gradients.add("value", query, v, into.value);
    add_score_gradients(gradients, query, options.attention, q, into);
    nb::dict result = gradients.finish();
    options.report = report.wanted();
    run_on_ranks(call, communicator, [&](Context &c, const Communicator &of_ranks) {
        return attune::ring_attention_backward(c, of_ranks, plan, q, k, v, results, into, options);
    });
    report.fill();
    return result;
}

nb::object paged_decode(RankCommunicator &communicator, ParallelPlan plan, nb::handle query, nb::handle key_pages,
                        nb::handle value_pages, nb::handle block_table, nb::handle lens, const nb::kwargs &given_options) {
    HostCall call;
    attune::PagedOptions options;
    Wanted wanted;
    Report report;
    static const Keywords *const outputs = new Keywords(attention_outputs().without({"weights"}));
    read_keywords(call, "sharded_paged_decode", given_options,
                  {{paged_keywords(), &options}, {*outputs, &wanted}, {report_keyword(), &report}});
    const ConstView q = call.input("query", query);
    const attune::ConstPages k = pages_input(call, "key_pages", key_pages), v = pages_input(call, "value_pages", value_pages);
    const ConstView table = call.integers("block_table", block_table), held = call.integers("lens", lens);
    Outputs made;
    const View out = call.output_or_new("out", wanted.out, query, q.dtype, out_extents(q, unpacked_rows(v)), made.out);
    if (q.rank == 3)
        options.lse = wanted_output(call, "lse", wanted.lse, query, lse_type(q.dtype), {q.extent[1], q.extent[0]}, made.lse);
    run_on_ranks(call, communicator, [&](Context &c, const Communicator &of_ranks) {
        return attune::sharded_paged_decode(c, of_ranks, plan, q, k, v, table, held, out, options, report.wanted());
    });
    report.fill();
    return made.result(wanted);
}

const Positional group[] = {
    {"communicator", "Communicator", "The group, and this rank in it."},
    {"plan", "ParallelPlan", "Positions of every rank, equal on all ranks."},
};
const Positional tensors[] = {
    {"query", "ArrayLike", "(B, Hq, S, Dk), S = plan.positions_of(rank): the rows of this rank, in the order of positions."},
    {"key", "ArrayLike", "(B, Hkv, S, Dk); Hq is a multiple of Hkv."},
    {"value", "ArrayLike", "(B, Hkv, S, Dv)."},
};
std::vector<Positional> with(std::initializer_list<Positional> more, bool of_tensors = true) {
    std::vector<Positional> all(std::begin(group), std::end(group));
    if (of_tensors) all.insert(all.end(), std::begin(tensors), std::end(tensors));
    all.insert(all.end(), more);
    return all;
}
constexpr const char *collective =
    "Collective: every rank calls, with its own arrays and otherwise equal arguments. Where ranks disagree, or one rank's "
    "arguments are refused, every rank raises ValueError, and nothing is written. ConnectionError: a message failed, or did "
    "not come within the communicator's time_limit; use the communicator no more. The bits are those of any number of ranks.";

template<auto function, const char *name> void add_forward(nb::module_ &m, const char *summary, std::vector<Positional> given) {
    using namespace nb::literals;
    add(m,
        {name,
         summary,
         std::move(given),
         "Array | Attention",
         "out, (B, Hq, S, Dv); or Attention(out, lse, None).",
         {&attention_keywords(), &attention_outputs(), &weights_keywords(), &report_keyword(), &common_keywords()},
         collective},
        &forward<function, name>, "communicator"_a, "plan"_a, "query"_a.none(), "key"_a.none(), "value"_a.none(), "options"_a);
}

void bind_group(nb::module_ &m) {
    using namespace nb::literals;
    nb::class_<RankCommunicator>(
        m, "Communicator", nb::type_slots(RankCommunicator::slots),
        "A group of ranks, and this rank in it: functions that send and receive. The library calls them from a thread of its\n"
        "own, one at a time. An exception of one makes the call raise ConnectionError, with the exception as its cause.")
        .def(
            nb::init<int, int, nb::object, nb::object, nb::object, double, bool>(), "rank"_a, "size"_a,
            "start_send_receive"_a.none() = nb::none(), "wait"_a.none() = nb::none(), "abandon"_a.none() = nb::none(),
            nb::kw_only(), "time_limit"_a = 60.0, "any_thread"_a = true,
            nb::sig("def __init__(self, rank: int, size: int, start_send_receive: Callable[[memoryview | None, int | None, "
                    "memoryview | None, int | None], Any] | None = None, wait: Callable[[Any, float], bool] | None = None, "
                    "abandon: Callable[[Any], bool] | None = None, *, time_limit: float = 60.0, any_thread: bool = True) "
                    "-> None"),
            "Args:\n    rank: Number of this rank, from 0.\n    size: Number of ranks; with one, no function is needed.\n"
            "    start_send_receive: (send, to, receive, source): begins to send all bytes of the memoryview send to rank\n"
            "        to, and to receive as many as the memoryview receive has from rank source; None, None: no such half.\n"
            "        Messages from one rank to another arrive in the order in which they were started. Returns a request.\n"
            "    wait: (request, seconds): waits for at most so many seconds. True: done, and the memory of the request is\n"
            "        no longer used; False: not yet.\n"
            "    abandon: (request): gives up a request that is not done. True: its memory is no longer used. None: it may be\n"
            "        used until the process ends.\n"
            "    time_limit: Seconds that a rank waits for one message.\n"
            "    any_thread: False: functions are called by the thread that calls the library, between kernels alone.\n\n"
            "Raises:\n    ValueError: an argument is wrong.")
        .def_prop_ro(
            "rank", [](const RankCommunicator &c) { return c.callbacks().rank; }, "Number of this rank.")
        .def_prop_ro(
            "size", [](const RankCommunicator &c) { return c.callbacks().size; }, "Number of ranks.")
        .def_prop_ro(
            "time_limit", [](const RankCommunicator &c) { return c.callbacks().time_limit; },
            "Seconds that a rank waits for one message.");
    nb::class_<ParallelPlan>(m, "ParallelPlan", "Positions of every rank, equal on all ranks; plan_positions() makes it.")
        .def_prop_ro(
            "positions", [](const ParallelPlan &p) { return p.positions; }, "Number of positions.")
        .def_prop_ro(
            "chunk", [](const ParallelPlan &p) { return p.chunk; }, "Positions of a chunk.")
        .def_prop_rw(
            "of_rank", &ranges_of, &set_ranges,
            "Ranges (begin, end) of positions of each rank. A caller's own may be set: the ranges of a rank rise, all\n"
            "together are all positions once, and each begins and ends at a multiple of chunk or at the last position.")
        .def("positions_of", &positions_of, "rank"_a, "Number of positions of a rank: the rows of its arrays.");
    add(m,
        {"plan_positions",
         "Makes a plan: which positions each rank holds.",
         {{"positions", "int", "Number of positions."},
          {"ranks", "int", "Number of ranks; a rank may hold no positions."},
          {"layout", "str",
           "\"contiguous\"; \"head_tail\", a range near the begin and one near the end; \"striped\", every R-th chunk; "
           "\"balanced\", a range each, of equal work: packed documents, windows."},
          {"chunk", "int", "Positions of a chunk; 0: 2048.", "0"}},
         "ParallelPlan",
         "The plan, the same on every rank that calls with the same arguments.",
         {&band_keywords()}},
        &plan_positions, "positions"_a, "ranks"_a, "layout"_a, "chunk"_a = 0, "options"_a);
    add(m,
        {"forecast_parallel",
         "Predicts bytes and time of a function of context parallelism.",
         {{"plan", "ParallelPlan", "Positions of every rank."},
          {"scheme", "str", "The function: \"ring\", \"ring_backward\", \"gathered\" or \"heads\"."}},
         "dict[str, Any]",
         "bytes_sent, exact, compute_seconds and waiting_seconds of each rank; seconds of the last rank; buffer_bytes.",
         {&forecast_keywords()}},
        &forecast_parallel, "plan"_a, "scheme"_a, "options"_a);
}

}  // namespace

void bind_context_parallel(nb::module_ &m) {
    using namespace nb::literals;
    bind_group(m);
    add_forward<attune::ring_attention, ring_attention_name>(
        m, "Attention of this rank's queries over the keys of all ranks (Ring Attention, Liu et al., 2023).", with({}));
    add_forward<attune::gathered_attention, gathered_attention_name>(
        m, "The result of ring_attention() by an all-gather of the keys that this rank's queries may see.", with({}));
    add_forward<attune::head_parallel_attention, head_parallel_attention_name>(
        m, "The result of ring_attention() by an all-to-all over heads; the number of ranks divides Hkv.", with({}));
    add_forward<attune::sharded_decode, sharded_decode_name>(
        m, "Attention of few queries, the same on every rank, over caches that are spread over the ranks.",
        with({{"query", "ArrayLike", "(B, Hq, Sq, Dk), the same on every rank: the last Sq rows that the caches hold."},
              {"key", "ArrayLike", "(B, Hkv, S, Dk), S = plan.positions_of(rank): this rank's rows of the cache."},
              {"value", "ArrayLike", "(B, Hkv, S, Dv)."}},
             false));
    static const Keywords *const outputs = new Keywords(attention_outputs().without({"weights"}));
    add(m,
        {"sharded_paged_decode",
         "Attention of one query of each sequence over pages that are spread over the ranks.",
         with({{"query", "ArrayLike", "(B, Hq, Dk), the same on every rank."},
               {"key_pages", "ArrayLike | tuple[ArrayLike, ...]", "(P, page, Hkv, Dk), this rank's, as in paged_attention()."},
               {"value_pages", "ArrayLike | tuple[ArrayLike, ...]", "(P, page, Hkv, Dv)."},
               {"block_table", "ArrayLike | Sequence[int]",
                "i32 (B, N): row r of this rank's positions lies in page block_table[b, r / page]."},
               {"lens", "ArrayLike | Sequence[int]", "i32 (B): rows of each sequence on all ranks."}},
              false),
         "Array | Attention",
         "out, (B, Hq, Dv); or Attention(out, lse, None) with lse (Hq, B).",
         {&paged_keywords(), outputs, &report_keyword(), &common_keywords()},
         collective},
        &paged_decode, "communicator"_a, "plan"_a, "query"_a.none(), "key_pages"_a.none(), "value_pages"_a.none(),
        "block_table"_a.none(), "lens"_a.none(), "options"_a);
    add(m,
        {"ring_attention_backward",
         "Gradients of a loss by the inputs of ring_attention(), gathered_attention() and head_parallel_attention(). Options "
         "are "
         "those of the forward pass.",
         with({{"out", "ArrayLike", "Result of the forward pass."},
               {"lse", "ArrayLike", "lse of the forward pass."},
               {"grad_out", "ArrayLike", "Gradient of the loss by out, shape of out, last stride 1."}}),
         "dict[str, Array]",
         "The gradients wanted by name: query, key, value, bias, and of all ranks together, on each, alibi_slopes (f32), sinks "
         "(f32). Every rank wants the same.",
         {&attention_keywords(), &grad_lse_keyword(), &gradients_keyword(), &report_keyword(), &common_keywords()},
         collective},
        &backward, "communicator"_a, "plan"_a, "query"_a.none(), "key"_a.none(), "value"_a.none(), "out"_a.none(),
        "lse"_a.none(), "grad_out"_a.none(), "options"_a);
}

}  // namespace attune_python
