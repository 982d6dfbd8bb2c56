// SPDX-License-Identifier: MIT
// Expressions of a space's file over named values: "tile_q / lanes * key_tile + 1 <= registers". Comparisons and logic as in C,
// %, min, max; all in floating point, so that 3 / 2 is 1.5.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace attune::tune {

using Values = std::map<std::string, double>;  // read at each evaluation: must outlive the expressions

class Expression {
public:
    Expression(const std::string &text, Values &);  // throws std::runtime_error with the fault
    ~Expression();
    Expression(Expression &&) noexcept;

    double value() const;
    std::vector<std::string> names() const;  // names that the expression reads

private:
    struct Parser;
    std::unique_ptr<Parser> parser_;
};

// Text with expressions in braces, which are replaced by their values: "kv_block {kv_block}: no multiple of {2 * lanes}".
class Words {
public:
    Words(const std::string &text, Values &);
    std::string text() const;

private:
    std::vector<std::string> around_;  // one more than there are expressions
    std::vector<Expression> expressions_;
};

}  // namespace attune::tune
