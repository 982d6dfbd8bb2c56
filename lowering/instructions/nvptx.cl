// SPDX-License-Identifier: MIT
// CUDA functions that kernels call by name, besides LLVM's. Compiled by clang, as OpenCL because its functions are convergent:
// operations of all lanes of a warp stay so. The programs that make kernels hold this module instead of Halide's, which has no
// product of matrices (cmake/attune_device.cmake). <name>x4: Halide's call for a vector of four.
typedef float Floats __attribute__((ext_vector_type(4)));
typedef unsigned Words __attribute__((ext_vector_type(4)));
#define ATTUNE_DEVICE __attribute__((always_inline, weak, const))

// a b + sum, of 16 x 16 and 16 x 8 elements; all lanes of a warp together. PTX ISA, "Matrix fragments for mma.m16n8k16".
#define ATTUNE_MULTIPLY(type) \
    ATTUNE_DEVICE Floats attune_multiply_##type##x4(Words a, Words b, Floats sum) { \
        float d0, d1, d2, d3; \
        __asm__("mma.sync.aligned.m16n8k16.row.col.f32." #type "." #type ".f32 " \
                "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};" \
                : "=f"(d0), "=f"(d1), "=f"(d2), "=f"(d3) \
                : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b.x), "r"(b.y), "f"(sum.x), "f"(sum.y), "f"(sum.z), "f"(sum.w)); \
        return (Floats){d0, d1, d2, d3}; \
    }
ATTUNE_MULTIPLY(f16)
ATTUNE_MULTIPLY(bf16)

// a b + sum, of 16 x 8 and 8 x 8 elements of f32, whose first 11 bits the instruction reads (tf32).
ATTUNE_DEVICE Floats attune_multiply_tf32(Words a, Words b, Floats sum) {
    float d0, d1, d2, d3;
    __asm__("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
            "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
            : "=f"(d0), "=f"(d1), "=f"(d2), "=f"(d3)
            : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b.x), "r"(b.y), "f"(sum.x), "f"(sum.y), "f"(sum.z), "f"(sum.w));
    return (Floats){d0, d1, d2, d3};
}
// f32 in two parts: the nearest tf32 and the remainder, 12 bits. A product is three products of parts, without that of the two
// remainders, 2^-24 of the whole on average. Infinite numbers, and numbers within 2^-12 of them, have remainders that make a
// NaN of any product.
ATTUNE_DEVICE Words attune_nearest_tf32(Words x) { return x + 0x1000u; }  // with bits that the instruction ignores
ATTUNE_DEVICE Words attune_behind_tf32(Words x) {
    union {
        Words as_words;
        Floats value;
    } all = {x}, nearest = {attune_nearest_tf32(x) & 0xffffe000u};
    all.value -= nearest.value;
    return all.as_words;
}
ATTUNE_DEVICE Floats attune_rest_f32(Words a, Words b, Floats sum) {
    sum = attune_multiply_tf32(attune_behind_tf32(a), attune_nearest_tf32(b), sum);
    return attune_multiply_tf32(attune_nearest_tf32(a), attune_behind_tf32(b), sum);
}
// Two products. The instruction truncates sums: theirs begins at 0, with the small terms, and is then added to `sum`.
ATTUNE_DEVICE Floats attune_multiply_f32x4(Words a0, Words a1, Words b0, Words b1, Floats sum) {
    Floats d = attune_rest_f32(a1, b1, attune_rest_f32(a0, b0, (Floats){0, 0, 0, 0}));
    d = attune_multiply_tf32(attune_nearest_tf32(a0), attune_nearest_tf32(b0), d);
    return sum + attune_multiply_tf32(attune_nearest_tf32(a1), attune_nearest_tf32(b1), d);
}

// One element of the product: calls with the same operands become one.
#define ATTUNE_ELEMENT(type) \
    ATTUNE_DEVICE float attune_element_##type(unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1, \
                                              float s0, float s1, float s2, float s3, int e) { \
        const Words a = {a0, a1, a2, a3}, b = {b0, b1, b0, b1}; \
        const Floats d = attune_multiply_##type##x4(a, b, (Floats){s0, s1, s2, s3}); \
        return e == 0 ? d.x : e == 1 ? d.y : e == 2 ? d.z : d.w; \
    }
ATTUNE_ELEMENT(f16)
ATTUNE_ELEMENT(bf16)
ATTUNE_DEVICE float attune_element_f32(unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned a4, unsigned a5,
                                       unsigned a6, unsigned a7, unsigned b0, unsigned b1, unsigned b2, unsigned b3, float s0,
                                       float s1, float s2, float s3, int e) {
    const Words first = {a0, a1, a2, a3}, second = {a4, a5, a6, a7}, first_b = {b0, b1, b0, b1}, second_b = {b2, b3, b2, b3};
    const Floats d = attune_multiply_f32x4(first, second, first_b, second_b, (Floats){s0, s1, s2, s3});
    return e == 0 ? d.x : e == 1 ? d.y : e == 2 ? d.z : d.w;
}

