// SPDX-License-Identifier: MIT
#include "context_parallel/agreement.h"
#include "tensors/checks.h"
#include <algorithm>
#include <array>
#include <cstring>

namespace attune {
namespace {

// Numbers that each rank sends: its refusal, its call, and the fields; 512 bytes.
constexpr std::size_t numbers_of_rank = 64;
using Numbers = std::array<std::int64_t, numbers_of_rank>;

const char *name_of(std::int64_t call) {
    switch (static_cast<ParallelCall>(call)) {
    case ParallelCall::ring: return "ring_attention";
    case ParallelCall::backward: return "ring_attention_backward";
    case ParallelCall::gathered: return "gathered_attention";
    case ParallelCall::heads: return "head_parallel_attention";
    case ParallelCall::decode: return "sharded_decode";
    case ParallelCall::paged_decode: return "sharded_paged_decode";
    }
    return "another function";
}

// FNV-1a over the bytes of numbers.
class Hash {
public:
    template<typename Number> void add(Number n) {
        std::array<unsigned char, sizeof n> bytes;
        std::memcpy(bytes.data(), &n, sizeof n);
        for (const unsigned char byte : bytes) value_ = (value_ ^ byte) * 0x100000001b3u;
    }
    std::int64_t value() const { return static_cast<std::int64_t>(value_); }

private:
    std::uint64_t value_ = 0xcbf29ce484222325u;
};

}  // namespace

void Agreement::add(const char *name, std::int64_t number) { fields_.push_back({name, number, true}); }
void Agreement::add(const char *name, double number) {
    Hash hash;
    hash.add(number);
    fields_.push_back({name, hash.value(), false});
}
void Agreement::add(const char *name, std::string_view characters) {
    Hash hash;
    for (const char c : characters) hash.add(c);
    fields_.push_back({name, hash.value(), false});
}
void Agreement::add(const char *name, const ConstView &ints) {
    Hash hash;
    // A list that is refused is not read.
    if (ints.rank == 1 && check_ints(name, ints).ok())
        for (std::int64_t n = 0; n < ints.extent[0]; n++) hash.add(int_at(ints, n));
    fields_.push_back({name, ints.given() ? hash.value() : 0, false});
}

// All extents but that of the rows, which are a rank's own.
void Agreement::add_table(const char *name, const ConstView &table) {
    Hash hash;
    for (int n = 0; table.given() && n < 4; n++)
        hash.add(n == 2 || n + table.rank < 4 || table.rank > 4 ? std::int64_t{1} : table.extent[n + table.rank - 4]);
    fields_.push_back({name, table.given() ? hash.value() : 0, false});
}

void Agreement::add(const ParallelPlan &plan) {
    add("plan.positions", plan.positions), add("plan.chunk", plan.chunk);
    // top_left and bottom_right are one mask.
    add("plan.band.causal", std::int64_t{plan.band.causal != Causal::none});
    add("plan.band.window.left", plan.band.window.left), add("plan.band.window.right", plan.band.window.right);
    Hash documents, ranges;
    for (const std::int32_t end : plan.documents) documents.add(end);
    for (const std::vector<PositionRange> &own : plan.of_rank) {
        for (const PositionRange &r : own) ranges.add(r.begin), ranges.add(r.end);
        ranges.add(std::int64_t{-1});
    }
    fields_.push_back({"plan.documents", documents.value(), false});
    fields_.push_back({"plan.of_rank", ranges.value(), false});
}

void Agreement::add(const SdpaOptions &o) {
    add("score", static_cast<std::int64_t>(o.score)), add("scale", o.scale.value_or(-1.0));
    add("softcap", o.softcap);
    add_table("bias", o.bias), add_table("mask", o.mask);
    add("alibi", std::int64_t{o.alibi}), add("alibi_slopes", std::int64_t{o.alibi_slopes.given()});
    add("causal", std::int64_t{o.causal != Causal::none});
    add("window.left", o.window.left), add("window.right", o.window.right);
    add("valid_lens", o.valid_lens), add("sinks", std::int64_t{o.sinks.given()});
    Hash dropout;
    dropout.add(o.dropout.probability), dropout.add(o.dropout.seed), dropout.add(o.dropout.offset);
    for (const std::uint32_t n : {o.dropout.first_query, o.dropout.first_key, o.dropout.first_head, o.dropout.heads})
        dropout.add(n);
    fields_.push_back({"dropout", dropout.value(), false});
    add("invariant", std::int64_t{o.invariant}), add("variant", o.variant);
}

// The elements of captured buffers are not compared.
void Agreement::add(const UserCall *user) {
    add("attention", user ? user->attention->name : std::string_view());
    Hash captures;
    for (std::size_t n = 0; user && n < user->captures.size(); n++) {
        const CaptureArgument &c = user->captures[n];
        captures.add(c.number.value_or(0)), captures.add(std::int64_t{c.buffer.given()});
        for (int e = 0; e < std::clamp(c.buffer.rank, 0, max_rank); e++) captures.add(c.buffer.extent[e]);
    }
    fields_.push_back({"captures", captures.value(), false});
}

Status Agreement::compare(Channel &channel, const Status &own) const {
    const Communicator &c = channel.communicator();
    if (fields_.size() + 2 > numbers_of_rank) return {StatusCode::internal, "more is compared than 512 bytes hold"};
    if (c.size == 1) return own;
    Numbers mine{};
    mine[0] = own.ok() ? 0 : 1, mine[1] = static_cast<std::int64_t>(call_);
    for (std::size_t n = 0; n < fields_.size(); n++) mine[n + 2] = fields_[n].number;
    const auto ranks = static_cast<std::size_t>(c.size);
    char *memory = channel.allocate(sizeof(Numbers) * (ranks + 1));
    if (!memory) return no_memory();
    std::memcpy(memory, mine.data(), sizeof mine);
    channel.counts = false;
    const Status gathered = channel.all_gather(memory, memory + sizeof mine, std::vector<std::size_t>(ranks, sizeof(Numbers)));
    channel.counts = true;
    if (!own.ok()) return own;
    if (!gathered.ok()) return gathered;
    std::vector<Numbers> all(ranks);
    std::memcpy(all.data(), memory + sizeof mine, sizeof(Numbers) * ranks);
    for (std::size_t rank = 0; rank < ranks; rank++)
        if (all[rank][0])
            return {StatusCode::invalid_argument, "rank " + text(rank) + " refused its arguments: its own message says which"};
    for (std::size_t n = 1; n < fields_.size() + 2; n++)
        for (std::size_t rank = 1; rank < ranks; rank++) {
            if (all[rank][n] == all[0][n]) continue;
            if (n == 1)
                return {StatusCode::invalid_argument, "ranks disagree on the function: rank 0 calls " +
                                                          std::string(name_of(all[0][1])) + ", rank " + text(rank) + " " +
                                                          name_of(all[rank][1])};
            const Field &field = fields_[n - 2];
            std::string message = std::string(field.name) + ": ranks disagree, rank 0 ";
            message += field.shown ? "has " + text(all[0][n]) + ", rank " + text(rank) + " has " + text(all[rank][n])
                                   : "has other numbers than rank " + text(rank);
            return {StatusCode::invalid_argument, message};
        }
    return {};
}

}  // namespace attune
