// SPDX-License-Identifier: MIT
// Attention over positions that are spread over ranks, in C: a communicator of callbacks whose ranks are threads of POSIX, a
// plan, and ring_attention by three ranks, which gives the bits of one rank.
#include <attune/attune_c.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { RANKS = 3, POSITIONS = 200, HEADS = 2, DIM = 64, ROWS = HEADS * POSITIONS };

// Messages that were sent and not yet received, in the order in which they were sent.
typedef struct message {
    int from, to;
    size_t bytes;
    struct message *next;
    char content[];
} message;
static message *sent;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t came = PTHREAD_COND_INITIALIZER;

// A receive that has not ended. A send ends at once: its message is a copy.
typedef struct receive {
    void *memory;
    size_t bytes;
    int from;
} receive;

static int start_send_receive(void *user, const void *send, size_t send_bytes, int to, void *memory, size_t bytes, int from,
                              void **request) {
    *request = NULL;
    if (to >= 0) {
        message *m = malloc(sizeof *m + send_bytes);
        if (!m) return -1;
        m->from = *(const int *)user, m->to = to, m->bytes = send_bytes, m->next = NULL;
        memcpy(m->content, send, send_bytes);
        pthread_mutex_lock(&mutex);
        message **last = &sent;
        while (*last) last = &(*last)->next;
        *last = m;
        pthread_cond_broadcast(&came);
        pthread_mutex_unlock(&mutex);
    }
    if (from >= 0) {
        receive *r = malloc(sizeof *r);
        if (!r) return -1;
        r->memory = memory, r->bytes = bytes, r->from = from;
        *request = r;
    }
    return 0;
}

// Takes the first message from one rank to another out of the list; NULL: there is none.
static message *take(int from, int to) {
    for (message **m = &sent; *m; m = &(*m)->next) {
        if ((*m)->from != from || (*m)->to != to) continue;
        message *found = *m;
        *m = found->next;
        return found;
    }
    return NULL;
}

static int wait(void *user, void *request, double seconds) {
    receive *r = request;
    if (!r) return 0;
    struct timespec until;
    timespec_get(&until, TIME_UTC);
    const long nanoseconds = until.tv_nsec + (long)(seconds * 1e9);
    until.tv_sec += nanoseconds / 1000000000, until.tv_nsec = nanoseconds % 1000000000;
    pthread_mutex_lock(&mutex);
    message *m;
    int timed_out = 0;
    while (!(m = take(r->from, *(const int *)user)) && !timed_out)
        timed_out = pthread_cond_timedwait(&came, &mutex, &until) != 0;
    pthread_mutex_unlock(&mutex);
    if (!m) return 1;
    const int fits = m->bytes == r->bytes;
    if (fits) memcpy(r->memory, m->content, m->bytes);
    free(m), free(r);
    return fits ? 0 : -1;
}

static int abandon(void *user, void *request) {
    (void)user;
    free(request);
    return 0;
}

static float query[ROWS * DIM], key[ROWS * DIM], value[ROWS * DIM], by_one[ROWS * DIM], by_three[ROWS * DIM];

// Copies a rank's rows of an array of all positions, (HEADS, POSITIONS, DIM), to or from an array of its own.
static void copy_rows(const attune_position_range *ranges, size_t count, float *all, float *own, int to_own) {
    for (int h = 0; h < HEADS; h++)
        for (size_t n = 0; n < count; n++) {
            float *row = all + ((size_t)h * POSITIONS + (size_t)ranges[n].begin) * DIM;
            const size_t elements = (size_t)(ranges[n].end - ranges[n].begin) * DIM;
            memcpy(to_own ? own : row, to_own ? row : own, elements * sizeof(float));
            own += elements;
        }
}

typedef struct rank_call {
    int rank, ranks;
    float *out;  // of all positions: a rank writes its own rows
    attune_status status;
} rank_call;

