// SPDX-License-Identifier: MIT
// attune run kv-append and merge.
#include "attune/kv_cache.h"
#include "attune/merge.h"
#include "tools/calls/library_call.h"
#include "tools/error.h"
#include "tools/files/command_files.h"
#include <deque>

namespace attune::program {
namespace {

CacheWhenFull parse_when_full(const Given &text) {
    if (!text || *text == "refuse") return CacheWhenFull::refuse;
    if (*text == "slide") return CacheWhenFull::slide;
    throw InputError("--when-full", "'" + *text + "' is not refuse or slide");
}

// A part of a merge: its options, and its place among those of --part, for messages.
struct Part {
    const char *out_argument, *lse_argument;
    std::string place;  // " of part 3"
    Array out = {}, lse = {};
};

std::string replaced(std::string text, const std::string &old, const std::string &by) {
    for (std::size_t at = text.find(old); at != text.npos; at = text.find(old, at + by.size()))
        text.replace(at, old.size(), by);
    return text;
}

// The library's names of parts, "parts[2].out", in the words of the command line.
void check_merge(const Status &status, const std::deque<Part> &parts) {
    if (status.code() != StatusCode::invalid_argument && status.code() != StatusCode::unsupported) return check(status);
    const std::size_t colon = status.message().find(": ");
    const std::string name = status.message().substr(0, colon);
    std::string argument = name, what = status.message().substr(colon + 2);
    for (std::size_t n = 0; n < parts.size(); n++) {
        const Part &part = parts[n];
        for (const auto &[member, option, file] :
             {std::tuple(".out", part.out_argument, "OUT"), {".lse", part.lse_argument, "LSE"}}) {
            const std::string library = "parts[" + std::to_string(n) + "]" + member;
            if (name == library) {
                argument = option;
                if (!part.place.empty()) what = file + part.place + ": " + what;
            }
            what = replaced(what, library, part.place.empty() ? option : file + part.place);
        }
    }
    if (argument == name) return check(status);
    throw InputError(argument, what);
}

}  // namespace

void run_kv_append(const KvAppendArguments &given) {
    KvAppendOptions options;
    options.when_full = parse_when_full(given.when_full);
    const ContextOptions resources = context_options(given.call);
    CommandFiles files(given.call);
    Array key, value, key_cache, value_cache, cache_lens, new_lens;
    const Ranks rows{4, 4, "(B, Hkv, S, D)"}, cache{4, 4, "(B, Hkv, C, D)"}, lens{1, 1, "(B,)"};
    files.input("--key", given.key, key, rows);
    files.input("--value", given.value, value, rows);
    files.input("--key-cache", given.key_cache, key_cache, cache);
    files.input("--value-cache", given.value_cache, value_cache, cache);
    files.input("--cache-lens", given.cache_lens, cache_lens, lens, Role::integers);
    files.input("--new-lens", given.new_lens, new_lens, lens, Role::integers);
    files.output("--key-out", given.key_out);
    files.output("--value-out", given.value_out);
    files.load();
    options.new_lens = view_of(new_lens);
    Context context(resources);
    check(context.status());
    constexpr int rank = 4;
    check(kv_append(context, view_of(key, rank), view_of(value, rank), view_of(cache_lens), output_view(key_cache, rank),
                    output_view(value_cache, rank), options));
    files.write("--key-out", key_cache);
    files.write("--value-out", value_cache);
    files.commit();
}

void run_merge(const MergeArguments &given) {
    const ContextOptions resources = context_options(given.call);
    if (given.parts.size() % 2 != 0)
        throw InputError("--part", "has " + std::to_string(given.parts.size()) + " files, expected OUT and LSE of each part");
    CommandFiles files(given.call);
    std::deque<Part> parts;  // elements must not move
    const Ranks rows{2, max_rank, "(B, Hq, Sq, Dv), (Hq, Sq, Dv) or (Sq, Dv)"},
        sums{1, max_rank - 1, "(B, Hq, Sq), (Hq, Sq) or (Sq,)"};
    const auto add = [&](const Part &part, const std::string &out, const std::string &lse) {
        Part &added = parts.emplace_back(Part{part.out_argument, part.lse_argument, part.place});
        files.input(added.out_argument, out, added.out, rows);
        files.input(added.lse_argument, lse, added.lse, sums, Role::sums);
    };
    const std::pair<const char *, const Given *> first_two[] = {
        {"--out-a", &given.out_a}, {"--lse-a", &given.lse_a}, {"--out-b", &given.out_b}, {"--lse-b", &given.lse_b}};
    if (given.parts.empty() || given.out_a || given.lse_a || given.out_b || given.lse_b) {
        for (const auto &[argument, path] : first_two)
            if (!*path) throw InputError(argument, given.parts.empty() ? "is required, or --part" : "is required");
        add({"--out-a", "--lse-a", ""}, *given.out_a, *given.lse_a);
        add({"--out-b", "--lse-b", ""}, *given.out_b, *given.lse_b);
    }
    for (std::size_t n = 0; n < given.parts.size(); n += 2)
        add({"--part", "--part", " of part " + std::to_string(n / 2 + 1)}, given.parts[n], given.parts[n + 1]);
    files.output("--out", given.out);
    files.output("--lse", given.lse);
    files.load();
    Context context(resources);
    check(context.status());
    Array out = output_array("--out", files.type(), parts[0].out.shape), lse;
    if (given.lse) lse = output_array("--lse", files.sum_type(), parts[0].lse.shape);
    std::vector<PartialAttention> views;
    for (const Part &part : parts) views.push_back({view_of(part.out), view_of(part.lse)});
    check_merge(merge_attention(context, views.data(), views.size(), output_view(out), output_view(lse)), parts);
    files.write("--out", out);
    if (given.lse) files.write("--lse", lse);
    files.commit();
}

}  // namespace attune::program
