// A score and a mask with captured buffers, by every schedule, against the formula in double precision.
#include "halide_call.h"
#include "tests/support/catch.h"
#include <cmath>
#include <random>
#include <string>
#include <vector>

extern "C" {
int alibi_attention_root_argv(void **);
int alibi_attention_prefill_argv(void **);
int alibi_attention_decode_argv(void **);
}

namespace {

constexpr int heads = 4, key_heads = 2, queries = 21, keys = 101, d = 32;

struct Inputs {
    std::vector<float> query, key, value, slopes{0.5f, 0.25f, 0.125f, 0.0625f};
    std::vector<std::uint8_t> allowed = std::vector<std::uint8_t>(queries * keys);  // (i, j)
    std::int32_t offset = keys - queries;

    Inputs() : query(heads * queries * d), key(key_heads * keys * d), value(key_heads * keys * d) {
        std::mt19937 random(7);
        std::normal_distribution<float> normal;
        for (auto *x : {&query, &key, &value})
            for (float &f : *x) f = normal(random);
        for (auto &a : allowed) a = random() % 4 != 0;
        for (int j = 0; j < keys; j++) allowed[5 * keys + j] = 0;  // query 5 sees nothing
    }
    bool sees(int i, int j) const { return allowed[i * keys + j] && j <= i + offset; }
};

double expected(const Inputs &x, int h, int i, int c, double &lse) {
    std::vector<double> s(keys);
    double sum = 0, out = 0;
    for (int j = 0; j < keys; j++) {
        if (!x.sees(i, j)) continue;
        for (int e = 0; e < d; e++) s[j] += double(x.query[(h * queries + i) * d + e]) * x.key[(h / 2 * keys + j) * d + e];
        s[j] = std::exp(s[j] / std::sqrt(double(d)) - double(x.slopes[h]) * std::abs(i + x.offset - j));
        sum += s[j];
        out += s[j] * x.value[(h / 2 * keys + j) * d + c];
    }
    lse = std::log(sum);
    return sum == 0 ? 0 : out / sum;
}

}  // namespace

TEST_CASE("a score and a mask with captures agree with their formula by every schedule", "[score_function]") {
    const Inputs x;
    struct Kernel {
        const char *name;
        int (*call)(void **);
    };
    for (const Kernel &kernel : {Kernel{"root", alibi_attention_root_argv}, Kernel{"prefill", alibi_attention_prefill_argv},
                                 Kernel{"decode", alibi_attention_decode_argv}}) {
        INFO(kernel.name);
        std::vector<float> out(heads * queries * d, NAN), lse(heads * queries, NAN);
        const std::int32_t begin = -queries, end = x.offset + 1, length = keys;
        using attune::ConstView;
        attune::HalideBuffer query(ConstView(x.query.data(), {1, heads, queries, d})),
            key(ConstView(x.key.data(), {1, key_heads, keys, d})), value(ConstView(x.value.data(), {1, key_heads, keys, d})),
            band_begin(ConstView(&begin, {1}, {0})), band_end(ConstView(&end, {1}, {0})),
            offset(ConstView(&x.offset, {1}, {0})), lengths(ConstView(&length, {1, queries}, {0, 0})),
            shortest(ConstView(&length, {1, queries}, {0, 0})), longest(ConstView(&length, {1, queries}, {0, 0})),
            slopes(ConstView(x.slopes.data(), {heads})), out_buffer(ConstView(out.data(), {1, heads, queries, d})),
            lse_buffer(ConstView(lse.data(), {1, heads, queries}), d);
        halide_dimension_t allowed_dims[] = {{0, keys, 1, 0}, {0, queries, keys, 0}};
        halide_buffer_t allowed{};
        allowed.host = const_cast<std::uint8_t *>(x.allowed.data());
        allowed.type = {halide_type_uint, 8, 1};
        allowed.dimensions = 2;
        allowed.dim = allowed_dims;
        double scale = 1 / std::sqrt(double(d));
        void *args[] = {nullptr,        query.get(),  key.get(),     value.get(),      band_begin.get(),
                        band_end.get(), offset.get(), lengths.get(), shortest.get(),   longest.get(),
                        &scale,         slopes.get(), &allowed,      out_buffer.get(), lse_buffer.get()};
        attune::Context context;
        const attune::Status status = attune::call_kernel(context.state(), kernel.call, args, 2);
        INFO(status.message());
        REQUIRE(status.ok());
        for (int h = 0; h < heads; h++)
            for (int i = 0; i < queries; i++)
                for (int c = 0; c < d; c++) {
                    double l = 0;
                    const double o = expected(x, h, i, c, l);
                    CAPTURE(h, i, c);
                    REQUIRE(std::abs(out[(h * queries + i) * d + c] - o) < 2e-6);
                    const float ours = lse[h * queries + i];
                    REQUIRE((std::isinf(l) ? ours == l : std::abs(ours - l) < 4e-6));
                }
    }
}