static void *run_rank(void *given) {
    rank_call *call = given;
    attune_context_options of_context = ATTUNE_CONTEXT_OPTIONS_INIT;
    of_context.threads = 1;
    attune_context *context;
    call->status = attune_context_create(&of_context, &context);
    attune_communicator communicator = ATTUNE_COMMUNICATOR_INIT;
    communicator.rank = call->rank, communicator.ranks = call->ranks, communicator.user = &call->rank;
    communicator.start_send_receive = start_send_receive, communicator.wait = wait, communicator.abandon = abandon;

    // The plan is made with the same arguments on every rank.
    attune_parallel_plan *plan = NULL;
    attune_parallel_band band = ATTUNE_PARALLEL_BAND_INIT;
    band.causal = ATTUNE_CAUSAL_TOP_LEFT;
    const attune_position_range *ranges = NULL;
    size_t count = 0;
    if (call->status == ATTUNE_OK) call->status = attune_parallel_plan_create(context, &plan);
    if (call->status == ATTUNE_OK)
        call->status = attune_plan_positions(context, POSITIONS, call->ranks, ATTUNE_PARALLEL_LAYOUT_STRIPED, 32, &band, plan);
    if (call->status == ATTUNE_OK) call->status = attune_parallel_plan_ranges(context, plan, call->rank, &ranges, &count);

    const int64_t rows = attune_parallel_plan_positions_of(plan, call->rank), extents[] = {1, HEADS, rows, DIM};
    const size_t elements = (size_t)rows * HEADS * DIM;
    float *own = malloc(4 * elements * sizeof(float) + 1);
    if (own && call->status == ATTUNE_OK) {
        copy_rows(ranges, count, query, own, 1);
        copy_rows(ranges, count, key, own + elements, 1);
        copy_rows(ranges, count, value, own + 2 * elements, 1);
        attune_tensor tensors[4];
        for (int n = 0; n < 4; n++) tensors[n] = attune_dense(own + (size_t)n * elements, ATTUNE_F32, 4, extents);
        attune_sdpa_options attention = ATTUNE_SDPA_OPTIONS_INIT;
        attention.causal = ATTUNE_CAUSAL_TOP_LEFT;
        attune_parallel_options options = ATTUNE_PARALLEL_OPTIONS_INIT;
        options.attention = &attention;
        call->status =
            attune_ring_attention(context, &communicator, plan, &tensors[0], &tensors[1], &tensors[2], &tensors[3], &options);
        if (call->status == ATTUNE_OK) copy_rows(ranges, count, call->out, own + 3 * elements, 0);
    }
    if (call->status != ATTUNE_OK) fprintf(stderr, "rank %d: %s\n", call->rank, attune_last_message(context));
    free(own);
    attune_parallel_plan_destroy(plan);
    attune_context_destroy(context);
    return NULL;
}

static int run(int ranks, float *out) {
    pthread_t threads[RANKS];
    rank_call calls[RANKS];
    int failed = 0;
    for (int rank = 0; rank < ranks; rank++) {
        calls[rank] = (rank_call){rank, ranks, out, ATTUNE_OK};
        if (pthread_create(&threads[rank], NULL, run_rank, &calls[rank]) != 0) exit(1);
    }
    for (int rank = 0; rank < ranks; rank++) {
        pthread_join(threads[rank], NULL);
        failed |= calls[rank].status != ATTUNE_OK;
    }
    return failed;
}

int main(void) {
    for (int n = 0; n < ROWS * DIM; n++) {
        query[n] = (float)(n * 7 % 13) / 13, key[n] = (float)(n * 5 % 17) / 17;
        value[n] = (float)(n / DIM % POSITIONS);  // the number of its position
    }
    if (run(1, by_one) || run(RANKS, by_three)) return 1;
    printf("%d ranks: %s as one rank\n", RANKS, memcmp(by_one, by_three, sizeof by_one) == 0 ? "the same bits" : "other bits");
    printf("position 0 sees itself alone: %g\n", by_three[0]);
    return 0;
}
