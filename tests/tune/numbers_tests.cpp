// SPDX-License-Identifier: MIT
// Numbers as text.
#include "tests/support/catch.h"
#include "tools/error.h"
#include "tools/tune/numbers.h"

namespace attune::tune {
namespace {

TEST_CASE("numbers are read as variants() gives them", "[tune]") {
    CHECK(parse_numbers("chunk=64 tile_q=16") == Numbers{{"chunk", 64}, {"tile_q", 16}});
    CHECK(parse_numbers("") == Numbers{});
    CHECK(text_of(parse_numbers("tile_q=16  chunk=64")) == "chunk=64 tile_q=16");
}

TEST_CASE("what is no list of numbers is refused", "[tune]") {
    for (const char *text :
         {"chunk", "chunk=", "=3", "chunk=6x", "chunk=64,tile_q=16", "chunk=1 chunk=2", "chunk=99999999999"}) {
        CAPTURE(text);
        CHECK_THROWS_AS(parse_numbers(text), program::InputError);
    }
}

}  // namespace
}  // namespace attune::tune
