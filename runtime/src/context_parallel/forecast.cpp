// SPDX-License-Identifier: MIT
// Forecast of a call of context parallelism: bytes, and a simulation of messages and computations.
#include "context_parallel/geometry.h"
#include "tensors/checks.h"
#include <new>

namespace attune {
namespace {

bool positive(double x) { return x > 0; }

class Simulation {
public:
    Simulation(const ParallelPlan &plan, const ParallelProblem &p, const ParallelMachine &machine, ParallelForecast &forecast)
        : plan_(plan), geometry_(plan), p_(p), machine_(machine), f_(forecast), ranks_(static_cast<int>(plan.of_rank.size())) {
        const auto ranks = plan.of_rank.size();
        f_.bytes_sent.assign(ranks, 0), f_.compute_seconds.assign(ranks, 0), f_.waiting_seconds.assign(ranks, 0);
        now_.assign(ranks, 0);
    }

    // Chunks of keys, or of queries, circulate. multiply_adds: of a pair of a query and a key in one head.
    void circulate(bool of_keys, double multiply_adds);
    void gather();
    void by_heads();
    void end() {
        for (const double t : now_) f_.seconds = std::max(f_.seconds, t);
    }
    double of_forward() const { return static_cast<double>(p_.head_dim + p_.value_dim); }

private:
    std::size_t bytes_of(std::int64_t chunk, bool of_keys) const {
        const std::int64_t rows = geometry_.count(chunk);
        const auto bytes = [&](std::int64_t heads, std::int64_t width, DType type) {
            return message_bytes(p_.batch, heads, rows, width, type);
        };
        if (of_keys) return bytes(p_.key_heads, p_.head_dim, p_.dtype) + bytes(p_.key_heads, p_.value_dim, p_.dtype);
        return bytes(p_.query_heads, p_.head_dim, p_.dtype) + 2 * bytes(p_.query_heads, p_.value_dim, p_.dtype) +
               bytes(p_.query_heads, 1, sum_type(p_.dtype));
    }
    double seconds_of(std::size_t bytes) const {
        return machine_.seconds_per_message + static_cast<double>(bytes) / machine_.bytes_per_second;
    }
    // Seconds that a rank computes with a chunk.
    double work(int rank, std::int64_t chunk, bool of_keys, double multiply_adds) const;

