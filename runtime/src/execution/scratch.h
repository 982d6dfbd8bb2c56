// SPDX-License-Identifier: MIT
// Memory behind Halide's malloc. A kernel asks for the same few blocks in every task; given back to the C library each time,
// the top of the heap would go back to the system and its pages would fault in again, which costs more than the kernel.
#pragma once
#include "attune/context.h"
#include <cstddef>
#include <mutex>
#include <vector>

namespace attune {

class Scratch {
public:
    Scratch(const Allocator &, std::size_t bytes_per_thread, int threads);
    ~Scratch();
    Scratch(const Scratch &) = delete;

    // Aligned to 128 bytes; null if the allocator has none, not even after it got back what is kept for later. From any thread.
    void *allocate(std::size_t bytes) noexcept;
    void release(void *) noexcept;

    class Borrowed;

    // Of the blocks that nobody has borrowed.
    std::size_t kept_bytes() noexcept;
    // Those and what this thread has borrowed; false if there are none.
    bool give_back() noexcept;

private:
    struct Block {
        std::size_t bytes;  // all of it, this header included
    };
    // In the order of release.
    struct FreeBlocks {
        std::vector<Block *> blocks;
        std::size_t bytes = 0;
        Block *take(std::size_t bytes) noexcept;
    };
    // There are as many shards as threads, so a lock is rarely waited for.
    struct Shard {
        std::mutex mutex;
        FreeBlocks free;
        bool borrowed = false;  // without blocks or room for them then
    };

    // What this thread takes free blocks from and puts them into: f(FreeBlocks &).
    template<typename F> auto with_free_blocks(const F &f) noexcept;
    std::size_t own_shard() const noexcept;
    void put(FreeBlocks &, Block *) noexcept;
    void give_back(Block *) noexcept;

    Allocator allocator_;
    std::size_t limit_;
    std::vector<Shard> shards_;
};

// While it lives its thread has the blocks of a shard to itself: a kernel asks for some in every task, and to lock each time
// would be a twentieth of a short task. One within another of the same scratch does nothing.
class Scratch::Borrowed {
public:
    explicit Borrowed(Scratch &) noexcept;
    ~Borrowed();
    Borrowed(const Borrowed &) = delete;

private:
    friend Scratch;
    static thread_local Borrowed *innermost;
    Scratch &scratch_;
    Borrowed *const before_;
    Shard *shard_ = nullptr;  // null: this thread has borrowed one already
    FreeBlocks free_;
};

// A block of the scratch for the length of a call.
class ScratchBlock {
public:
    ScratchBlock(Scratch &scratch, std::size_t bytes) : scratch_(scratch), data_(scratch.allocate(bytes)) {}
    ~ScratchBlock() { scratch_.release(data_); }
    ScratchBlock(const ScratchBlock &) = delete;
    void *data() const { return data_; }

private:
    Scratch &scratch_;
    void *data_;
};

}  // namespace attune
