// SPDX-License-Identifier: MIT
// Attention in C: three queries in each of two batch entries, of 2 and 6 keys; query i sees key j where j <= i. Keys are
// all alike, so the result of a query is the mean of the values that it sees.
#include <attune/attune_c.h>
#include <stdio.h>

int main(void) {
    float query[2 * 3 * 2], key[2 * 10 * 2], value[10 * 4], out[2 * 3 * 4], lse[2 * 3];
    for (int n = 0; n < 2 * 3 * 2; n++) query[n] = 1;
    for (int n = 0; n < 2 * 10 * 2; n++) key[n] = 1;
    for (int n = 0; n < 10 * 4; n++) value[n] = (float)n;
    const int32_t valid_lens[] = {2, 6};

    const attune_tensor q = attune_dense(query, ATTUNE_F32, 3, (const int64_t[]){2, 3, 2});  // (B, Sq, D)
    const attune_tensor k = attune_dense(key, ATTUNE_F32, 3, (const int64_t[]){2, 10, 2});   // (B, Sk, D)
    attune_tensor v = attune_dense(value, ATTUNE_F32, 3, (const int64_t[]){2, 10, 4});       // (B, Sk, Dv)
    v.strides[0] = 0;  // the batch entries share their values
    const attune_tensor o = attune_dense(out, ATTUNE_F32, 3, (const int64_t[]){2, 3, 4});
    const attune_tensor l = attune_dense(lse, ATTUNE_F32, 2, (const int64_t[]){2, 3});
    const attune_tensor lens = attune_dense(valid_lens, ATTUNE_I32, 1, (const int64_t[]){2});

    attune_context *context;
    attune_status status = attune_context_create(NULL, &context);  // all cores
    attune_sdpa_options options = ATTUNE_SDPA_OPTIONS_INIT;
    options.causal = ATTUNE_CAUSAL_TOP_LEFT;
    options.valid_lens = &lens;
    options.lse = &l;
    if (status == ATTUNE_OK) status = attune_scaled_dot_product_attention(context, &q, &k, &v, &o, &options);
    if (status != ATTUNE_OK) {
        fprintf(stderr, "%s\n", attune_last_message(context));
        attune_context_destroy(context);
        return 1;
    }
    for (int n = 0; n < 2 * 3; n++) {
        const float *row = out + 4 * n;
        printf("[%g,%g,%g,%g] lse %.4f\n", row[0], row[1], row[2], row[3], lse[n]);
    }

    // A call that is refused has written nothing, and says why.
    v.extents[1] = 9;
    if (attune_scaled_dot_product_attention(context, &q, &k, &v, &o, NULL) != ATTUNE_OK)
        printf("refused: %s\n", attune_last_message(context));
    attune_context_destroy(context);
    return 0;
}
