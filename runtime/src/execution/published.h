// SPDX-License-Identifier: MIT
// Values shared by all calls of the process: made when first wanted, without a lock, and never destroyed.
#pragma once
#include <atomic>

namespace attune {

// The latest generation of an immutable value. It has no lock, because a child forked while another thread holds a lock finds
// it locked for ever. It is never destroyed, because calls may come while exit() destroys static objects, and later; earlier
// generations stay for calls that still read them, linked so that leak checkers find them. Constant-initialised.
template<typename T> class Published {
public:
    constexpr Published() = default;
    Published(const Published &) = delete;

    // The value of this generation or of a later one, made by make() where there is none yet. Threads that come at the same
    // time may each make a value, of which one is kept. An exception of make() is passed on, and the next call tries again.
    template<typename Make> const T &get(int generation, const Make &make) {
        const Node *latest = latest_.load(std::memory_order_acquire);
        if (latest && latest->generation >= generation) return latest->value;
        auto *node = new Node{make(), generation, latest};
        while (!latest_.compare_exchange_weak(node->before, node, std::memory_order_acq_rel))
            if (node->before && node->before->generation >= generation) {
                const T &of_another = node->before->value;
                delete node;
                return of_another;
            }
        return node->value;
    }

private:
    struct Node {
        T value;
        int generation;
        const Node *before;
    };
    std::atomic<const Node *> latest_{nullptr};
};

}  // namespace attune
