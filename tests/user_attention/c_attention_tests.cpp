// SPDX-License-Identifier: MIT
// A user's attention called from C, by its name and the names of its captures, has the bits of its own functions.
#include "alibi_attention.h"
#include "tests/c_api/mirror_structs.h"
#include "tests/support/catch.h"
#include "tests/support/op_calls.h"

namespace attune_test {

TEST_CASE("an attention of a user in C has the bits of its functions in C++", "[user_attention][c_api]") {
    const attune::ConstView query(input<float>(0), {2, 3, 20, 16}), key(input<float>(1), {2, 3, 20, 16}),
        value(input<float>(2), {2, 3, 20, 16}), grad_out(input<float>(3), {2, 3, 20, 16}), slopes(input<float>(4), {3});
    attune::Context context;
    const CContext c;
    Mirror m;
    Outputs of_cpp, of_c;
    const auto views = [](Outputs &outputs) {
        std::vector<attune::View> made;
        for (int n = 0; n < 4; n++) made.push_back(outputs.make<float>({2, 3, 20, 16}));            // out; gradients
        made.push_back(outputs.make<float>({2, 3, 20})), made.push_back(outputs.make<float>({3}));  // lse; of slopes
        return made;
    };
    const std::vector<attune::View> cpp = views(of_cpp), in_c = views(of_c);
    alibi_attention::Options options;
    options.slopes = slopes, options.sdpa.lse = cpp[4];
    REQUIRE(alibi_attention::forward(context, query, key, value, cpp[0], options).ok());
    const attune::SdpaForward forward{cpp[0], cpp[4], grad_out};
    options.sdpa.lse = {};
    alibi_attention::Gradients gradients{.sdpa = {.query = cpp[1], .key = cpp[2], .value = cpp[3]}, .slopes = cpp[5]};
    REQUIRE(alibi_attention::backward(context, query, key, value, forward, gradients, options).ok());

    attune_block_mask *blocks = nullptr;
    REQUIRE(attune_block_mask_create(c, &blocks) == ATTUNE_OK);
    const attune_capture captures[] = {{"slopes", m.of(slopes), nullptr}};
    attune_sdpa_options of_forward = ATTUNE_SDPA_OPTIONS_INIT;
    of_forward.lse = m.of(in_c[4]);
    CHECK(attune_user_attention(c, "alibi_attention", m.of(query), m.of(key), m.of(value), m.of(in_c[0]), captures, 1, blocks,
                                &of_forward) == ATTUNE_OK);
    CHECK(c.message() == "");
    const attune_capture_gradient wanted[] = {{"slopes", m.of(in_c[5])}};
    CHECK(attune_user_attention_backward(c, "alibi_attention", m.of(query), m.of(key), m.of(value),
                                         m.of(attune::SdpaForward{in_c[0], in_c[4], grad_out}),
                                         m.of(attune::SdpaGradients{.query = in_c[1], .key = in_c[2], .value = in_c[3]}),
                                         wanted, 1, captures, 1, blocks, nullptr) == ATTUNE_OK);
    CHECK(c.message() == "");
    CHECK(of_cpp.bytes() == of_c.bytes());

    const attune_capture other[] = {{"slope", m.of(slopes), nullptr}};
    CHECK(attune_user_attention(c, "alibi_attention", m.of(query), m.of(key), m.of(value), m.of(in_c[0]), other, 1, nullptr,
                                nullptr) == ATTUNE_INVALID_ARGUMENT);
    CHECK(c.message() == "captures: alibi_attention has no capture slope");
    CHECK(attune_user_attention(c, "alibi_attention", m.of(query), m.of(key), m.of(value), m.of(in_c[0]), nullptr, 0, nullptr,
                                nullptr) == ATTUNE_INVALID_ARGUMENT);
    CHECK(c.message() == "slopes: must be given");
    attune_block_mask_destroy(blocks);
}

TEST_CASE("an attention of a user over ranks in C has the bits of its functions in C++", "[user_attention][c_api]") {
    attune::ParallelPlan plan;
    REQUIRE(attune::plan_positions(50, 1, attune::ParallelLayout::contiguous, 16, {}, plan).ok());
    const attune::ConstView query(input<float>(0), {2, 3, 50, 16}), key(input<float>(1), {2, 3, 50, 16}),
        value(input<float>(2), {2, 3, 50, 16}), grad_out(input<float>(3), {2, 3, 50, 16}), slopes(input<float>(4), {3});
    const attune::Communicator one{.size = 1};
    attune::Context context;
    const CContext c;
    Mirror m;
    Outputs of_cpp, of_c;
    const auto views = [](Outputs &outputs) {
        std::vector<attune::View> made;
        for (int n = 0; n < 4; n++) made.push_back(outputs.make<float>({2, 3, 50, 16}));            // out; gradients
        made.push_back(outputs.make<float>({2, 3, 50})), made.push_back(outputs.make<float>({3}));  // lse; of slopes
        return made;
    };
    const std::vector<attune::View> cpp = views(of_cpp), in_c = views(of_c);
    attune_communicator alone = ATTUNE_COMMUNICATOR_INIT;
    attune_parallel_plan *positions = nullptr;
    REQUIRE(attune_parallel_plan_create(c, &positions) == ATTUNE_OK);
    REQUIRE(attune_plan_positions(c, 50, 1, ATTUNE_PARALLEL_LAYOUT_CONTIGUOUS, 16, nullptr, positions) == ATTUNE_OK);
    const attune_capture captures[] = {{"slopes", m.of(slopes), nullptr}};
    attune_sdpa_options with_lse = ATTUNE_SDPA_OPTIONS_INIT;
    with_lse.lse = m.of(in_c[4]);
    attune_parallel_options of_forward = ATTUNE_PARALLEL_OPTIONS_INIT;
    of_forward.attention = &with_lse;
    constexpr decltype(alibi_attention::ring_attention) *functions[] = {
        alibi_attention::ring_attention, alibi_attention::gathered_attention, alibi_attention::head_parallel_attention,
        alibi_attention::sharded_decode};
    for (const attune_collective function : {ATTUNE_COLLECTIVE_SHARDED_DECODE, ATTUNE_COLLECTIVE_HEAD_PARALLEL_ATTENTION,
                                             ATTUNE_COLLECTIVE_GATHERED_ATTENTION, ATTUNE_COLLECTIVE_RING_ATTENTION}) {
        CAPTURE(function);
        const attune::Status s = functions[function](context, one, plan, query, key, value, cpp[0],
                                                     {.slopes = slopes, .sdpa = {.lse = cpp[4]}}, nullptr);
        INFO(s.message());
        REQUIRE(s.ok());
        CHECK(attune_user_attention_over_ranks(c, function, &alone, positions, "alibi_attention", m.of(query), m.of(key),
                                               m.of(value), m.of(in_c[0]), captures, 1, &of_forward) == ATTUNE_OK);
        CHECK(c.message() == "");
        CHECK(of_cpp.bytes() == of_c.bytes());
    }
    const attune::SdpaForward forward{cpp[0], cpp[4], grad_out};
    const alibi_attention::Gradients gradients{.sdpa = {.query = cpp[1], .key = cpp[2], .value = cpp[3]}, .slopes = cpp[5]};
    REQUIRE(alibi_attention::ring_attention_backward(context, one, plan, query, key, value, forward, gradients,
                                                     {.slopes = slopes, .sdpa = {}}, nullptr)
                .ok());
    const attune_capture_gradient wanted[] = {{"slopes", m.of(in_c[5])}};
    CHECK(attune_user_attention_backward_over_ranks(
              c, &alone, positions, "alibi_attention", m.of(query), m.of(key), m.of(value),
              m.of(attune::SdpaForward{in_c[0], in_c[4], grad_out}),
              m.of(attune::SdpaGradients{.query = in_c[1], .key = in_c[2], .value = in_c[3]}), wanted, 1, captures, 1,
              nullptr) == ATTUNE_OK);
    CHECK(c.message() == "");
    CHECK(of_cpp.bytes() == of_c.bytes());

    CHECK(attune_user_attention_over_ranks(c, 7, &alone, positions, "alibi_attention", m.of(query), m.of(key), m.of(value),
                                           m.of(in_c[0]), captures, 1, nullptr) == ATTUNE_INVALID_ARGUMENT);
    CHECK(std::string(c.message()).find("function") == 0);
    attune_parallel_plan_destroy(positions);
}

}  // namespace attune_test
