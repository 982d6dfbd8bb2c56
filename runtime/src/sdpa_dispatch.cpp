#include "cpu_features.h"
#include "sdpa_call.h"
#include <algorithm>

namespace attune {
namespace {

// A class of variants that suits a shape. Which one is asked for depends on types, dimensions, the group and the classes of Sq and
// Sk; never on the batch, threads or data, so that a slice of a batch computes the same bits alone.
struct Wish {
    std::string_view schedule, shape_class, reason;
    bool whole_tiles = false;  // only a variant whose tiles the queries nearly fill
};

// Classes to look for, the best first. The last one always exists.
std::vector<Wish> wishes(const SdpaProblem &p) {
    const SdpaShapeClasses &c = sdpa_shape_classes();
    const std::int64_t rows = p.key_heads ? p.query_heads / p.key_heads * p.queries : 0;
    std::vector<Wish> list;
    if (rows <= c.decode_rows_at_most && p.keys >= c.decode_keys_at_least) {
        if (rows == 1) list.push_back({"decode", "g1", "one query row for each key head"});
        if (rows > 1) list.push_back({"decode", "g4", "few query rows for each key head"});
    }
    if (p.queries <= c.short_queries_at_most) list.push_back({"prefill", "short", "few queries"});
    if (p.keys <= c.short_keys_at_most) list.push_back({"prefill", "short", "few keys"});
    list.push_back({"prefill", "long", "many queries", true});
    list.push_back({"prefill", "short", "its tiles fit the queries better"});
    list.push_back({"prefill", "long", "no smaller class is built"});
    list.push_back({"root", "", "nothing else is built"});
    return list;
}

bool fills_tiles(const VariantRecord &v, const SdpaProblem &p) {
    const std::int64_t padding = (v.tile_q - p.queries % v.tile_q) % v.tile_q;
    return padding * 100 <= p.queries * sdpa_shape_classes().long_padding_percent_at_most;
}

bool fits(const VariantRecord &v, const SdpaProblem &p) {
    return v.op == "sdpa" && v.dtype == p.dtype && (v.head_dim == 0 || (v.head_dim == p.head_dim && v.head_dim == p.value_dim));
}

// What this machine runs: the most specific target first, and a kernel of one head size before one of any.
const std::vector<const VariantRecord *> &dispatched_here() {
    static const std::vector<const VariantRecord *> list = [] {
        std::vector<const VariantRecord *> l;
        for (const char *target : cpu_targets())
            for (const bool any_size : {false, true})
                for (const VariantRecord &v : variant_records())
                    if (v.dispatched && v.target == target && (v.head_dim == 0) == any_size && runs_here(v.target))
                        l.push_back(&v);
        return l;
    }();
    return list;
}

Status forced_variant(const SdpaProblem &p, std::string_view name, std::string_view by, SdpaChoice &choice) {
    const std::string source = std::string(by) + ": ";
    const VariantRecord *v = find_variant(name);
    if (!v) return {StatusCode::invalid_argument, source + "there is no variant " + std::string(name)};
    if (!runs_here(v->target))
        return {StatusCode::unsupported,
                source + std::string(name) + " cannot run here: this CPU lacks " + missing_for(v->target)};
    if (!fits(*v, p))
        return {StatusCode::invalid_argument,
                source + std::string(name) + " is for " + name_of(v->dtype) +
                    (v->head_dim ? " and head size " + std::to_string(v->head_dim) : std::string()) + "; this call has " +
                    name_of(p.dtype) + " and head sizes " + std::to_string(p.head_dim) + " and " + std::to_string(p.value_dim)};
    choice = {v, "forced"};
    return {};
}

std::size_t ceil_div(std::int64_t a, std::int64_t b) { return static_cast<std::size_t>((a + b - 1) / b); }

}  // namespace

Status choose_sdpa(const SdpaProblem &p, std::string_view forced, std::string_view forced_by, SdpaChoice &choice) {
    if (!forced.empty()) return forced_variant(p, forced, forced_by, choice);
    for (const Wish &wish : wishes(p))
        for (const VariantRecord *v : dispatched_here()) {
            if (v->schedule != wish.schedule || v->shape_class != wish.shape_class || !fits(*v, p)) continue;
            if (wish.whole_tiles && !fills_tiles(*v, p)) continue;
            choice = {v, wish.reason};
            return {};
        }
    return {StatusCode::unsupported,
            std::string("sdpa: no variant for ") + name_of(p.dtype) + " is linked in that this CPU runs"};
}

int worthwhile_threads(const SdpaProblem &p, int threads) noexcept {
    // Waking another thread costs some ten microseconds; a core does this much in about as long.
    constexpr double least_work = 1e6;
    const double multiply_adds = static_cast<double>(p.batch) * static_cast<double>(p.query_heads) *
                                 static_cast<double>(p.queries) * static_cast<double>(p.keys) *
                                 static_cast<double>(p.head_dim + p.value_dim);
    return multiply_adds < least_work ? 1 : threads;
}

std::size_t sdpa_workspace_bytes(const VariantRecord &v, const SdpaProblem &p, int threads) noexcept {
    if (p.batch * p.query_heads * p.queries == 0 || p.keys == 0) return 0;
    // The stages of each schedule that live at the same time, in elements. A test holds this to be an upper bound.
    constexpr std::size_t lanes = 16, padding = 256, blocks = 24;
    const auto size = static_cast<std::size_t>(size_of(p.dtype));
    const auto dk = static_cast<std::size_t>(p.head_dim), dv = static_cast<std::size_t>(p.value_dim) + 2 * lanes;
    const auto tile = static_cast<std::size_t>(v.tile_q), chunk = static_cast<std::size_t>(v.chunk);
    const auto heads = static_cast<std::size_t>(p.batch * p.query_heads), queries = static_cast<std::size_t>(p.queries);
    const std::size_t lse = heads * queries, lengths = 2 * static_cast<std::size_t>(p.batch) * (queries + 1);
    const auto workers = static_cast<std::size_t>(threads);
    std::size_t elements = 0;
    if (v.schedule == "prefill") {
        const std::size_t chunks = ceil_div(p.keys, v.chunk) + 1;
        elements = workers * tile * (dk + 2 * dv + chunks * (dv + 3) + 2 * chunk + 16);
    } else if (v.schedule == "decode") {
        const std::size_t chunks = ceil_div(p.keys, v.chunk) + 1;
        const std::size_t rows = (heads * queries / static_cast<std::size_t>(p.batch * p.key_heads) + tile) *
                                 static_cast<std::size_t>(p.batch * p.key_heads);
        elements = rows * (dk + 2 + chunks * dv) + workers * (tile * (2 * chunk + 2 * dv + 8) + 2 * dv + 2 * chunks);
    } else {
        constexpr std::size_t root_chunk = 128;  // the generator's default
        const std::size_t rows = heads * queries, chunks = ceil_div(p.keys, root_chunk) + 1;
        elements = rows * (dk + 3 * chunks * root_chunk + chunks * (2 * dv + 8) + 2 * dv + 8);
    }
    return (elements + lse) * size + lengths * 4 + (workers + 1) * blocks * padding;
}

}  // namespace attune
