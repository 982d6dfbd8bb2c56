// SPDX-License-Identifier: MIT
// Expressions of a space's file, over names that have values: "tile_q / lanes * key_tile + 1 <= registers". Comparisons and
// logic as in C, %, min, max; all in floating point, so that 3 / 2 is 1.5.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace attune::tune {

using Values = std::map<std::string, double>;  // read wherever an expression is evaluated: it outlives them

class Expression {
public:
    Expression(const std::string &text, Values &);  // throws std::runtime_error: what is wrong with it
    ~Expression();
    Expression(Expression &&) noexcept;

    double value() const;
    std::vector<std::string> names() const;  // that it reads

private:
    struct Parser;
    std::unique_ptr<Parser> parser_;
};

// Words with expressions in braces, which are replaced by their values: "kv_block {kv_block}: no multiple of {2 * lanes}".
class Words {
public:
    Words(const std::string &text, Values &);
    std::string text() const;

private:
    std::vector<std::string> around_;  // one more than there are expressions
    std::vector<Expression> expressions_;
};

}  // namespace attune::tune
