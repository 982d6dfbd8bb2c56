// SPDX-License-Identifier: MIT
#include "expression.h"
#include <cmath>
#include <cstdio>
#include <limits>
#include <muParser.h>
#include <stdexcept>

namespace attune::tune {

struct Expression::Parser {
    mu::Parser parser;
    std::vector<std::string> names;
};

namespace {
double remainder_of(double a, double b) { return b == 0 ? std::numeric_limits<double>::quiet_NaN() : std::fmod(a, b); }

[[noreturn]] void fail(const std::string &text, const mu::ParserError &error) {
    throw std::runtime_error("\"" + text + "\": " + error.GetMsg());
}
}  // namespace

Expression::Expression(const std::string &text, Values &values) : parser_(std::make_unique<Parser>()) {
    mu::Parser &parser = parser_->parser;
    try {
        for (auto &[name, value] : values) parser.DefineVar(name, &value);
        parser.DefineOprt("%", remainder_of, mu::prMUL_DIV);
        parser.SetExpr(text);
        for (const auto &[name, value] : parser.GetUsedVar()) {
            if (!values.contains(name)) throw std::runtime_error("\"" + text + "\": " + name + " has no value here");
            parser_->names.push_back(name);
        }
        parser.Eval();  // parses the text, once
    } catch (const mu::ParserError &error) {
        fail(text, error);
    }
}

Expression::~Expression() = default;
Expression::Expression(Expression &&) noexcept = default;

double Expression::value() const { return parser_->parser.Eval(); }

std::vector<std::string> Expression::names() const { return parser_->names; }

Words::Words(const std::string &text, Values &values) {
    std::size_t at = 0;
    for (std::size_t open; (open = text.find('{', at)) != std::string::npos;) {
        const std::size_t close = text.find('}', open);
        if (close == std::string::npos) throw std::runtime_error("\"" + text + "\": a brace is not closed");
        around_.push_back(text.substr(at, open - at));
        expressions_.emplace_back(text.substr(open + 1, close - open - 1), values);
        at = close + 1;
    }
    around_.push_back(text.substr(at));
}

std::string Words::text() const {
    std::string all = around_[0];
    for (std::size_t n = 0; n < expressions_.size(); n++) {
        char number[32];
        std::snprintf(number, sizeof number, "%.6g", expressions_[n].value());
        all += number + around_[n + 1];
    }
    return all;
}

}  // namespace attune::tune
