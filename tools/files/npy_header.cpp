// SPDX-License-Identifier: MIT
// Parser of the Python literal at the start of a .npy file. Accepts any bytes as input.
#include "tools/files/npy_header.h"
#include <algorithm>
#include <limits>

namespace attune::program {
namespace {

constexpr std::size_t max_rank_read = 64;  // NumPy's limit

class Parser {
public:
    Parser(std::string_view text, bool of_python_2) : text_(text), of_python_2_(of_python_2) {
        at_ = std::min(text.find_first_not_of(" \t"), text.size());
    }

    bool at_brace() const { return at_ < text_.size() && text_[at_] == '{'; }
    bool take(char c) {
        skip_space();
        if (at_ == text_.size() || text_[at_] != c) return false;
        at_++;
        return true;
    }
    bool next_is(char c) {
        skip_space();
        return at_ < text_.size() && text_[at_] == c;
    }
    bool at_end() {
        skip_space();
        return at_ == text_.size();
    }
    bool take_word(std::string_view word) {
        skip_space();
        if (text_.substr(at_, word.size()) != word) return false;
        at_ += word.size();
        return true;
    }
    bool string(std::string &out) {
        skip_space();
        if (at_ == text_.size() || (text_[at_] != '\'' && text_[at_] != '"')) return false;
        const std::size_t end = text_.find(text_[at_], at_ + 1);
        if (end == std::string_view::npos) return false;
        out = std::string(text_.substr(at_ + 1, end - at_ - 1));
        at_ = end + 1;
        return true;
    }
    // Steps over a balanced list such as [('x', '<f4'), ('y', '<f4')].
    bool skip_list() {
        skip_space();
        int depth = 0;
        std::string ignored;
        while (at_ < text_.size()) {
            const char c = text_[at_];
            if (c == '\'' || c == '"') {
                if (!string(ignored)) return false;
                continue;
            }
            at_++;
            if (c == '[' || c == '(') depth++;
            if ((c == ']' || c == ')') && --depth == 0) return true;
        }
        return false;
    }
    std::string extent(std::int64_t &out) {
        skip_space();
        if (at_ < text_.size() && text_[at_] == '-') return "its header has a negative extent";
        const std::size_t first = at_;
        constexpr std::int64_t max = std::numeric_limits<std::int64_t>::max();
        for (out = 0; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; at_++) {
            const int digit = text_[at_] - '0';
            if (out > (max - digit) / 10) return "its header has an extent beyond 2^63";
            out = out * 10 + digit;
        }
        if (at_ == first || (text_[first] == '0' && out > 0)) return "its header has no valid 'shape'";  // Python has no 012
        if (of_python_2_ && at_ < text_.size() && text_[at_] == 'L') at_++;
        return "";
    }
    std::string shape(std::vector<std::int64_t> &out) {
        bool comma = true;
        if (!take('(')) return "its header has no valid 'shape'";
        while (!take(')')) {
            std::int64_t e = 0;
            if (!comma) return "its header has no valid 'shape'";
            if (std::string wrong = extent(e); !wrong.empty()) return wrong;
            if (out.size() == max_rank_read) return "its shape has more than 64 extents";
            out.push_back(e);
            comma = take(',');
        }
        // (3) is a number, (3,) a shape.
        return out.size() == 1 && !comma
                   ? "its header has no valid 'shape': one extent is written (" + std::to_string(out[0]) + ",)"
                   : "";
    }

private:
    // Spaces as in Python: no vertical tab.
    void skip_space() { at_ = std::min(text_.find_first_not_of(" \t\n\f\r", at_), text_.size()); }
    std::string_view text_;
    bool of_python_2_;
    std::size_t at_ = 0;
};

}  // namespace

std::string parse_npy_header(std::string_view text, bool of_python_2, NpyHeader &header) {
    Parser in(text, of_python_2);
    bool has_descr = false, has_order = false, has_shape = false;
    if (!in.at_brace() || !in.take('{')) return "its header is not a dictionary";
    while (!in.take('}')) {
        std::string name;
        if (!in.string(name) || !in.take(':')) return "its header cannot be parsed";
        if (name == "descr" && !has_descr) {
            has_descr = true;
            if (in.next_is('[') ? !in.skip_list() : !in.string(header.descr)) return "its header has no valid 'descr'";
        } else if (name == "fortran_order" && !has_order) {
            has_order = true;
            header.fortran_order = in.take_word("True");
            if (!header.fortran_order && !in.take_word("False")) return "its header has no valid 'fortran_order'";
        } else if (name == "shape" && !has_shape) {
            has_shape = true;
            if (std::string wrong = in.shape(header.shape); !wrong.empty()) return wrong;
        } else {
            return "its header cannot be parsed";
        }
        if (!in.take(',') && !in.next_is('}')) return "its header cannot be parsed";
    }
    if (!in.at_end()) return "its header cannot be parsed";
    if (!has_descr || !has_order || !has_shape) return "its header lacks 'descr', 'fortran_order' or 'shape'";
    return "";
}

std::string name_of_descr(std::string_view descr) {
    if (descr.empty()) return "of a structured type";
    const std::string_view type = descr.substr(descr.find_first_of("<>|=") == 0 ? 1 : 0);
    static constexpr std::pair<std::string_view, std::string_view> names[] = {
        {"b1", "bool"},      {"i1", "int8"},      {"i2", "int16"},       {"i4", "int32"},
        {"i8", "int64"},     {"u1", "uint8"},     {"u2", "uint16"},      {"u4", "uint32"},
        {"u8", "uint64"},    {"f2", "float16"},   {"f4", "float32"},     {"f8", "float64"},
        {"f16", "float128"}, {"c8", "complex64"}, {"c16", "complex128"}, {"c32", "complex256"},
    };
    for (auto [code, name] : names)
        if (type == code) return std::string(name);
    const bool printable = std::all_of(descr.begin(), descr.end(), [](char c) { return c > ' ' && c < 0x7f; });
    return printable && descr.size() <= 16 ? "of type '" + std::string(descr) + "'" : "of an unknown type";
}

}  // namespace attune::program