    const ParallelPlan &plan_;
    const Geometry geometry_;
    const ParallelProblem &p_;
    const ParallelMachine &machine_;
    ParallelForecast &f_;
    const int ranks_;
    std::vector<double> now_;  // of each rank: when it has computed all so far
};

double Simulation::work(int rank, std::int64_t chunk, bool of_keys, double multiply_adds) const {
    double pairs = 0;
    for (const std::int64_t own : geometry_.chunks_of(rank))
        for (const ChunkPair &p : of_keys ? geometry_.pairs(own, chunk) : geometry_.pairs(chunk, own)) {
            double seen = static_cast<double>(p.queries) * static_cast<double>(p.keys);
            // Kernels leave out the half of a chunk that a causal mask hides.
            if (plan_.band.causal != Causal::none && p.query == p.key) seen = (seen + static_cast<double>(p.queries)) / 2;
            pairs += seen;
        }
    return pairs * multiply_adds * static_cast<double>(p_.batch * p_.query_heads) / machine_.multiply_adds_per_second;
}

// Message by message: a rank sends one at a time and receives one at a time, in the order of the chunks, and has a slot for it.
void Simulation::circulate(bool of_keys, double multiply_adds) {
    struct Rank {
        double sends_until = 0, receives_until = 0;
        std::vector<double> slot_free;  // when the slot of each message was free again
    };
    std::vector<Rank> ranks(static_cast<std::size_t>(ranks_));
    const std::size_t slots = slots_of(ranks_);
    const std::vector<double> begin = now_;
    for (std::size_t r = 0; r < ranks.size(); r++) ranks[r].sends_until = ranks[r].receives_until = begin[r];
    std::size_t largest = 0;
    for (std::int64_t c = 0; c < geometry_.chunks(); c++) {
        const std::size_t bytes = bytes_of(c, of_keys);
        const double seconds = seconds_of(bytes);
        const auto slot_free = [&](std::size_t r) {
            const std::vector<double> &free = ranks[r].slot_free;
            return free.size() < slots ? begin[r] : free[free.size() - slots];
        };
        const auto owner = static_cast<std::size_t>(geometry_.owner(c));
        const auto compute = [&](std::size_t r, double ready) {
            const double w = work(static_cast<int>(r), c, of_keys, multiply_adds);
            if (w == 0) return ready;
            f_.waiting_seconds[r] += std::max(0.0, ready - now_[r]), f_.compute_seconds[r] += w;
            return now_[r] = std::max(now_[r], ready) + w;
        };
        std::vector<int> needed = geometry_.needed_by(c, of_keys);
        if (!needed.empty()) largest = std::max(largest, bytes);
        std::size_t from = owner;
        double ready = needed.empty() ? 0 : slot_free(owner), computed = 0;
        compute(owner, begin[owner]);
        for (const int next : needed) {
            const auto to = static_cast<std::size_t>(next);
            const double start = std::max({ready, ranks[from].sends_until, ranks[to].receives_until, slot_free(to)});
            const double end = start + seconds;
            ranks[from].sends_until = ranks[to].receives_until = end;
            ranks[from].slot_free.push_back(std::max(end, computed));
            f_.bytes_sent[from] += static_cast<std::int64_t>(bytes);
            computed = compute(to, end);
            from = to, ready = end;
        }
        if (!needed.empty()) ranks[from].slot_free.push_back(computed);
    }
    for (std::size_t r = 0; r < ranks.size(); r++) {
        f_.waiting_seconds[r] += std::max(0.0, ranks[r].sends_until - now_[r]);
        now_[r] = std::max(now_[r], ranks[r].sends_until);
    }
    if (ranks_ > 1) f_.buffer_bytes = std::max(f_.buffer_bytes, static_cast<std::int64_t>(largest * slots));
}

// All messages, one at a time in and out of each rank; then each rank computes.
void Simulation::gather() {
    std::vector<double> sends(now_.size()), receives(now_.size());
    std::vector<std::int64_t> held(now_.size());
    for (std::int64_t c = 0; c < geometry_.chunks(); c++) {
        const std::size_t bytes = bytes_of(c, true);
        const auto owner = static_cast<std::size_t>(geometry_.owner(c));
        const std::vector<int> needed = geometry_.needed_by(c, true);
        if (!needed.empty()) held[owner] += static_cast<std::int64_t>(bytes);
        for (const int next : needed) {
            const auto to = static_cast<std::size_t>(next);
            const double end = std::max(sends[owner], receives[to]) + seconds_of(bytes);
            sends[owner] = receives[to] = end;
            f_.bytes_sent[owner] += static_cast<std::int64_t>(bytes), held[to] += static_cast<std::int64_t>(bytes);
        }
    }
    for (int rank = 0; rank < ranks_; rank++) {
        const auto r = static_cast<std::size_t>(rank);
        f_.waiting_seconds[r] = now_[r] = std::max(sends[r], receives[r]);
        for (std::int64_t c = 0; c < geometry_.chunks(); c++) f_.compute_seconds[r] += work(rank, c, true, of_forward());
        now_[r] += f_.compute_seconds[r];
        f_.buffer_bytes = std::max(f_.buffer_bytes, held[r]);
    }
}

void Simulation::by_heads() {
    const std::int64_t b = p_.batch, q = p_.query_heads / ranks_, k = p_.key_heads / ranks_, size = size_of(p_.dtype);
    const std::int64_t of_row = b * ((q + k) * p_.head_dim + k * p_.value_dim) * size,
                       of_result = b * q * (p_.value_dim * size + size_of(sum_type(p_.dtype)));
    double all = 0;
    for (int rank = 0; rank < ranks_; rank++)
        for (std::int64_t c = 0; c < geometry_.chunks(); c++) all += work(rank, c, true, of_forward());
    double waits = 0;
    for (int rank = 0; rank < ranks_; rank++) {
        const auto r = static_cast<std::size_t>(rank);
        const std::int64_t own = plan_.positions_of(rank), others = plan_.positions - own;
        f_.bytes_sent[r] = own * of_row * (ranks_ - 1) + others * of_result;
        f_.compute_seconds[r] = all / ranks_;
        const double messages = 2 * machine_.seconds_per_message * (ranks_ - 1);
        waits = std::max(waits, messages + static_cast<double>(f_.bytes_sent[r]) / machine_.bytes_per_second);
        const std::int64_t held = plan_.positions * (2 * of_row + 2 * of_result) + own * (of_row + of_result) * ranks_;
        f_.buffer_bytes = std::max(f_.buffer_bytes, held);
    }
    for (std::size_t r = 0; r < now_.size(); r++) {
        f_.waiting_seconds[r] = ranks_ > 1 ? waits : 0;
        now_[r] = f_.waiting_seconds[r] + f_.compute_seconds[r];
    }
}

Status check(const ParallelPlan &plan, const ParallelProblem &p, ParallelScheme scheme, const ParallelMachine &m) {
    if (Status s = check_plan(plan); !s.ok()) return s;
    for (const std::int64_t n : {p.batch, p.query_heads, p.key_heads, p.head_dim, p.value_dim})
        if (n < 1) return invalid("problem", "sizes must be at least 1, got " + text(n));
    if (!positive(m.multiply_adds_per_second) || !positive(m.bytes_per_second) || m.seconds_per_message < 0)
        return invalid("machine", "rates must be above 0");
    if (static_cast<unsigned>(scheme) > static_cast<unsigned>(ParallelScheme::heads))
        return invalid("scheme", "must be from 0 to 3, got " + text(static_cast<int>(scheme)));
    if (scheme == ParallelScheme::heads && p.key_heads % static_cast<std::int64_t>(plan.of_rank.size()) != 0)
        return invalid("problem.key_heads",
                       text(p.key_heads) + " heads, which " + text(plan.of_rank.size()) + " ranks do not divide");
    return {};
}

Status forecast(const ParallelPlan &plan, const ParallelProblem &problem, ParallelScheme scheme, const ParallelMachine &machine,
                ParallelForecast &result) {
    if (Status s = check(plan, problem, scheme, machine); !s.ok()) return s;
    ParallelForecast made;
    Simulation simulation(plan, problem, machine, made);
    const auto k = static_cast<double>(problem.head_dim), v = static_cast<double>(problem.value_dim);
    switch (scheme) {
    case ParallelScheme::ring: simulation.circulate(true, k + v); break;
    case ParallelScheme::ring_backward:
        // Five products on one rank; else scores, their gradients and that of queries, then scores, their gradients and those
        // of keys and values.
        if (plan.of_rank.size() == 1) {
            simulation.circulate(true, 3 * k + 2 * v);
        } else {
            simulation.circulate(true, 2 * k + v);
            simulation.circulate(false, 2 * k + 2 * v);
        }
        break;
    case ParallelScheme::gathered: simulation.gather(); break;
    case ParallelScheme::heads: simulation.by_heads(); break;
    }
    simulation.end();
    result = std::move(made);
    return {};
}

}  // namespace

Status forecast_parallel(const ParallelPlan &plan, const ParallelProblem &problem, ParallelScheme scheme,
                         const ParallelMachine &machine, ParallelForecast &result) noexcept {
    try {
        return forecast(plan, problem, scheme, machine, result);
    } catch (const std::bad_alloc &) {
        return {StatusCode::out_of_memory, "out of memory"};
    }
}

}  // namespace attune
