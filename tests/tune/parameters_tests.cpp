// SPDX-License-Identifier: MIT
// Text form of parameters.
#include "tests/support/catch.h"
#include "tools/error.h"
#include "tools/tune/parameters.h"

namespace attune::tune {
namespace {

TEST_CASE("parameters are read as variants() gives them", "[tune]") {
    CHECK(parse_parameters("kv_block=64 tile_q=16") == Parameters{{"kv_block", 64}, {"tile_q", 16}});
    CHECK(parse_parameters("") == Parameters{});
    CHECK(text_of(parse_parameters("tile_q=16  kv_block=64")) == "kv_block=64 tile_q=16");
}

TEST_CASE("what is no list of parameters is refused", "[tune]") {
    for (const char *text : {"kv_block", "kv_block=", "=3", "kv_block=6x", "kv_block=64,tile_q=16", "kv_block=1 kv_block=2",
                             "kv_block=99999999999"}) {
        CAPTURE(text);
        CHECK_THROWS_AS(parse_parameters(text), program::InputError);
    }
}

}  // namespace
}  // namespace attune::tune
