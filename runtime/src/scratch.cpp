#include "scratch.h"
#include <atomic>
#include <new>

namespace attune {
namespace {

constexpr std::size_t alignment = 128;   // what Halide's own malloc gives, and room for the header
constexpr std::size_t most_blocks = 64;  // kept per shard

void *default_allocate(void *, std::size_t bytes, std::size_t align) {
    return ::operator new(bytes, std::align_val_t(align), std::nothrow);
}
void default_release(void *, void *block, std::size_t) { ::operator delete(block, std::align_val_t(alignment)); }

}  // namespace

Scratch::Scratch(const Allocator &allocator, std::size_t bytes_per_thread, int threads)
    : allocator_(allocator), limit_(bytes_per_thread), shards_(static_cast<std::size_t>(threads)) {
    if (!allocator_.allocate) allocator_ = {default_allocate, default_release, nullptr};
    for (Shard &s : shards_) s.free.reserve(most_blocks + 1);  // so that release() never allocates
}

Scratch::~Scratch() { give_back(); }

Scratch::Shard &Scratch::shard_of_this_thread() noexcept {
    static std::atomic<std::size_t> threads_seen{0};
    thread_local const std::size_t number = threads_seen++;
    return shards_[number % shards_.size()];
}

void *Scratch::allocate(std::size_t bytes) noexcept {
    const std::size_t all = (bytes + 2 * alignment - 1) / alignment * alignment;
    if (all < bytes) return nullptr;
    Block *block = nullptr;
    {
        Shard &s = shard_of_this_thread();
        std::lock_guard lock(s.mutex);
        // The smallest that fits, but none that is mostly waste.
        auto best = s.free.end();
        for (auto it = s.free.begin(); it != s.free.end(); ++it)
            if ((*it)->bytes >= all && (*it)->bytes / 2 <= all && (best == s.free.end() || (*it)->bytes < (*best)->bytes))
                best = it;
        if (best != s.free.end()) {
            block = *best;
            s.bytes -= block->bytes;
            s.free.erase(best);
        }
    }
    if (!block) {
        block = static_cast<Block *>(allocator_.allocate(allocator_.user, all, alignment));
        if (!block) return nullptr;
        block->bytes = all;
    }
    return reinterpret_cast<char *>(block) + alignment;
}

void Scratch::release(void *data) noexcept {
    if (!data) return;
    Block *block = reinterpret_cast<Block *>(static_cast<char *>(data) - alignment);
    if (block->bytes > limit_) return give_back(block);
    Shard &s = shard_of_this_thread();
    std::lock_guard lock(s.mutex);
    s.free.push_back(block);
    s.bytes += block->bytes;
    while (s.bytes > limit_ || s.free.size() > most_blocks) {
        s.bytes -= s.free.front()->bytes;
        give_back(s.free.front());
        s.free.erase(s.free.begin());
    }
}

std::size_t Scratch::kept_bytes() noexcept {
    std::size_t bytes = 0;
    for (Shard &s : shards_) {
        std::lock_guard lock(s.mutex);
        bytes += s.bytes;
    }
    return bytes;
}

void Scratch::give_back() noexcept {
    for (Shard &s : shards_) {
        std::lock_guard lock(s.mutex);
        for (Block *b : s.free) give_back(b);
        s.free.clear();
        s.bytes = 0;
    }
}

void Scratch::give_back(Block *block) noexcept { allocator_.release(allocator_.user, block, block->bytes); }

}  // namespace attune
