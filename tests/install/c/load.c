// SPDX-License-Identifier: MIT
// Loads the shared library 100 times, each time makes a context and a call of two threads, and unloads it: load LIBRARY.
#define _POSIX_C_SOURCE 200809L
#include <attune/attune_c.h>
#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Threads of this process.
static int threads(void) {
    int count = 0;
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *entry; tasks && (entry = readdir(tasks));) count += entry->d_name[0] != '.';
    if (tasks) closedir(tasks);
    return count;
}

static void *function(void *library, const char *name) {
    void *found = dlsym(library, name);
    if (!found) printf("there is no %s\n", name), exit(1);
    return found;
}

int main(int argc, char **argv) {
    static float x[512 * 64], first[512 * 64], out[512 * 64];
    for (int n = 0; n < 512 * 64; n++) x[n] = (float)(n % 97) / 97;
    const int64_t extents[] = {512, 64};
    const attune_tensor in = attune_dense(x, ATTUNE_F32, 2, extents), to = attune_dense(out, ATTUNE_F32, 2, extents);
    for (int round = 0; argc == 2 && round < 100; round++) {
        void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
        if (!library) return printf("%s\n", dlerror()), 1;
        attune_status (*create)(const attune_context_options *, attune_context **);
        void (*destroy)(attune_context *);
        const char *(*message)(const attune_context *);
        attune_status (*attention)(attune_context *, const attune_tensor *, const attune_tensor *, const attune_tensor *,
                                   const attune_tensor *, const attune_sdpa_options *);
        *(void **)&create = function(library, "attune_context_create");
        *(void **)&destroy = function(library, "attune_context_destroy");
        *(void **)&message = function(library, "attune_last_message");
        *(void **)&attention = function(library, "attune_scaled_dot_product_attention");
        attune_context_options options = ATTUNE_CONTEXT_OPTIONS_INIT;
        options.threads = 2;
        attune_context *context;
        if (create(&options, &context) != ATTUNE_OK || attention(context, &in, &in, &in, &to, NULL) != ATTUNE_OK)
            return printf("%s\n", message(context)), 1;
        destroy(context);
        if (round == 0) memcpy(first, out, sizeof out);
        if (memcmp(first, out, sizeof out) != 0) return printf("round %d has other bits\n", round), 1;
        memset(out, 0, sizeof out);
        if (dlclose(library) != 0) return printf("%s\n", dlerror()), 1;
        if (dlopen(argv[1], RTLD_NOW | RTLD_NOLOAD)) return printf("round %d: the library stays loaded\n", round), 1;
        if (threads() != 1) return printf("round %d: %d threads after unloading\n", round, threads()), 1;
    }
    return printf("loaded 100 times\n"), argc != 2;
}
