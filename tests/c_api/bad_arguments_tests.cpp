// SPDX-License-Identifier: MIT
// Wrong sizes, numbers and tensors from C, and tensors of DLPack.
#include "tests/c_api/mirror.h"
#include "tests/support/catch.h"
#include <cstddef>
#include <cstring>

namespace attune_test {
namespace {

const std::int64_t extents[] = {4, 8};
float numbers[32], result[32];
const attune_tensor in = attune_dense(numbers, ATTUNE_F32, 2, extents), out = attune_dense(result, ATTUNE_F32, 2, extents);

std::string refused(const CContext &c, const attune_sdpa_options *options) {
    CHECK(attune_scaled_dot_product_attention(c, &in, &in, &in, &out, options) == ATTUNE_INVALID_ARGUMENT);
    return c.message();
}

TEST_CASE("the size of a struct from C is checked", "[c_api]") {
    const CContext c;
    const std::string known = std::to_string(sizeof(attune_sdpa_options));
    attune_sdpa_options options = ATTUNE_SDPA_OPTIONS_INIT;
    for (const std::size_t size : {std::size_t(0), std::size_t(1), sizeof(void *), sizeof(void *) + 3}) {
        options.size = size;
        CHECK(refused(c, &options) ==
              "options.size: must be the sizeof of the struct, " + known + " in this version, got " + std::to_string(size));
    }
    options.size = offsetof(attune_sdpa_options, scale) + 1;
    CHECK_THAT(refused(c, &options), contains_text("options.size: ends within a member, got "));
    options.size = std::size_t(1) << 40;
    CHECK_THAT(refused(c, &options), contains_text("options.size: must be at most 4096, got 1099511627776"));

    struct Newer {
        attune_sdpa_options known = ATTUNE_SDPA_OPTIONS_INIT;
        unsigned char more[24] = {};
    } newer;
    newer.known.size = sizeof newer;
    CHECK(attune_scaled_dot_product_attention(c, &in, &in, &in, &out, &newer.known) == ATTUNE_OK);
    newer.more[23] = 1;
    CHECK_THAT(refused(c, &newer.known), contains_text("options: has members set that this version, " + known));

    // In a struct of a struct.
    attune_additive_options additive = ATTUNE_ADDITIVE_OPTIONS_INIT;
    options = ATTUNE_SDPA_OPTIONS_INIT;
    options.size = 0, additive.attention = &options;
    CHECK(attune_additive_attention(c, &in, &in, &in, &out, &additive) == ATTUNE_INVALID_ARGUMENT);
    CHECK_THAT(c.message(), contains_text("options.attention.size: must be the sizeof"));
    attune_plan plan = ATTUNE_PLAN_INIT;
    plan.size = 3;
    CHECK(attune_plan_sdpa(c, nullptr, &plan) == ATTUNE_INVALID_ARGUMENT);
    CHECK_THAT(c.message(), contains_text("plan.size: must be the sizeof"));
}

TEST_CASE("a program that was compiled with an older header gets the defaults of newer members", "[c_api]") {
    const CContext c;
    attune_sdpa_options options = ATTUNE_SDPA_OPTIONS_INIT;
    // Members that the older header does not know: what stands there is not read, be it nonsense.
    const std::size_t older = offsetof(attune_sdpa_options, weights_mode);
    std::memset(reinterpret_cast<char *>(&options) + older, 0x7f, sizeof options - older);
    options.size = older;
    options.causal = ATTUNE_CAUSAL_TOP_LEFT;
    for (int n = 0; n < 32; n++) numbers[n] = 0.1f * float(n % 7);
    REQUIRE(attune_scaled_dot_product_attention(c, &in, &in, &in, &out, &options) == ATTUNE_OK);
    float expected[32];
    attune::Context context;
    REQUIRE(attune::scaled_dot_product_attention(context, {numbers, {4, 8}}, {numbers, {4, 8}}, {numbers, {4, 8}},
                                                 {expected, {4, 8}}, {.causal = attune::Causal::top_left})
                .ok());
    CHECK(std::memcmp(expected, result, sizeof result) == 0);

    // Results: what the older struct lacks is not written.
    attune_plan plan = ATTUNE_PLAN_INIT;
    plan.size = offsetof(attune_plan, variant_of_last_queries);
    const char *const own = "own";
    plan.variant_of_last_queries = own;
    REQUIRE(attune_plan_sdpa(c, nullptr, &plan) == ATTUNE_OK);
    CHECK((plan.variant != nullptr && plan.variant_of_last_queries == own));
    CHECK(plan.size == offsetof(attune_plan, variant_of_last_queries));
}

TEST_CASE("numbers that no enumeration has and tensors that are none are refused from C", "[c_api]") {
    const CContext c;
    const auto with = [&](auto set) {
        attune_sdpa_options options = ATTUNE_SDPA_OPTIONS_INIT;
        set(options);
        return refused(c, &options);
    };
    CHECK(with([](auto &o) { o.causal = 7; }) == "options.causal: must be one of 0 (none), 1 (top_left), 2 (bottom_right), 3 "
                                                 "(offset), got 7");
    CHECK_THAT(with([](auto &o) { o.score = -1; }), contains_text("options.score: must be one of 0 (dot_product)"));
    CHECK(with([](auto &o) { o.alibi = 2; }) == "options.alibi: must be 0 or 1, got 2");
    CHECK(with([](auto &o) { o.variant = "no such"; }) != "");
    attune_dropout dropout = ATTUNE_DROPOUT_INIT;
    dropout.reserved = 5;
    CHECK(with([&](auto &o) { o.dropout = &dropout; }) == "options.dropout.reserved: must be 0, got 5");

    const auto tensor = [&](auto set) {
        attune_tensor other = in;
        set(other);
        CHECK(attune_scaled_dot_product_attention(c, &in, &other, &in, &out, nullptr) == ATTUNE_INVALID_ARGUMENT);
        return c.message();
    };
    CHECK(tensor([](auto &t) { t.rank = 5; }) == "key: rank must be from 0 to 4, got 5");
    CHECK(tensor([](auto &t) { t.rank = -1; }) == "key: rank must be from 0 to 4, got -1");
    CHECK_THAT(tensor([](auto &t) { t.dtype = 256; }), contains_text("key.dtype: must be one of 0 (f32)"));
    CHECK_THAT(tensor([](auto &t) { t.place = 2; }), contains_text("key.place: must be one of 0 (host), 1 (device), got 2"));
    CHECK(tensor([](auto &t) { t.reserved = 1; }) == "key.reserved: must be 0, got 1");
    CHECK_THAT(tensor([](auto &t) { t.capacity = 31; }), contains_text("need 32 elements, the memory has 31"));
    CHECK_THAT(tensor([](auto &t) { t.data = nullptr; }), contains_text("key"));
    CHECK(attune_scaled_dot_product_attention(c, &in, nullptr, &in, &out, nullptr) == ATTUNE_INVALID_ARGUMENT);
    CHECK_THAT(c.message(), contains_text("key"));
}

// A DLTensor of f32 (2, 3) on the CPU.
struct Dl {
    std::int64_t shape[2] = {2, 3}, strides[2] = {1, 2};
    attune_dl_tensor tensor = {numbers, {1, 0}, 2, {2, 32, 1}, shape, nullptr, 0};
};

TEST_CASE("a tensor of DLPack becomes one of C", "[c_api]") {
    const CContext c;
    Dl dl;
    attune_tensor to;
    REQUIRE(attune_from_dlpack(c, &dl.tensor, &to) == ATTUNE_OK);
    CHECK((to.data == numbers && to.dtype == ATTUNE_F32 && to.place == ATTUNE_HOST && to.rank == 2 && to.capacity == 0));
    CHECK((to.extents[0] == 2 && to.extents[1] == 3 && to.strides[0] == 3 && to.strides[1] == 1));
    dl.tensor.strides = dl.strides, dl.tensor.byte_offset = 8, dl.tensor.device = {2, 1};
    REQUIRE(attune_from_dlpack(c, &dl.tensor, &to) == ATTUNE_OK);
    CHECK((to.data == numbers + 2 && to.place == ATTUNE_DEVICE && to.strides[0] == 1 && to.strides[1] == 2));
    struct Row {
        std::uint8_t code, bits;
        attune_dtype dtype;
    };
    for (const Row row : {Row{2, 16, ATTUNE_F16},
                          {4, 16, ATTUNE_BF16},
                          {2, 64, ATTUNE_F64},
                          {0, 8, ATTUNE_I8},
                          {0, 32, ATTUNE_I32},
                          {0, 64, ATTUNE_I64},
                          {1, 8, ATTUNE_U8},
                          {6, 8, ATTUNE_BOOL}}) {
        dl.tensor.dtype = {row.code, row.bits, 1};
        REQUIRE(attune_from_dlpack(c, &dl.tensor, &to) == ATTUNE_OK);
        CHECK(to.dtype == row.dtype);
    }
}

TEST_CASE("a tensor of DLPack that is none of ours is refused", "[c_api]") {
    const CContext c;
    const auto refused = [&](auto set) {
        Dl dl;
        set(dl.tensor);
        attune_tensor to, before;
        std::memset(&to, 0x11, sizeof to), std::memcpy(&before, &to, sizeof to);
        CHECK(attune_from_dlpack(c, &dl.tensor, &to) == ATTUNE_INVALID_ARGUMENT);
        CHECK(std::memcmp(&to, &before, sizeof to) == 0);
        return c.message();
    };
    CHECK(refused([](auto &t) { t.device.device_type = 10; }) ==
          "device: must be the CPU (1, 3) or CUDA (2, 13), got type 10 of "
          "DLPack");
    CHECK(refused([](auto &t) { t.dtype.lanes = 4; }) == "dtype.lanes: must be 1, got 4");
    CHECK(refused([](auto &t) { t.dtype.lanes = 0; }) == "dtype.lanes: must be 1, got 0");
    CHECK(refused([](auto &t) { t.dtype = {5, 64, 1}; }) == "dtype: no element type has code 5 and 64 bits of DLPack");
    CHECK(refused([](auto &t) { t.dtype = {2, 8, 1}; }) == "dtype: no element type has code 2 and 8 bits of DLPack");
    CHECK(refused([](auto &t) { t.byte_offset = 6; }) ==
          "byte_offset: must be a multiple of 4, the bytes of an element, got 6");
    CHECK(refused([](auto &t) { t.byte_offset = ~std::uint64_t{3}; }) ==
          "byte_offset: must end within the address space, got 18446744073709551612");
    CHECK(refused([](auto &t) { t.ndim = 0; }) == "ndim: must be from 1 to 4, got 0");
    CHECK(refused([](auto &t) { t.ndim = 5; }) == "ndim: must be from 1 to 4, got 5");
    CHECK(refused([](auto &t) { t.shape = nullptr; }) == "shape: must be given");
    CHECK(attune_from_dlpack(c, nullptr, nullptr) == ATTUNE_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace attune_test
