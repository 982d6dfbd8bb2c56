// SPDX-License-Identifier: MIT
#include "device/cuda_backend.h"
#include "HalideRuntimeCuda.h"
#include "execution/halide_runtime.h"  // before others of the runtime
#include "execution/published.h"
#include <climits>
#include <cstdlib>
#include <dlfcn.h>
#include <mutex>

namespace attune {
namespace {

// The functions of the CUDA driver that this file calls; Halide's runtime finds its own.
struct Driver {
    int (*init)(unsigned) = nullptr;
    int (*device_count)(int *) = nullptr;
    int (*device)(int *, int number) = nullptr;
    int (*primary_context)(void **, int device) = nullptr;
    int (*current_context)(void **) = nullptr;
    int (*push_context)(void *) = nullptr;
    int (*pop_context)(void **) = nullptr;
    int (*allocate)(std::uint64_t *, std::size_t, void *stream) = nullptr;
    int (*release)(std::uint64_t, void *stream) = nullptr;
    int (*set_attribute)(void *function, int attribute, int value) = nullptr;
    std::string missing;

    Driver() {
        // Global, because Halide looks for libcuda.so, which the package of the driver alone does not install.
        void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
        if (!library) {
            missing = "there is no CUDA driver (libcuda.so.1)";
            return;
        }
        find(library, "cuInit", init), find(library, "cuDeviceGetCount", device_count);
        find(library, "cuDeviceGet", device), find(library, "cuDevicePrimaryCtxRetain", primary_context);
        find(library, "cuCtxGetCurrent", current_context);
        find(library, "cuCtxPushCurrent_v2", push_context), find(library, "cuCtxPopCurrent_v2", pop_context);
        find(library, "cuMemAllocAsync", allocate), find(library, "cuMemFreeAsync", release);
        find(library, "cuFuncSetAttribute", set_attribute);
        if (!missing.empty()) return;
        int devices = 0;
        if (init(0) || device_count(&devices) || devices == 0) missing = "the CUDA driver finds no device";
    }
    template<typename F> void find(void *library, const char *name, F *&function) {
        function = reinterpret_cast<F *>(dlsym(library, name));
        if (!function) missing.assign("the CUDA driver is too old: it has no ").append(name);
    }
};

const Driver &driver() {
    static constinit Published<Driver> opened;
    return opened.get(0, [] { return Driver(); });
}

// Context and stream of the call in this thread; kernels are queued by the thread of the call.
struct Current {
    void *context, *stream;
};
thread_local const Current *current = nullptr;

halide_cuda_acquire_context_t other_acquire;
halide_cuda_release_context_t other_release;
halide_cuda_get_stream_t other_stream;
halide_get_library_symbol_t other_symbol;

// Wraps cuModuleGetFunction so that a kernel may take 99 KB of shared memory, which each GPU of compute capability 8.0 and
// later gives a block. The driver's default is 48 KB, and Halide does not ask for more.
int (*get_function)(void **function, void *module, const char *name) = nullptr;
int get_function_of_any_size(void **function, void *module, const char *name) {
    constexpr int most_shared_memory = 8, bytes = 99 * 1024;  // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    const int error = get_function(function, module, name);
    return error ? error : driver().set_attribute(*function, most_shared_memory, bytes);
}
void *on_symbol(void *library, const char *name) {
    void *symbol = other_symbol(library, name);
    if (!symbol || std::string_view(name) != "cuModuleGetFunction") return symbol;
    get_function = reinterpret_cast<decltype(get_function)>(symbol);
    return reinterpret_cast<void *>(get_function_of_any_size);
}

int on_acquire(void *user_context, void **context, bool create) {
    if (!current) return other_acquire(user_context, context, create);
    *context = current->context;
    return 0;
}
int on_release(void *user_context) { return current ? 0 : other_release(user_context); }
int on_stream(void *user_context, void *context, void **stream) {
    if (!current) return other_stream(user_context, context, stream);
    *stream = current->stream;
    return 0;
}

void install_hooks() {
    static std::once_flag once;
    std::call_once(once, [] {
        other_acquire = halide_set_cuda_acquire_context(on_acquire);
        other_release = halide_set_cuda_release_context(on_release);
        other_stream = halide_set_cuda_get_stream(on_stream);
        other_symbol = halide_set_custom_get_library_symbol(on_symbol);
        // The register limit of kernels in PTX, which Halide sets to 64 unless this variable says otherwise.
        setenv("HL_CUDA_JIT_MAX_REGISTERS", "255", 0);
    });
}

const std::string &missing() { return driver().missing; }

// The CUDA context of a call, or why there is none. A primary context is retained for good, as by the CUDA runtime.
Status find_context(Context::State &context, void *&found) {
    DeviceOptions &options = context.device;
    if (!options.cuda_context && options.cuda_device >= 0) {
        int device = 0;
        const std::string number = std::to_string(options.cuda_device);
        if (options.cuda_device > INT_MAX || driver().device(&device, int(options.cuda_device)))
            return {StatusCode::invalid_argument, "device.cuda_device: the CUDA driver gives no device " + number};
        if (const int error = driver().primary_context(&options.cuda_context, device))
            return {StatusCode::internal,
                    "the CUDA driver gives no primary context of device " + number + ", but error " + std::to_string(error)};
    }
    found = options.cuda_context;
    if (!found) driver().current_context(&found);
    if (found) return {};
    return {StatusCode::invalid_argument, "no CUDA context is current in this thread, and ContextOptions::device names none"};
}

// Makes a CUDA context current, whose default stream a null stream is.
class Entered {
public:
    explicit Entered(void *context) : entered_(driver().push_context(context) == 0) {}
    Entered(const Entered &) = delete;
    Entered &operator=(const Entered &) = delete;
    ~Entered() {
        void *left = nullptr;
        if (entered_) driver().pop_context(&left);
    }
    explicit operator bool() const { return entered_; }

private:
    bool entered_;
};

Status allocate(Context::State &context, std::size_t bytes, void *&block) {
    void *of_call = nullptr;
    if (Status s = find_context(context, of_call); !s.ok()) return s;
    const Entered entered(of_call);
    if (!entered) return {StatusCode::internal, "the CUDA driver refuses the context of the call"};
    std::uint64_t address = 0;
    if (driver().allocate(&address, bytes, context.device.cuda_stream))
        return {StatusCode::out_of_memory, "the device has no memory for this call"};
    block = reinterpret_cast<void *>(address);
    return {};
}
void release(Context::State &context, void *block) {
    void *of_call = nullptr;
    if (!find_context(context, of_call).ok()) return;
    if (const Entered entered(of_call); entered)
        driver().release(reinterpret_cast<std::uint64_t>(block), context.device.cuda_stream);
}

Status run(Context::State &context, DeviceCall &call) {
    Current here{nullptr, context.device.cuda_stream};
    if (Status s = find_context(context, here.context); !s.ok()) return s;
    install_hooks();
    current = &here;
    bool wrapped = true;
    for (halide_buffer_t *b : call.buffers) {
        const auto pointer = reinterpret_cast<std::uint64_t>(b->host);
        b->host = nullptr;
        wrapped = wrapped && halide_cuda_wrap_device_ptr(nullptr, b, pointer) == 0;
        b->set_device_dirty();
    }
    Status status = wrapped ? call_kernel(context, call.kernel, call.args.data(), 1)
                            : Status(StatusCode::internal, "a pointer to the device is refused");
    for (halide_buffer_t *b : call.buffers) halide_cuda_detach_device_ptr(nullptr, b);
    current = nullptr;
    return status;
}

}  // namespace

const DeviceBackend &cuda_backend() noexcept {
    static constexpr DeviceBackend backend{"cuda80", missing, run, allocate, release};
    return backend;
}

}  // namespace attune
