// SPDX-License-Identifier: MIT
#include "cache.h"

namespace language_model {
namespace {

using attune::DType;

constexpr std::int64_t channels_of_group = 32;  // of int4: channels with one scale and minimum

DType type_of_rows(CacheType type) {
    switch (type) {
    case CacheType::f32: return DType::f32;
    case CacheType::bf16: return DType::bf16;
    case CacheType::int8: return DType::i8;
    default: return DType::u8;
    }
}

}  // namespace

std::optional<CacheType> cache_type(std::string_view name) {
    if (name == "f32") return CacheType::f32;
    if (name == "bf16") return CacheType::bf16;
    if (name == "int8") return CacheType::int8;
    if (name == "int4") return CacheType::int4;
    return {};
}

PagePool::PagePool(const CacheSizes &s) : sizes_(s) {
    const std::int64_t pools = 2 * s.layers, rows = s.pages * s.page * s.key_heads;
    const bool int4 = s.type == CacheType::int4;
    rows_.resize(type_of_rows(s.type), {pools, rows, int4 ? s.head_dim / 2 : s.head_dim});
    if (int4) groups_ = s.head_dim % channels_of_group == 0 ? s.head_dim / channels_of_group : 1;
    if (s.type == CacheType::int8) scales_.resize(DType::f16, {pools, rows});
    if (int4) {
        scales_.resize(DType::f16, {pools, rows, groups_});
        minima_.resize(DType::f16, {pools, rows, groups_});
    }
}

attune::Pages PagePool::pages_of(std::int64_t pool) const {
    const CacheSizes &s = sizes_;
    const std::int64_t rows = s.pages * s.page * s.key_heads, first = pool * rows;
    const std::int64_t width = s.type == CacheType::int4 ? s.head_dim / 2 : s.head_dim;
    attune::Pages pages(rows_.view_at(first * width, {s.pages, s.page, s.key_heads, width}, {}));
    if (s.type == CacheType::int8) pages.scale = scales_.view_at(first, {s.pages, s.page, s.key_heads}, {});
    if (s.type == CacheType::int4) {
        pages.scale = scales_.view_at(first * groups_, {s.pages, s.page, s.key_heads, groups_}, {});
        pages.minimum = minima_.view_at(first * groups_, {s.pages, s.page, s.key_heads, groups_}, {});
    }
    return pages;
}

std::int64_t PagePool::bytes_of_page() const {
    return std::int64_t(rows_.bytes() + scales_.bytes() + minima_.bytes()) / sizes_.pages;
}

PageTable::PageTable(std::int64_t pages) : pages_(std::size_t(pages)) {
    for (std::int32_t page = 0; page < pages; page++) free_.insert({0, page});
}

std::int32_t PageTable::take() {
    const std::int32_t page = free_.begin()->second;
    Page &taken = pages_[std::size_t(page)];
    free_.erase(free_.begin());
    if (taken.name) published_.erase(taken.content);
    taken.name = 0, taken.holders = 1;
    return page;
}

void PageTable::hold(std::int32_t page) {
    Page &held = pages_[std::size_t(page)];
    if (held.holders++ == 0) free_.erase({held.released, page});
}

void PageTable::release(std::int32_t page) {
    Page &held = pages_[std::size_t(page)];
    if (--held.holders > 0) return;
    held.released = held.name ? ++clock_ : 0;  // a page that nobody can find goes first
    free_.insert({held.released, page});
}

std::int32_t PageTable::find(std::int32_t before, std::span<const std::int32_t> tokens) const {
    const Name name = before < 0 ? 0 : pages_[std::size_t(before)].name;
    if (before >= 0 && name == 0) return -1;
    const auto found = published_.find({name, {tokens.begin(), tokens.end()}});
    return found == published_.end() ? -1 : found->second;
}

void PageTable::publish(std::int32_t page, std::int32_t before, std::span<const std::int32_t> tokens) {
    const Name name = before < 0 ? 0 : pages_[std::size_t(before)].name;
    if (before >= 0 && name == 0) return;  // the page before has the content of another, and so is this one
    const auto [content, added] = published_.insert({{name, {tokens.begin(), tokens.end()}}, page});
    if (!added) return;
    pages_[std::size_t(page)].name = ++last_name_;
    pages_[std::size_t(page)].content = content;
}

}  // namespace language_model
