// A shape's tensors, and a check of what a kernel wrote against a wider type, on a sample of rows.
#pragma once
#include "mapped_array.h"
#include "shapes.h"
#include <array>
#include <string>
#include <vector>

namespace bench {

class Case {
public:
    explicit Case(const Shape &);

    const Shape &shape() const { return shape_; }
    attune::Status call(attune::Context &, std::string_view variant) const;  // empty: dispatch
    const MappedArray &key() const { return key_; }
    const MappedArray &value() const { return value_; }

    // Before a call whose output is to be checked: NaN everywhere, so that rows which are not written show.
    void forget_output();
    // Empty if the output is right, else what is wrong. The rule of the tests: at most twice the error of the plain
    // computation in the same type over the same rows, and a floor for rounding.
    std::string check_output();

private:
    template<typename T, typename Wide> void reference();
    template<typename T> std::string compare() const;

    Shape shape_;
    MappedArray query_, key_, value_, out_, lengths_;
    std::vector<std::array<std::int64_t, 3>> rows_;  // batch entry, head, query
    std::vector<long double> expected_;              // dv of each row; filled by the first check
    double allowed_ = 0;
};

}  // namespace bench
