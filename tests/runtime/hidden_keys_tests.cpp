// SPDX-License-Identifier: MIT
// Keys that window and offset hide from all queries: attention reads none of their rows, and no bit depends on them.
#include "tests/support/held_case.h"
#include "tests/support/variant_grid.h"
#include <sys/mman.h>
#include <unistd.h>

using namespace attune_test;

namespace {

// Rows (B, H, S, D) of an array in memory of their own, where pages that hold none of rows [begin, end) of any head cannot be
// read.
template<typename T> class PartlyReadable {
public:
    PartlyReadable(Array<T> &from, std::int64_t begin, std::int64_t end) : from_(from.view()) {
        const auto [b, h, s, d] = std::tuple(from_.extent[0], from_.extent[1], from_.extent[2], from_.extent[3]);
        const std::size_t page = std::size_t(sysconf(_SC_PAGESIZE));
        bytes_ = (std::size_t(b * h * s * d) * sizeof(T) + page - 1) / page * page;
        data_ = static_cast<char *>(mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
        REQUIRE(data_ != MAP_FAILED);
        auto *to = reinterpret_cast<T *>(data_);
        std::vector<bool> readable(bytes_ / page, false);
        for (std::int64_t n = 0; n < b; n++)
            for (std::int64_t head = 0; head < h; head++) {
                const std::int64_t first = (n * h + head) * s;
                for (std::int64_t j = begin; j < end; j++)
                    for (std::int64_t c = 0; c < d; c++) to[(first + j) * d + c] = from(n, head, j, c);
                for (std::size_t at = std::size_t((first + begin) * d) * sizeof(T) / page;
                     at <= (std::size_t((first + end) * d) * sizeof(T) - 1) / page; at++)
                    readable[at] = true;
            }
        for (std::size_t at = 0; at < readable.size(); at++) {
            if (readable[at]) continue;
            REQUIRE(mprotect(data_ + at * page, page, PROT_NONE) == 0);
            hidden_pages++;
        }
    }
    ~PartlyReadable() { munmap(data_, bytes_); }
    PartlyReadable(const PartlyReadable &) = delete;

    attune::ConstView view() const {
        return {reinterpret_cast<const T *>(data_), {from_.extent[0], from_.extent[1], from_.extent[2], from_.extent[3]}};
    }
    std::size_t hidden_pages = 0;

private:
    attune::ConstView from_;
    std::size_t bytes_ = 0;
    char *data_ = nullptr;
};

// Options of a case, by number, beside a window.
void set_options(SdpaCase &c, int kind) {
    if (kind == 1) c.alibi = Alibi::per_head, c.bias = "hij", c.softcap = 6;
    if (kind == 2) c.bias = "i1", c.mask = "b1ij", c.sinks = true;
    if (kind == 3) c.dropout = {0.3, 5, 2};
}

// Checks a case with offsets against the call over keys [begin, end) alone, which begin and end at KV blocks.
template<typename T> void check_hidden(const SdpaCase &c, std::int64_t begin, std::int64_t end, std::string_view variant) {
    static attune::Context one({.threads = 1}), two({.threads = 2});
    INFO(describe(c) << " variant " << variant << " keys seen " << begin << " to " << end);
    SdpaArrays<T> all(c), seen(c);
    const PartlyReadable<T> key(all.key, begin, end), value(all.value, begin, end);
    CHECK(key.hidden_pages + value.hidden_pages > 0);
    REQUIRE(attune::scaled_dot_product_attention(two, all.query.view(), key.view(), value.view(), all.out.view(),
                                                 all.options(variant))
                .ok());
    std::vector<std::int32_t> offsets = c.offsets;
    for (std::int32_t &offset : offsets) offset -= std::int32_t(begin);
    attune::SdpaOptions o = seen.options(variant);
    o.offsets = attune::ConstView(offsets.data(), {c.batch});
    o.dropout.first_key = std::uint32_t(begin);
    const auto keys_of = [&](const attune::ConstView &v, int n) { return part_of(v, n, begin, end - begin); };
    for (attune::ConstView *table : {&o.bias, &o.mask})
        if (table->given() && table->extent[table->rank - 1] > 1) *table = keys_of(*table, table->rank - 1);
    REQUIRE(attune::scaled_dot_product_attention(one, seen.query.view(), keys_of(seen.key.view(), 2),
                                                 keys_of(seen.value.view(), 2), seen.out.view(), o)
                .ok());
    bool same = true;
    for (std::int64_t b = 0; b < c.batch; b++)
        for (std::int64_t h = 0; h < c.query_heads; h++)
            for (std::int64_t i = 0; i < c.queries; i++) same = same && same_row(all, seen, b, h, i);
    CHECK(same);
}

}  // namespace

TEST_CASE("hidden keys: every variant reads the keys of its windows alone", "[runtime][per_variant]") {
    for_each_variant([&](const attune::VariantInfo &v, auto zero) {
        if (v.schedule == "root") return;  // which computes all pairs
        const auto [head_dim, value_dim] = head_size(v);
        const std::int32_t block = kv_block_of(v), tile = tile_of(v);
        unsigned seed = 1;
        for (const std::int64_t queries : {1, 6, std::max(tile, 63) + 1})
            for (int kind = 0; kind < 4; kind++) {
                if (v.kind == "plain" ? kind > 0 : (kind == 3) != (v.kind == "training")) continue;
                SdpaCase c{.batch = 2, .query_heads = 4, .key_heads = 2, .queries = queries, .seed = seed++};
                c.head_dim = head_dim, c.value_dim = value_dim, c.window = {block / 2, 3};
                // From the middle of a KV block on; the second entry sees later keys.
                const std::int64_t hidden = (std::max(1024 / block, 2) + 1) * block, first = hidden,
                                   from = first + block / 2 + 1;
                c.offsets = {std::int32_t(from + block / 2), std::int32_t(from + block / 2 + 9)},
                c.causal = attune::Causal::none;
                const std::int64_t last = c.offsets[1] + queries - 1 + 3, end = (last / block + 1) * block;
                c.keys = end + hidden + 7;
                set_options(c, kind);
                check_hidden<decltype(zero)>(c, first, end, v.name);
            }
    });
}

TEST_CASE("hidden keys: queries that see no key at all", "[runtime]") {
    attune::Context context({.threads = 2});
    const auto sink = [](SdpaArrays<float> &a, std::int64_t h) { return static_cast<const float *>(a.sinks.view().data)[h]; };
    for (const std::int64_t offset : {-5000, 5000}) {
        SdpaCase c{.batch = 1, .queries = 70, .keys = 1000, .offset = offset, .window = {20, 20}, .sinks = true};
        SdpaArrays<float> a(c);
        a.key.each([](float &x) { x = std::numeric_limits<float>::quiet_NaN(); });
        REQUIRE(a.run(context).ok());
        bool zeros = true, lse = true;
        for (std::int64_t h = 0; h < c.query_heads; h++)
            for (std::int64_t i = 0; i < c.queries; i++) {
                lse = lse && a.lse(0, h, i) == sink(a, h);
                for (std::int64_t d = 0; d < c.value_dim; d++) zeros = zeros && a.out(0, h, i, d) == 0;
            }
        CHECK(zeros);
        CHECK(lse);
    }
}
