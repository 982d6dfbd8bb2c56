// SPDX-License-Identifier: MIT
#include "execution/halide_call.h"
#include "execution/constant_pages.h"
#include "execution/thread_team.h"
#include "tensors/checks.h"
#include <algorithm>
#include <atomic>
#include <mutex>
#include <new>

namespace attune {
namespace {

struct Call {
    Context::State &context;
    int threads;
    std::mutex mutex;
    std::string error;  // the first message
};

// The call that this thread works for. Halide passes our user_context to every handler; a handler acts only where it is this
// call's. Worker threads are marked as they begin its tasks.
thread_local const void *current_call = nullptr;

class Mark {
public:
    explicit Mark(const Call &call) : before_(current_call), blocks_(*call.context.scratch) { current_call = &call; }
    ~Mark() { current_call = before_; }

private:
    const void *before_;
    Scratch::Borrowed blocks_;
};

bool ours(const void *user_context) { return user_context && user_context == current_call; }
Call &call_of(void *user_context) { return *static_cast<Call *>(user_context); }

halide_error_handler_t other_error;
halide_do_par_for_t other_do_par_for;
halide_malloc_t other_malloc;
halide_free_t other_free;

void on_error(void *user_context, const char *message) {
    if (!ours(user_context)) return other_error(user_context, message);
    Call &call = call_of(user_context);
    std::lock_guard lock(call.mutex);
    if (!call.error.empty()) return;
    try {
        call.error = message;
    } catch (const std::bad_alloc &) {}  // kernels must not be unwound; the error code says the same
}

void *on_malloc(void *user_context, std::size_t bytes) {
    if (!ours(user_context)) return other_malloc(user_context, bytes);
    return call_of(user_context).context.scratch->allocate(bytes);
}

void on_free(void *user_context, void *block) {
    if (!ours(user_context)) return other_free(user_context, block);
    call_of(user_context).context.scratch->release(block);
}

// A range of neighbouring tasks, which share operands. A worker takes the tasks of its own part in turn, then tasks left in
// other parts. A thread returns to its part of the call before, whose operands are in its core's caches.
struct alignas(64) Part {  // a cache line of its own
    std::atomic<int> next{0};
    int end = 0;
    std::atomic<bool> taken{false};
};

struct Tasks {
    static constexpr int most_parts = 64;
    halide_task_t task;
    std::uint8_t *closure;
    int count;
    std::atomic<int> error{0};
    Part parts[most_parts];

    Tasks(halide_task_t task, std::uint8_t *closure, int min, int size, int workers)
        : task(task), closure(closure), count(std::min(workers, most_parts)) {
        const auto begin = [&](int part) { return min + static_cast<int>(std::int64_t(size) * part / count); };
        for (int p = 0; p < count; p++) parts[p].next = begin(p), parts[p].end = begin(p + 1);
    }

