// SPDX-License-Identifier: MIT
// A program with a Halide runtime and handlers of its own: calls of the library do not change them, and they work after the
// library is unloaded.
#include "HalideRuntime.h"
#include <cstdio>
#include <cstdlib>
#if defined(PLUG_IN)
#include <dlfcn.h>
#else
extern "C" int calls_of_plug_in();
#endif

namespace {

int errors = 0, blocks = 0, loops = 0;
void on_error(void *, const char *) { errors++; }
void *on_malloc(void *, std::size_t bytes) { return blocks++, std::malloc(bytes); }
void on_free(void *, void *block) { std::free(block); }
int on_do_par_for(void *context, halide_task_t task, int min, int size, std::uint8_t *closure) {
    loops++;
    for (int n = min; n < min + size; n++)
        if (const int error = task(context, n, closure)) return error;
    return 0;
}
int count(void *, int, std::uint8_t *closure) { return ++*reinterpret_cast<int *>(closure), 0; }

int failures = 0;
void check(bool right, const char *what) {
    if (!right) failures++, std::printf("wrong: %s\n", what);
}

int call_library() {
#if defined(PLUG_IN)
    void *const plug_in = dlopen(PLUG_IN, RTLD_NOW | RTLD_LOCAL);
    if (!plug_in) return std::printf("%s\n", dlerror()), -1;
    const int answer = reinterpret_cast<int (*)()>(dlsym(plug_in, "calls_of_plug_in"))();
    dlclose(plug_in);
    return answer;
#else
    return calls_of_plug_in();
#endif
}

}  // namespace

int main() {
    halide_set_error_handler(on_error);
    halide_set_custom_malloc(on_malloc);
    halide_set_custom_free(on_free);
    halide_set_custom_do_par_for(on_do_par_for);
    for (int times = 0; times < 2; times++) check(call_library() == 0, "a call of the library");
    check(errors == 0 && blocks == 0 && loops == 0, "the library called this program's handlers");

    int counted = 0;
    halide_free(nullptr, halide_malloc(nullptr, 100));
    halide_do_par_for(nullptr, count, 0, 7, reinterpret_cast<std::uint8_t *>(&counted));
    halide_error(nullptr, "of this program");
    check(errors == 1 && blocks == 1 && loops == 1 && counted == 7, "this program's handlers");
    check(halide_set_error_handler(nullptr) == on_error, "the handler of errors is another");
    check(halide_set_custom_malloc(on_malloc) == on_malloc, "that of memory is another");
    check(halide_set_custom_do_par_for(on_do_par_for) == on_do_par_for, "that of loops is another");
    std::printf("%d failures\n", failures);
    return failures;
}
