// SPDX-License-Identifier: MIT
#include "tests/fuzz/family.h"
#include "tests/support/fenced_scratch.h"
#include <algorithm>
#include <cstring>
#include <utility>

namespace attune_fuzz {

const Family *family_of(std::string_view name) {
    for (const Family &family : families())
        if (name == family.name) return &family;
    return nullptr;
}

void run_case(const Family &family, Draw &draw) {
    pool = {}, broke_error_rule = false, Draw::seed_shift = 0;
    try {
        return family.run(draw);
    } catch (const Failure &) {
        if (!broke_error_rule) throw;
    }
    char *const journal = std::exchange(Draw::journal, nullptr);
    pool.active = true;
    for (Draw::seed_shift = 0; Draw::seed_shift < most_draws; Draw::seed_shift++) {
        pool.next = 0;
        Draw again(draw.made());
        family.run(again);
    }
    Draw::journal = journal;
    for (std::size_t n = 0; n < pool.errors.size(); n++)
        if (const std::string defect = pool.errors[n].defect(); !defect.empty())
            throw Failure("result " + std::to_string(n) + ": " + defect + "; of " + text_of(draw.made()));
}

attune::ContextOptions draw_context(Draw &draw, const std::string &prefix) {
    const int threads = int(draw.number(prefix + "threads", 1, 8));
    switch (draw.one_of(prefix + "scratch", {"kept", "fenced", "given_back"}, 5)) {
    case 1: return attune_test::in_fenced_scratch(threads);
    case 2: return {.threads = threads, .scratch_bytes_per_thread = 0};
    default: return {.threads = threads};
    }
}

DrawnVariant draw_variant(Draw &draw, std::string_view op, attune::DType dtype, std::initializer_list<std::string_view> kinds,
                          const std::string &name) {
    static const std::vector<attune::VariantInfo> all = attune::variants();
    std::vector<std::string> names = {"dispatch"};
    for (const attune::VariantInfo &v : all)
        if (v.op == op && v.dtype == dtype && v.runs_here && v.dispatched &&
            std::find(kinds.begin(), kinds.end(), v.kind) != kinds.end())
            names.emplace_back(v.name);
    const std::size_t n = draw.one_of(name, names, 2);
    for (const attune::VariantInfo &v : all)
        if (n > 0 && v.name == names[n]) return {names[n], std::string(v.kind), v.head_dim};
    return {};
}

attune_test::Layout draw_layout(Draw &draw, const std::string &name, bool is_output) {
    std::vector<std::string> labels;
    using attune_test::Layout;
    for (const Layout layout :
         {Layout::dense, Layout::bshd, Layout::padded, Layout::fused, Layout::shifted, Layout::reversed, Layout::broadcast})
        if (!is_output || layout != Layout::broadcast) labels.emplace_back(attune_test::name_of(layout));
    return static_cast<Layout>(draw.one_of(name, labels, 2));
}

bool ran(const attune::Status &status, const attune::Context &context, bool may_refuse,
         const std::function<bool()> &untouched) {
    if (status.ok()) return true;
    check(may_refuse, "refused: " + status.message());
    check(status.code() == attune::StatusCode::invalid_argument || status.code() == attune::StatusCode::unsupported,
          "refused with another code: " + status.message());
    check(!status.message().empty(), "refused without a message");
    check(untouched(), "written by a refused call: " + status.message() + ", last ran " + context.last_variant());
    return false;
}

void Inputs::check_unchanged() const {
    for (std::size_t n = 0; n < all_.size(); n++) {
        const auto &[now, before] = all_[n];
        check(now.size() == before.size() && (before.empty() || std::memcmp(now.data(), before.data(), before.size()) == 0),
              "input " + std::to_string(n) + " was written");
    }
}

}  // namespace attune_fuzz
