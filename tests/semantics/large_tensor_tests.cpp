// SPDX-License-Identifier: MIT
// Tensors of more than 2^31 elements, of which a few pages of memory are touched: results are those of the same numbers close
// together.
#include "tests/support/catch.h"
#include "tests/support/environment.h"
#include "tests/support/linear_case.h"
#include "tests/support/small_calls.h"
#include <limits>
#include <memory>
#include <random>
#include <sys/mman.h>

using namespace attune_test;
using attune::ConstView, attune::View;

namespace {

constexpr std::int64_t most_stride = std::numeric_limits<std::int32_t>::max();

// Addresses whose memory is taken page by page, where it is written.
class Addresses {
public:
    explicit Addresses(std::int64_t bytes)
        : bytes_(std::size_t(bytes)),
          data_(mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {}
    ~Addresses() {
        if (found()) munmap(data_, bytes_);
    }
    Addresses(const Addresses &) = delete;
    bool found() const { return data_ != MAP_FAILED; }
    template<typename T = char> T *data() const { return static_cast<T *>(data_); }

private:
    std::size_t bytes_;
    void *data_;
};

// Calls body(offset in a, offset in b) for each element of views of the same extents; offsets are in elements.
template<typename Body> void for_elements(const ConstView &a, const ConstView &b, const Body &body) {
    std::int64_t at[attune::max_rank] = {}, elements = 1;
    for (int n = 0; n < a.rank; n++) elements *= a.extent[n];
    for (std::int64_t e = 0; e < elements; e++) {
        std::int64_t in_a = 0, in_b = 0;
        for (int n = 0; n < a.rank; n++) in_a += at[n] * a.stride[n], in_b += at[n] * b.stride[n];
        body(in_a, in_b);
        for (int n = a.rank - 1; n >= 0 && ++at[n] == a.extent[n]; n--) at[n] = 0;
    }
}

// Copies elements from one view to another.
void copy(const ConstView &from, const View &to) {
    const std::int64_t size = attune::size_of(from.dtype);
    for_elements(from, to, [&](std::int64_t a, std::int64_t b) {
        std::memcpy(static_cast<char *>(to.data) + b * size, static_cast<const char *>(from.data) + a * size,
                    std::size_t(size));
    });
}

View writable_view(const ConstView &v) {
    View w;
    w.data = const_cast<void *>(v.data), w.dtype = v.dtype, w.rank = v.rank;
    for (int n = 0; n < v.rank; n++) w.extent[n] = v.extent[n], w.stride[n] = v.stride[n];
    return w;
}

// A view whose entries along a dimension lie as far apart as a stride can say, in memory of its own, while this object lives.
template<typename V> class FarApart {
public:
    FarApart(V &v, int dimension, std::int64_t stride) : v_(v), near_(v) {
        std::int64_t elements = 1;
        for (int n = 0; n < v.rank; n++) elements += (v.extent[n] - 1) * (n == dimension ? stride : v.stride[n]);
        memory_ = std::make_unique<Addresses>(elements * attune::size_of(v.dtype));
        v.data = memory_->data(), v.stride[dimension] = stride;
        copy(near_, writable_view(v));
    }
    // Back to where the view was, with what a call has written.
    ~FarApart() {
        if constexpr (std::is_same_v<V, View>) copy(v_, near_);
        v_ = near_;
    }
    bool found() const { return memory_->found(); }

private:
    V &v_;
    const V near_;
    std::unique_ptr<Addresses> memory_;
};

// A stride behind all elements of a view, a multiple of a cache line.
std::int64_t beyond(const ConstView &v) {
    std::int64_t last = 0;
    for (int n = 0; n < v.rank; n++) last += (v.extent[n] - 1) * v.stride[n];
    return (last + 64) / 64 * 64;
}

struct Counts {
    int taken = 0, other_layout = 0;
};

// Runs a call with a view whose entries along a dimension lie behind one another, and far apart, and compares the results.
template<typename V> void run_far_apart(attune::Context &context, SmallCall &call, V &v, int dimension, Counts &counts) {
    INFO(call.name << ", dimension " << dimension << " of a view of rank " << v.rank);
    attune::Status status, nearer;
    {
        const FarApart apart(v, dimension, beyond(v));
        nearer = call.run(context);
    }
    const auto expected = call.written();
    {
        const FarApart apart(v, dimension, most_stride);
        REQUIRE(apart.found());
        status = call.run(context);
    }
    INFO(status.message());
    if (!nearer.ok()) {  // the layout is refused, whatever the distance
        CHECK(status.code() == nearer.code());
        counts.other_layout++;
        return;
    }
    CHECK(status.ok());
    const bool same = call.written() == expected;
    CHECK(same);
    counts.taken++;
}

}  // namespace

TEST_CASE("large tensors: any view of any function with strides of 2^31 - 1 elements", "[views][large]") {
    if (is_emulated()) {
        WARN("SKIPPED: tensors with strides of 2^31 - 1 elements (QEMU keeps a record of every page of their 4 TiB of "
             "addresses)");
        return;
    }
    if (!Addresses(std::int64_t(1) << 42).found()) {
        WARN("SKIPPED: there are no 4 TiB of addresses");
        return;
    }
    const SmallSizes sizes{.batch = 3};
    attune::Context context({.threads = 2});
    Counts counts;
    for (std::size_t n = 0; n < small::calls(sizes).size(); n++) {
        const auto call = std::move(small::calls(sizes)[n]);
        const auto run = [&](auto &v) {
            for (int dimension = 0; dimension < v.rank; dimension++)
                if (v.extent[dimension] > 1) run_far_apart(context, *call, v, dimension, counts);
        };
        for (ConstView *v : call->inputs) run(*v);
        for (View *v : call->outputs) run(*v);
    }
    INFO(counts.taken << " taken, " << counts.other_layout << " of a layout that is refused near by, too");
    CHECK(counts.taken > 300);
}

// Kernels of AMX, which index with 32 bits, take such products in parts.
TEST_CASE("large tensors: linear layers of bf16 with strides of 2^31 - 1 elements", "[linear][large]") {
    if (is_emulated() || !Addresses(std::int64_t(1) << 42).found()) {
        WARN("SKIPPED: layers of bf16 with strides of 2^31 - 1 elements, which take 4 TiB of addresses");
        return;
    }
    attune::Context context({.threads = 2});
    for (const bool packed : {false, true})
        for (const std::int64_t depth : {64, 67}) {
            LinearArrays<BFloat16> a({.leading = {3, 5}, .columns = 200, .depth = depth, .bias = true, .packed = packed});
            ConstView x = a.x.view(), weight = a.weight_view(context);
            View out = a.out.view();
            const auto run = [&] { return attune::linear(context, x, weight, a.bias_view(), out); };
            REQUIRE(run().ok());
            const std::vector<BFloat16> expected = a.out.values();
            const auto check_far = [&](auto &view, int dimension) {
                INFO(describe(a.c) << ", dimension " << dimension << " of a view of rank " << view.rank);
                {
                    const FarApart apart(view, dimension, most_stride);
                    REQUIRE(apart.found());
                    const attune::Status status = run();
                    INFO(status.message());
                    REQUIRE(status.ok());
                }
                CHECK(same_bits(a.out.values(), expected));
            };
            for (const int dimension : {0, 1}) check_far(x, dimension), check_far(out, dimension);
            check_far(weight, 0);
        }
}

TEST_CASE("large tensors: pages of a pool of 3 * 10^9 elements", "[paged][large]") {
    // Rows are appended to pages at both ends of a pool and read from there; a pool of the pages that are used says the same.
    constexpr std::int64_t page = 16, heads = 2, dim = 64, pages = 3000000000 / (page * heads * dim) + 1, rows = 40,
                           queries = 3;
    constexpr std::int64_t of_page = page * heads * dim, small_pages = 3;
    const Addresses far_keys(pages * of_page * 2), far_values(pages * of_page * 2);
    if (!far_keys.found() || !far_values.found()) {
        WARN("SKIPPED: there are no 12 GB of addresses");
        return;
    }
    std::mt19937 random(3);
    std::normal_distribution<float> normal;
    const auto numbers = [&](std::int64_t n) {
        std::vector<attune::bfloat16> m(static_cast<std::size_t>(n));
        for (attune::bfloat16 &x : m) {
            const float f = normal(random);
            std::uint32_t bits;
            std::memcpy(&bits, &f, sizeof bits);
            x.bits = std::uint16_t(bits >> 16);
        }
        return m;
    };
    const auto key = numbers(rows * heads * dim), value = numbers(rows * heads * dim), query = numbers(queries * heads * dim);
    std::vector<attune::bfloat16> near_keys(small_pages * of_page), near_values(near_keys);
    attune::Context context({.threads = 2});
    const auto answer = [&](attune::bfloat16 *keys, attune::bfloat16 *values, std::int64_t count,
                            const std::vector<std::int32_t> &table, const attune::RowSteps &steps) {
        std::vector<std::int64_t> slots(rows);
        for (std::int64_t t = 0; t < rows; t++) slots[std::size_t(t)] = table[std::size_t(t / page)] * page + t % page;
        const View key_rows(keys, {count, page, heads, dim}), value_rows(values, {count, page, heads, dim});
        attune::AppendOptions append;
        append.key_steps = steps;
        const auto stored = attune::paged_append(context, ConstView(key.data(), {rows, heads, dim}),
                                                 ConstView(value.data(), {rows, heads, dim}), ConstView(slots.data(), {rows}),
                                                 {key_rows}, {value_rows}, append);
        INFO(stored.message());
        REQUIRE(stored.ok());
        std::vector<attune::bfloat16> out(query.size());
        const std::int32_t ends[] = {0, std::int32_t(queries)}, lens[] = {std::int32_t(rows)};
        const auto status = attune::paged_attention(
            context, ConstView(query.data(), {queries, heads, dim}), {key_rows}, {value_rows}, ConstView(ends, {2}),
            ConstView(table.data(), {1, small_pages}), ConstView(lens, {1}), View(out.data(), {queries, heads, dim}), {});
        INFO(status.message());
        REQUIRE(status.ok());
        std::vector<std::uint16_t> bits;
        for (const attune::bfloat16 &x : out) bits.push_back(x.bits);
        return bits;
    };
    const std::vector<float> weight(dim, 1.5f);
    attune::RowSteps normed;
    normed.norm_weight = ConstView(weight.data(), {dim});
    for (const attune::RowSteps &steps : {attune::RowSteps{}, normed}) {
        const auto near_by = answer(near_keys.data(), near_values.data(), small_pages, {2, 0, 1}, steps);
        const std::int32_t last = std::int32_t(pages) - 1;
        CHECK(answer(far_keys.data<attune::bfloat16>(), far_values.data<attune::bfloat16>(), pages, {last, 0, last - 1},
                     steps) == near_by);
    }
}

TEST_CASE("large tensors: the end of a cache of 2^31 + 1024 elements in a head", "[views][large]") {
    constexpr std::int64_t dim = 64, rows = ((std::int64_t(1) << 31) + 1024) / dim, window = 700;
    const Addresses far_keys(rows * dim * 2), far_values(rows * dim * 2);
    if (!far_keys.found() || !far_values.found()) {
        WARN("SKIPPED: there are no 8 GiB of addresses");
        return;
    }
    auto *const keys = far_keys.data<attune::bfloat16>(), *const values = far_values.data<attune::bfloat16>();
    const std::int64_t first = (rows - window - 1) * dim;
    for (std::int64_t n = 0; n < (window + 1) * dim; n++) {
        keys[first + n].bits = std::uint16_t(0x3e00 + n * 37 % 0x180);
        values[first + n].bits = std::uint16_t(0xbe00 + n * 53 % 0x180);
    }
    attune::Context context({.threads = 2});
    for (const std::int64_t queries : {1, 5, 40}) {
        const std::vector<attune::bfloat16> query(std::size_t(queries * dim), attune::bfloat16{0x3f00});
        const auto run = [&](const attune::bfloat16 *k, const attune::bfloat16 *v, std::int64_t n) {
            std::vector<attune::bfloat16> out(query.size());
            const auto status = attune::scaled_dot_product_attention(
                context, ConstView(query.data(), {1, 1, queries, dim}), ConstView(k, {1, 1, n, dim}),
                ConstView(v, {1, 1, n, dim}), View(out.data(), {1, 1, queries, dim}),
                {.causal = attune::Causal::bottom_right, .window = {window - queries, 0}});
            INFO(status.message());
            REQUIRE(status.ok());
            std::vector<float> numbers;
            for (const attune::bfloat16 &x : out) {
                const std::uint32_t bits = std::uint32_t(x.bits) << 16;
                float f;
                std::memcpy(&f, &bits, sizeof f);
                numbers.push_back(f);
            }
            return numbers;
        };
        const auto far = run(keys, values, rows), near_by = run(keys + first, values + first, window + 1);
        for (std::size_t n = 0; n < far.size(); n++) CHECK(std::abs(far[n] - near_by[n]) <= std::abs(near_by[n]) / 128);
    }
}

TEST_CASE("large tensors: 16 heads of 20000 queries and 20000 keys, with options and gradients", "[views][large]") {
    constexpr std::int64_t heads = 16, rows = 20000, dim = 8;
    const auto numbers = [](std::int64_t n, int step) {
        std::vector<float> m(static_cast<std::size_t>(n));
        for (std::int64_t i = 0; i < n; i++) m[std::size_t(i)] = float(i * step % 1021) / 1021 - 0.5f;
        return m;
    };
    const auto query = numbers(heads * rows * dim, 7), key = numbers(heads * rows * dim, 11),
               value = numbers(heads * rows * dim, 13);
    const auto grad = numbers(heads * rows * dim, 17), slopes = numbers(heads, 19), sinks = numbers(heads, 23);
    attune::Context context({.threads = 2});
    struct Results {
        std::vector<float> out, lse, query, key, value, sinks;
        bool operator==(const Results &) const = default;
    };
    // Heads [begin, end) of a call of their own.
    const auto run = [&](std::int64_t begin, std::int64_t end) {
        const std::int64_t n = end - begin, at = begin * rows * dim, of_rows = n * rows;
        const auto all = [&](const std::vector<float> &m) { return ConstView(m.data() + at, {1, n, rows, dim}); };
        Results r;
        for (std::vector<float> *m : {&r.out, &r.query, &r.key, &r.value}) m->resize(std::size_t(of_rows * dim));
        r.lse.resize(std::size_t(of_rows)), r.sinks.resize(std::size_t(n));
        const auto into = [&](std::vector<float> &m) { return View(m.data(), {1, n, rows, dim}); };
        attune::SdpaOptions options{.causal = attune::Causal::bottom_right, .window = {20, 0}};
        options.softcap = 5;
        options.alibi_slopes = ConstView(slopes.data() + begin, {1, n}), options.sinks = ConstView(sinks.data() + begin, {n});
        options.lse = View(r.lse.data(), {1, n, rows});
        auto status = attune::scaled_dot_product_attention(context, all(query), all(key), all(value), into(r.out), options);
        INFO(status.message());
        REQUIRE(status.ok());
        options.lse = {};
        attune::SdpaGradients gradients{into(r.query), into(r.key), into(r.value)};
        gradients.sinks = View(r.sinks.data(), {n});
        status = attune::scaled_dot_product_attention_backward(context, all(query), all(key), all(value),
                                                               {into(r.out), View(r.lse.data(), {1, n, rows}), all(grad)},
                                                               gradients, options);
        INFO(status.message());
        REQUIRE(status.ok());
        return r;
    };
    const Results whole = run(0, heads), first = run(0, 8), last = run(8, heads);
    Results joined = first;
    for (auto member : {&Results::out, &Results::lse, &Results::query, &Results::key, &Results::value, &Results::sinks})
        (joined.*member).insert((joined.*member).end(), (last.*member).begin(), (last.*member).end());
    CHECK(whole == joined);
}
