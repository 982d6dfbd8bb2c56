// SPDX-License-Identifier: MIT
// Memory behind Halide's malloc, kept between calls. A kernel asks for the same few blocks in every task; freed each time, the
// top of the heap would go back to the system and its pages would fault in again, which costs more than the kernel.
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

    // Aligned to 128 bytes; null, for no bytes as for many, if the allocator has no memory even after all kept blocks went back
    // to it. From any thread.
    void *allocate(std::size_t bytes) noexcept;
    void release(void *) noexcept;

    class Borrowed;

    // Bytes of the kept blocks that no thread has borrowed.
    std::size_t kept_bytes() noexcept;
    // Gives these blocks, and the blocks that this thread has borrowed, back to the allocator; false if there are none.
    bool give_back() noexcept;

private:
    struct Block {
        std::size_t bytes;  // of the block, this header included
    };
    // Free blocks, in the order of release.
    struct FreeBlocks {
        std::vector<Block *> blocks;
        std::size_t bytes = 0;
        Block *take(std::size_t bytes) noexcept;
    };
    // A part of the free blocks. There are as many shards as threads, so that threads rarely wait for a lock.
    struct Shard {
        std::mutex mutex;
        FreeBlocks free;
        bool borrowed = false;  // and then without blocks or room for any
    };

    // Calls f(FreeBlocks &) with the free blocks of this thread.
    template<typename F> auto with_free_blocks(const F &f) noexcept;
    std::size_t own_shard() const noexcept;
    void put(FreeBlocks &, Block *) noexcept;
    void give_back(Block *) noexcept;

    Allocator allocator_;
    std::size_t limit_;
    std::vector<Shard> shards_;
};

// Scope in which its thread owns the blocks of a shard: a kernel asks for blocks in every task, and a lock each time would take
// a twentieth of a short task. A scope within another of the same scratch does nothing.
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
    Shard *shard_ = nullptr;  // null: this thread has borrowed a shard already
    FreeBlocks free_;
};

// A block of scratch for the length of a call.
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
