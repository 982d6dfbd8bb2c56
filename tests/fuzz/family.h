// SPDX-License-Identifier: MIT
// Families of random cases: each draws the arguments of some functions, calls them, and checks all that they wrote.
#pragma once
#include "tests/fuzz/judge.h"
// The macros of judge.h come before the headers of tests/support.
#include "attune/attune.h"
#include "tests/fuzz/draw.h"
#include "tests/support/array.h"
#include <span>
#include <string_view>

namespace attune_fuzz {

struct Family {
    const char *name;
    unsigned per_mille;   // share of its cases
    void (*run)(Draw &);  // throws a Failure
};
// A case that once failed, shrunk: a family, the values other than the simplest, and the fault.
struct CorpusCase {
    const char *family, *values, *was_wrong;
};
// Families and corpus of the program: families/list.cpp or users.cpp.
std::span<const Family> families();
std::span<const CorpusCase> corpus();
// Runs a case of a family. One whose results break the error rule is judged again over this many draws of its data.
inline constexpr unsigned most_draws = 32;
void run_case(const Family &, Draw &);
const Family *family_of(std::string_view name);

// Families, a file each or a few.
void run_dense(Draw &);
void run_gradients(Draw &);
void run_varlen(Draw &);
void run_varlen_gradients(Draw &);
void run_paged(Draw &);
void run_quantised(Draw &);
void run_append(Draw &);
void run_cache(Draw &);
void run_rows(Draw &);
void run_linear(Draw &);
void run_linear_gradients(Draw &);
void run_softmax(Draw &);
void run_additive(Draw &);
void run_additive_gradients(Draw &);
void run_multi_head(Draw &);
void run_multi_head_gradients(Draw &);
void run_merge(Draw &);
void run_dropout_mask(Draw &);

// Calls f(T{}) with a drawn element type of Types; the first is the simplest.
template<typename... Types, typename F> void with_type(Draw &draw, const F &f) {
    const std::vector<std::string> names = {attune::name_of(attune::dtype_of<Types>())...};
    std::size_t n = draw.one_of("type", names);
    (void)((n-- == 0 && (f(Types{}), true)) || ...);
}
template<typename F> void with_any_type(Draw &draw, const F &f) {
    with_type<float, double, attune_test::BFloat16, attune_test::Float16>(draw, f);
}

// Memory of the arrays that a family makes next: beside a protected page, or not.
struct DrawnFence {
    attune_test::FencedArrays fence;
    explicit DrawnFence(Draw &draw)
        : fence(static_cast<attune_test::Fence>(draw.one_of("fence", {"none", "before", "behind"}, 8))) {}
};

// Options of the Context of a call: 1 to 8 threads, scratch that is kept, given back, or beside protected pages.
attune::ContextOptions draw_context(Draw &, const std::string &prefix = "");

// A variant of an op that runs here, or dispatch's choice; its name and head size (0: any).
struct DrawnVariant {
    std::string name = {}, kind = {};
    int head_dim = 0;
    bool forced() const { return !name.empty(); }
};
DrawnVariant draw_variant(Draw &, std::string_view op, attune::DType, std::initializer_list<std::string_view> kinds,
                          const std::string &name = "variant");

attune_test::Layout draw_layout(Draw &, const std::string &name, bool is_output = false);

// The status of a call: true if it ran. A forced variant may refuse a call, and has then written nothing.
bool ran(const attune::Status &, const attune::Context &, bool may_refuse, const std::function<bool()> &untouched);

// Bytes of inputs, which a call leaves as they are.
class Inputs {
public:
    template<typename... Arrays> explicit Inputs(const Arrays &...arrays) { (add(arrays.bytes()), ...); }
    void check_unchanged() const;

private:
    std::vector<std::pair<std::span<const std::byte>, std::vector<std::byte>>> all_;
    void add(std::span<const std::byte> bytes) { all_.emplace_back(bytes, std::vector(bytes.begin(), bytes.end())); }
};

}  // namespace attune_fuzz
