// SPDX-License-Identifier: MIT
// The cache of keys and values: a pool of pages (PagedAttention, Kwon et al., 2023), and who holds which of them.
#pragma once
#include "tensors.h"
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace language_model {

enum class CacheType { f32, bf16, int8, int4 };
std::optional<CacheType> cache_type(std::string_view name);

struct CacheSizes {
    CacheType type = CacheType::f32;
    std::int64_t layers = 0, key_heads = 0, head_dim = 0;
    std::int64_t pages = 0, page = 0;  // pages of the pool, and rows of a page
};

// The memory: for each layer a pool of keys and one of values. Page p is page p of all of them.
class PagePool {
public:
    explicit PagePool(const CacheSizes &);
    attune::Pages keys(std::int64_t layer) const { return pages_of(2 * layer); }
    attune::Pages values(std::int64_t layer) const { return pages_of(2 * layer + 1); }
    const CacheSizes &sizes() const { return sizes_; }
    // int4 loses less when outliers are spread over the channels of a head: queries, keys and values are rotated alike.
    bool rotated() const { return sizes_.type == CacheType::int4; }
    std::int64_t bytes_of_page() const;  // in all layers, keys and values

private:
    attune::Pages pages_of(std::int64_t pool) const;
    CacheSizes sizes_;
    std::int64_t groups_ = 0;  // of int4: scales of a row and head
    Array rows_, scales_, minima_;
};

// Who holds which page, by reference counts. A full page is published under its tokens and the pages before it: a request
// that begins with the same tokens holds the same pages. A published page that nobody holds any more stays until its memory is
// needed, the longest unused first.
class PageTable {
public:
    explicit PageTable(std::int64_t pages);

    std::int64_t free_pages() const { return std::int64_t(free_.size()); }
    std::int32_t take();              // a page for new rows, held once; there must be a free one
    void hold(std::int32_t page);     // once more
    void release(std::int32_t page);  // once less
    bool is_free(std::int32_t page) const { return pages_[std::size_t(page)].holders == 0; }

    // The page that holds these tokens behind page `before` (-1: at the beginning), or -1. It is not held by that.
    std::int32_t find(std::int32_t before, std::span<const std::int32_t> tokens) const;
    // Lets others find a full page. Where another page has the same content, that one stays the one to be found.
    void publish(std::int32_t page, std::int32_t before, std::span<const std::int32_t> tokens);

private:
    // Pages are reused, names are not: a page whose predecessor was given away is not found under the new content.
    using Name = std::uint64_t;
    using Content = std::pair<Name, std::vector<std::int32_t>>;
    struct Page {
        std::int64_t holders = 0;
        std::uint64_t released = 0;  // when it became free
        Name name = 0;               // 0: not published
        std::map<Content, std::int32_t>::iterator content;
    };
    std::vector<Page> pages_;
    std::set<std::pair<std::uint64_t, std::int32_t>> free_;  // in the order of their release
    std::map<Content, std::int32_t> published_;
    std::uint64_t clock_ = 0;
    Name last_name_ = 0;
};

}  // namespace language_model
