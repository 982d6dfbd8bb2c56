// SPDX-License-Identifier: MIT
// Cells: the variants that a command tunes, and the shapes that each is tuned for.
#include "tests/support/catch.h"
#include "tools/error.h"
#include "tools/tune/cells.h"
#include <algorithm>

namespace attune::tune {
namespace {
using attune_test::contains_text;

Subject linear_of(std::int64_t rows) {
    Subject subject;
    subject.op = subject.like = "linear", subject.file = "a list";
    bench::Shape shape;
    shape.op = "linear", shape.q = rows, shape.d = 96, shape.dv = 80;
    subject.shapes.push_back({shape, 1});
    return subject;
}

}  // namespace

TEST_CASE("cells: a variant that dispatch chooses for no shape is tuned for those that it can run", "[tune]") {
    Context context;
    Subject subject = linear_of(33);
    const std::vector<Cell> dispatched = cells_of(subject, "*", context);
    REQUIRE(dispatched.size() == 1);
    std::string other;
    for (const VariantInfo &v : variants())
        if (v.op == "linear" && v.dtype == DType::f32 && v.name != dispatched[0].variant && !v.parameters.empty())
            other = v.name;
    REQUIRE(!other.empty());
    INFO(other);
    const std::vector<Cell> forced = cells_of(subject, other, context);
    REQUIRE(forced.size() == 1);
    CHECK(forced[0].variant == other);
    CHECK(forced[0].shapes.size() == 1);
    CHECK(subject.left_out.empty());
}

TEST_CASE("cells: a variant that no shape can run is refused in words", "[tune]") {
    Context context;
    Subject subject = linear_of(4);
    CHECK_THROWS_WITH(cells_of(subject, "sdpa_*", context), contains_text("no shape of a list is run by a variant of linear"));
}

}  // namespace attune::tune
