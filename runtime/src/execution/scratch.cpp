// SPDX-License-Identifier: MIT
#include "execution/scratch.h"
#include <atomic>
#include <new>

namespace attune {
namespace {

constexpr std::size_t alignment = 128;   // that of Halide's own malloc; room for the header
constexpr std::size_t most_blocks = 64;  // kept per shard

void *default_allocate(void *, std::size_t bytes, std::size_t align) {
    return ::operator new(bytes, std::align_val_t(align), std::nothrow);
}
void default_release(void *, void *block, std::size_t) { ::operator delete(block, std::align_val_t(alignment)); }

}  // namespace

thread_local Scratch::Borrowed *Scratch::Borrowed::innermost = nullptr;

Scratch::Scratch(const Allocator &allocator, std::size_t bytes_per_thread, int threads)
    : allocator_(allocator), limit_(bytes_per_thread), shards_(static_cast<std::size_t>(threads)) {
    if (!allocator_.allocate) allocator_ = {default_allocate, default_release, nullptr};
    for (Shard &s : shards_) s.free.blocks.reserve(most_blocks + 1);  // so that release() never allocates
}

Scratch::~Scratch() { give_back(); }

std::size_t Scratch::own_shard() const noexcept {
    static std::atomic<std::size_t> threads_seen{0};
    thread_local const std::size_t number = threads_seen++;
    return number % shards_.size();
}

Scratch::Borrowed::Borrowed(Scratch &scratch) noexcept : scratch_(scratch), before_(innermost) {
    if (before_ && &before_->scratch_ == &scratch) return;
    const std::size_t shards = scratch.shards_.size(), own = scratch.own_shard();
    for (std::size_t n = 0; n < shards && !shard_; n++) {
        Shard &s = scratch.shards_[(own + n) % shards];
        std::lock_guard lock(s.mutex);
        if (s.borrowed) continue;
        s.borrowed = true;
        std::swap(s.free, free_);
        shard_ = &s;
    }
    if (shard_) innermost = this;
}

Scratch::Borrowed::~Borrowed() {
    if (!shard_) return;
    innermost = before_;
    std::lock_guard lock(shard_->mutex);
    std::swap(shard_->free, free_);
    shard_->borrowed = false;
}

template<typename F> auto Scratch::with_free_blocks(const F &f) noexcept {
    if (Borrowed *own = Borrowed::innermost; own && &own->scratch_ == this) return f(own->free_);
    Shard &s = shards_[own_shard()];
    std::lock_guard lock(s.mutex);
    return f(s.free);
}

Scratch::Block *Scratch::FreeBlocks::take(std::size_t wanted) noexcept {
    // Best fit, but no block that is more than twice as large.
    auto best = blocks.end();
    for (auto it = blocks.begin(); it != blocks.end(); ++it)
        if ((*it)->bytes >= wanted && (*it)->bytes / 2 <= wanted && (best == blocks.end() || (*it)->bytes < (*best)->bytes))
            best = it;
    if (best == blocks.end()) return nullptr;
    Block *block = *best;
    bytes -= block->bytes;
    blocks.erase(best);
    return block;
}

void Scratch::put(FreeBlocks &free, Block *block) noexcept {
    if (free.blocks.capacity() == 0) return give_back(block);  // the shard's blocks are borrowed
    free.blocks.push_back(block);
    free.bytes += block->bytes;
    while (free.bytes > limit_ || free.blocks.size() > most_blocks) {
        free.bytes -= free.blocks.front()->bytes;
        give_back(free.blocks.front());
        free.blocks.erase(free.blocks.begin());
    }
}

void *Scratch::allocate(std::size_t bytes) noexcept {
    const std::size_t all = (bytes + 2 * alignment - 1) / alignment * alignment;
    if (all < bytes) return nullptr;
    Block *block = with_free_blocks([&](FreeBlocks &free) { return free.take(all); });
    if (!block) {
        const auto ask = [&] { return static_cast<Block *>(allocator_.allocate(allocator_.user, all, alignment)); };
        block = ask();
        if (!block && give_back()) block = ask();
        if (!block) return nullptr;
        block->bytes = all;
    }
    return reinterpret_cast<char *>(block) + alignment;
}

void Scratch::release(void *data) noexcept {
    if (!data) return;
    Block *block = reinterpret_cast<Block *>(static_cast<char *>(data) - alignment);
    if (block->bytes > limit_) return give_back(block);
    with_free_blocks([&](FreeBlocks &free) { put(free, block); });
}

std::size_t Scratch::kept_bytes() noexcept {
    std::size_t bytes = 0;
    for (Shard &s : shards_) {
        std::lock_guard lock(s.mutex);
        bytes += s.free.bytes;
    }
    return bytes;
}

bool Scratch::give_back() noexcept {
    bool any = false;
    const auto all = [&](FreeBlocks &free) {
        any = any || !free.blocks.empty();
        for (Block *b : free.blocks) give_back(b);
        free.blocks.clear();
        free.bytes = 0;
    };
    with_free_blocks(all);
    for (Shard &s : shards_) {
        std::lock_guard lock(s.mutex);
        all(s.free);
    }
    return any;
}

void Scratch::give_back(Block *block) noexcept { allocator_.release(allocator_.user, block, block->bytes); }

}  // namespace attune