// Functions that read or write shared memory, which changes: no two reads may become one.
#define ATTUNE_OF_MEMORY __attribute__((always_inline, weak, convergent))

// Four matrices of 8 x 8 elements of 16 bits, in rows of 16 bytes in shared memory. PTX ISA, "ldmatrix".
#define ATTUNE_MATRICES(name, how) \
    ATTUNE_OF_MEMORY Words name##x4(Words address, Words of) { \
        unsigned d0, d1, d2, d3; \
        __asm__ volatile("ldmatrix.sync.aligned.m8n8.x4" how ".shared.b16 {%0, %1, %2, %3}, [%4];" \
                         : "=r"(d0), "=r"(d1), "=r"(d2), "=r"(d3) \
                         : "r"(address.x) \
                         : "memory"); \
        return (Words){d0, d1, d2, d3}; \
    }
ATTUNE_MATRICES(attune_matrices, "")
ATTUNE_MATRICES(attune_matrices_transposed, ".trans")

// Copy of 16 bytes from global to shared memory, of which `given` are read and the others are 0; end of a group of copies; and
// wait for all groups but the last. PTX ISA, "cp.async".
ATTUNE_OF_MEMORY int attune_copy(unsigned to, unsigned long from, int given) {
    __asm__ volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(given) : "memory");
    return 0;
}
ATTUNE_OF_MEMORY int attune_close_copies(void) {
    __asm__ volatile("cp.async.commit_group;" ::: "memory");
    return 0;
}
ATTUNE_OF_MEMORY int attune_wait_for_copies(void) {
    __asm__ volatile("cp.async.wait_group 1;" ::: "memory");
    return 0;
}

// x as an unknown value of a turn of a loop.
ATTUNE_DEVICE unsigned attune_opaque(unsigned x, unsigned turn) {
    unsigned same;
    __asm__("mov.b32 %0, %1; // %2" : "=r"(same) : "r"(x), "r"(turn));
    return same;
}
ATTUNE_DEVICE Words attune_opaquex4(Words x, Words turn) {
    return (Words){attune_opaque(x.x, turn.x), attune_opaque(x.y, turn.x), attune_opaque(x.z, turn.x),
                   attune_opaque(x.w, turn.x)};
}

// Two floats, rounded to nearest, in one word.
#define ATTUNE_PAIR(type) \
    ATTUNE_DEVICE unsigned attune_pair_##type(float low, float high) { \
        unsigned pair; \
        __asm__("cvt.rn." #type "x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low)); \
        return pair; \
    }
ATTUNE_PAIR(f16)
ATTUNE_PAIR(bf16)

// Constants under the names that Halide calls.
#define ATTUNE_CONSTANT(name, bits) \
    ATTUNE_DEVICE float name(void) { \
        union { \
            unsigned as_bits; \
            float value; \
        } of = {bits}; \
        return of.value; \
    }
ATTUNE_CONSTANT(nan_f32, 0x7fc00000)
ATTUNE_CONSTANT(inf_f32, 0x7f800000)
ATTUNE_CONSTANT(neg_inf_f32, 0xff800000)
// Functions of numbers under the names that Halide calls, for scores that users write. libdevice has them, and Halide links it.
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#define ATTUNE_FUNCTION(name, of_libdevice) \
    float __nv_##of_libdevice##f(float); \
    double __nv_##of_libdevice(double); \
    ATTUNE_DEVICE float name##_f32(float x) { return __nv_##of_libdevice##f(x); } \
    ATTUNE_DEVICE double name##_f64(double x) { return __nv_##of_libdevice(x); }
ATTUNE_FUNCTION(floor, floor)
ATTUNE_FUNCTION(ceil, ceil)
ATTUNE_FUNCTION(round, rint)
ATTUNE_FUNCTION(trunc, trunc)
ATTUNE_FUNCTION(sqrt, sqrt)
ATTUNE_FUNCTION(sin, sin)
ATTUNE_FUNCTION(cos, cos)
ATTUNE_FUNCTION(tan, tan)
ATTUNE_FUNCTION(asin, asin)
ATTUNE_FUNCTION(acos, acos)
ATTUNE_FUNCTION(atan, atan)
ATTUNE_FUNCTION(sinh, sinh)
ATTUNE_FUNCTION(asinh, asinh)
ATTUNE_FUNCTION(acosh, acosh)
ATTUNE_FUNCTION(atanh, atanh)
// Halide looks the barrier up among the functions of this module.
__attribute__((always_inline, weak, convergent)) void attune_barrier(void) { __syncthreads(); }
