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

    // Aligned to 128 bytes; null if the allocator has none. From any thread.
    void *allocate(std::size_t bytes) noexcept;
    void release(void *) noexcept;

    std::size_t kept_bytes() noexcept;
    void give_back() noexcept;

private:
    struct Block {
        std::size_t bytes;  // all of it, this header included
    };
    // Free blocks of the threads that share a shard, in the order of release. There are as many shards as threads, so a
    // lock is rarely waited for.
    struct Shard {
        std::mutex mutex;
        std::vector<Block *> free;
        std::size_t bytes = 0;
    };
    Shard &shard_of_this_thread() noexcept;
    void give_back(Block *) noexcept;

    Allocator allocator_;
    std::size_t limit_;
    std::vector<Shard> shards_;
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