    int part_of_this_thread() {
        thread_local int before = 0;
        for (int n = 0; n < count; n++) {
            const int p = (before + n) % count;
            if (!parts[p].taken.exchange(true)) return before = p;
        }
        return 0;  // there are more workers than parts
    }
};

void work(void *user_context, Tasks &tasks) {
    Mark mark(call_of(user_context));
    const int own = tasks.part_of_this_thread();
    for (int p = 0; p < tasks.count; p++) {
        Part &part = tasks.parts[(own + p) % tasks.count];
        for (int n; !tasks.error && (n = part.next++) < part.end;)
            if (const int error = tasks.task(user_context, n, tasks.closure)) tasks.error = error;
    }
}

int on_do_par_for(void *user_context, halide_task_t task, int min, int size, std::uint8_t *closure) {
    if (!ours(user_context)) return other_do_par_for(user_context, task, min, size, closure);
    const int workers = std::min(call_of(user_context).threads, size);
    Tasks tasks(task, closure, min, size, workers);
    ThreadTeam::run(workers, [&](int) { work(user_context, tasks); });
    return tasks.error;
}

// Tasks of the library, run by workers like Halide's. They begin in order, so the first one that fails always runs.
struct LibraryTasks {
    const Task &task;
    const std::int64_t count;
    std::atomic<std::int64_t> next{0};
    std::atomic<bool> failed{false};
    std::mutex mutex = {};
    std::int64_t first_failed = count;
    Status status = {};
};

Status run_task(const Task &task, std::int64_t n, int worker) {
    try {
        return task(n, worker);
    } catch (const std::bad_alloc &) {
        return {StatusCode::out_of_memory, "out of memory"};  // short: must not allocate
    }
}

void work_for_library(const Call &call, int worker, LibraryTasks &tasks) {
    Mark mark(call);
    for (std::int64_t n; !tasks.failed && (n = tasks.next++) < tasks.count;) {
        Status status = run_task(tasks.task, n, worker);
        if (status.ok()) continue;
        std::lock_guard lock(tasks.mutex);
        if (n < tasks.first_failed) tasks.first_failed = n, tasks.status = std::move(status);
        tasks.failed = true;
    }
}

// Sets a handler and keeps the one before. In a child forked during installation, call_once() begins again, and some handlers
// are ours already.
template<typename Handler> void install(Handler (*set)(Handler), Handler handler, Handler &other) {
    if (const Handler before = set(handler); before != handler) other = before;
}

void install_handlers() {
    // Mapped constants make calls faster but no call needs them, so no other thread waits for the thread that maps them.
    static std::atomic<bool> mapped{false};
    if (!mapped.load(std::memory_order_relaxed) && !mapped.exchange(true)) map_constants();
    static std::once_flag once;
    std::call_once(once, [] {
        install(halide_set_error_handler, on_error, other_error);
        install(halide_set_custom_do_par_for, on_do_par_for, other_do_par_for);
        install(halide_set_custom_malloc, on_malloc, other_malloc);
        install(halide_set_custom_free, on_free, other_free);
    });
}

halide_type_t halide_type(DType t) {
    const auto bits = static_cast<std::uint8_t>(8 * size_of(t));
    if (t == DType::i32 || t == DType::i64 || t == DType::i8) return {halide_type_int, bits, 1};
    if (t == DType::boolean || t == DType::u8) return {halide_type_uint, bits, 1};
    return {t == DType::bf16 ? halide_type_bfloat : halide_type_float, bits, 1};
}

}  // namespace

HalideBuffer::HalideBuffer(const ConstView &view) {
    buffer_.host = static_cast<std::uint8_t *>(const_cast<void *>(view.data));
    buffer_.type = halide_type(view.dtype);
    buffer_.dim = dims_;
    for (int n = view.rank - 1; n >= 0; n--) append(view.extent[n], view.stride[n]);
}

HalideBuffer::HalideBuffer(const ConstView &view, std::int64_t innermost_extent) {
    buffer_.host = static_cast<std::uint8_t *>(const_cast<void *>(view.data));
    buffer_.type = halide_type(view.dtype);
    buffer_.dim = dims_;
    append(innermost_extent, 0);
    for (int n = view.rank - 1; n >= 0; n--) append(view.extent[n], view.stride[n]);
}

void HalideBuffer::append(std::int64_t extent, std::int64_t stride) {
    dims_[buffer_.dimensions++] = {0, static_cast<std::int32_t>(extent), static_cast<std::int32_t>(stride), 0};
}

int threads_of_kernel(int threads) { return current_call ? 1 : threads; }

Status call_kernel(Context::State &context, Kernel kernel, void **args, int threads) {
    install_handlers();
    Call call{context, threads_of_kernel(threads), {}, {}};
    void *user_context = &call;
    args[0] = &user_context;
    Mark mark(call);
    switch (const int code = kernel(args)) {
    case halide_error_code_success: return {};
    case halide_error_code_out_of_memory: return no_memory();
    default: return {StatusCode::internal, "kernel error " + std::to_string(code) + ": " + call.error};
    }
}

Status run_tasks(Context::State &context, std::int64_t count, int threads, const Task &task) {
    install_handlers();
    Call call{context, threads, {}, {}};
    LibraryTasks tasks{task, count};
    const int workers = static_cast<int>(std::min<std::int64_t>(threads, count));
    ThreadTeam::run(workers, [&](int worker) { work_for_library(call, worker, tasks); });
    return std::move(tasks.status);
}

}  // namespace attune
