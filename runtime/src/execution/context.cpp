// SPDX-License-Identifier: MIT
#include "attune/context.h"
#include "dispatch/shape_record.h"
#include "dispatch/variant_table.h"
#include "execution/context_state.h"
#include "execution/float_state.h"
#include "execution/processors.h"
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

namespace attune {
Context::State::State() = default;
Context::State::~State() = default;

Context::Context() : Context(ContextOptions{}) {}

Context::Context(const ContextOptions &options) {
    const DefaultFloatState of_this_call;
    try {
        state_ = std::make_unique<State>();
        status_ = read(options);
    } catch (const std::bad_alloc &) {
        status_ = {StatusCode::out_of_memory, "out of memory"};  // short: must not allocate
    }
}

Status Context::read(const ContextOptions &options) {
    State &s = *state_;
    const int threads = options.threads == 0 ? default_threads().threads : options.threads;
    if (threads < 1 || threads > most_threads)
        return {StatusCode::invalid_argument, "threads: must be from 1 to " + std::to_string(most_threads) +
                                                  ", or 0 for default_threads(), got " + std::to_string(options.threads)};
    if (!options.allocator.allocate != !options.allocator.release)
        return {StatusCode::invalid_argument, "allocator: give both allocate and release, or neither"};
    if (options.device.cuda_device < -1)
        return {StatusCode::invalid_argument, "device.cuda_device: must be the number of a device, or -1 for none, got " +
                                                  std::to_string(options.device.cuda_device)};
    if (!options.device.workspace && options.device.workspace_bytes)
        return {StatusCode::invalid_argument,
                "device.workspace: is null, of " + std::to_string(options.device.workspace_bytes) + " bytes"};
    if (reinterpret_cast<std::uintptr_t>(options.device.workspace) % State::device_line)
        return {StatusCode::invalid_argument,
                "device.workspace: must begin at a multiple of " + std::to_string(State::device_line) + " bytes"};
    s.threads = threads;
    s.device = options.device;
    if (const char *name = std::getenv("ATTUNE_FORCE_VARIANT"); name && *name) {
        // A name that no op knows would otherwise be ignored by all, silently.
        s.forced_variant = find_variant(name);
        if (!s.forced_variant && !is_of_unlinked_op(name))
            return {StatusCode::invalid_argument, "ATTUNE_FORCE_VARIANT: there is no variant " + std::string(name)};
    }
    if (const char *v = std::getenv("ATTUNE_VERBOSE")) s.verbose = *v && std::strcmp(v, "0") != 0;
    if (s.verbose)
        if (const std::string missing = missing_linked_variants(); !missing.empty())
            std::fprintf(stderr, "attune: %s\n", missing.c_str());
    if (const char *file = std::getenv("ATTUNE_RECORD_SHAPES"); file && *file) {
        s.shapes = std::make_unique<ShapeRecord>(file);
        if (const std::string defect = s.shapes->defect(); !defect.empty())
            return {StatusCode::invalid_argument, "ATTUNE_RECORD_SHAPES: cannot write " + defect};
    }
    s.scratch.emplace(options.allocator, options.scratch_bytes_per_thread, threads);
    return {};
}

// Status of a Context that has been moved from; in few words where there is no memory for more.
static Status moved_from() noexcept {
    try {
        return {StatusCode::invalid_argument, "context: it has been moved from, and holds nothing"};
    } catch (const std::bad_alloc &) {
        return {StatusCode::invalid_argument, "context: moved"};
    }
}

Context::Context(Context &&other) noexcept
    : status_(std::exchange(other.status_, moved_from())), state_(std::move(other.state_)) {}

Context &Context::operator=(Context &&other) noexcept {
    if (this == &other) return *this;
    status_ = std::exchange(other.status_, moved_from());
    state_ = std::move(other.state_);
    return *this;
}

Context::~Context() = default;

const Status &Context::status() const { return status_; }
int Context::threads() const { return state_ ? state_->threads : 1; }
const std::string &Context::last_variant() const { return state_ ? state_->last_variant : no_variant_; }
std::size_t Context::device_scratch_bytes() const { return state_ ? state_->device_scratch.most : 0; }
std::size_t Context::scratch_bytes() const { return state_ && state_->scratch ? state_->scratch->kept_bytes() : 0; }
void Context::release_scratch() {
    if (state_ && state_->scratch) state_->scratch->give_back();
}

}  // namespace attune
