// SPDX-License-Identifier: MIT
// Tensors of DLPack, element types, and conversions of 16-bit types.
#include "attune/half.h"
#include "c_api/run.h"
#include "c_api/structs.h"
#include <algorithm>
#include <cstdint>

using namespace attune;
using namespace attune::c_api;

static_assert(offsetof(attune_dl_tensor, device) == 8 && offsetof(attune_dl_tensor, ndim) == 16 &&
              offsetof(attune_dl_tensor, dtype) == 20 && offsetof(attune_dl_tensor, shape) == 24 &&
              offsetof(attune_dl_tensor, strides) == 32 && offsetof(attune_dl_tensor, byte_offset) == 40 &&
              sizeof(attune_dl_tensor) == 48);
static_assert(ATTUNE_TENSOR_DIMENSIONS >= max_rank);

namespace {

// A type of DLPack and ours.
struct TypeRow {
    int code, bits;
    attune_dtype dtype;
};
constexpr TypeRow dlpack_types[] = {{2, 32, ATTUNE_F32},  {2, 64, ATTUNE_F64}, {2, 16, ATTUNE_F16},
                                    {4, 16, ATTUNE_BF16}, {0, 8, ATTUNE_I8},   {0, 32, ATTUNE_I32},
                                    {0, 64, ATTUNE_I64},  {1, 8, ATTUNE_U8},   {6, 8, ATTUNE_BOOL}};

attune_dtype dtype_of_dlpack(const attune_dl_data_type &type, Reader &reader) {
    if (type.lanes != 1) reader.refuse({"dtype.lanes"}, "must be 1, got " + std::to_string(type.lanes));
    for (const TypeRow &row : dlpack_types)
        if (row.code == type.code && row.bits == type.bits) return row.dtype;
    reader.refuse({"dtype"}, "no element type has code " + std::to_string(type.code) + " and " + std::to_string(type.bits) +
                                 " bits of DLPack");
    return ATTUNE_F32;
}

attune_place place_of_dlpack(const attune_dl_device &device, Reader &reader) {
    constexpr int cpu = 1, cuda = 2, cuda_host = 3, cuda_managed = 13;
    switch (device.device_type) {
    case cpu:
    case cuda_host: return ATTUNE_HOST;
    case cuda:
    case cuda_managed: return ATTUNE_DEVICE;
    default:
        reader.refuse({"device"},
                      "must be the CPU (1, 3) or CUDA (2, 13), got type " + std::to_string(device.device_type) + " of DLPack");
        return ATTUNE_HOST;
    }
}

bool is_dtype(attune_dtype dtype) { return dtype >= ATTUNE_F32 && dtype <= ATTUNE_I64; }

}  // namespace

attune_status attune_from_dlpack(attune_context *context, const attune_dl_tensor *from, attune_tensor *to) {
    return run(context, [&](Reader &reader, Context &) -> Status {
        if (!reader.must_be_given(from, {"from"}) || !reader.must_be_given(to, {"to"})) return reader.status();
        attune_tensor tensor{};
        tensor.dtype = dtype_of_dlpack(from->dtype, reader);
        tensor.place = place_of_dlpack(from->device, reader);
        if (from->ndim < 1 || from->ndim > max_rank)  // rank 0 would mean: not given
            reader.refuse({"ndim"}, "must be from 1 to " + std::to_string(max_rank) + ", got " + std::to_string(from->ndim));
        else if (!from->shape)
            reader.refuse({"shape"}, "must be given");
        if (!reader.ok()) return reader.status();
        tensor.rank = from->ndim;
        std::copy_n(from->shape, tensor.rank, tensor.extents);
        const attune_tensor dense = attune_dense(nullptr, tensor.dtype, tensor.rank, from->shape);
        std::copy_n(from->strides ? from->strides : dense.strides, tensor.rank, tensor.strides);
        const std::uint64_t size = static_cast<std::uint64_t>(size_of(static_cast<DType>(tensor.dtype)));
        if (from->byte_offset % size)
            reader.refuse({"byte_offset"}, "must be a multiple of " + std::to_string(size) + ", the bytes of an element, got " +
                                               std::to_string(from->byte_offset));
        if (from->byte_offset > UINTPTR_MAX - reinterpret_cast<std::uintptr_t>(from->data))
            reader.refuse({"byte_offset"}, "must end within the address space, got " + std::to_string(from->byte_offset));
        if (reader.ok() && from->data) tensor.data = static_cast<char *>(from->data) + from->byte_offset;
        if (reader.ok()) *to = tensor;
        return reader.status();
    });
}

const char *attune_dtype_name(attune_dtype dtype) { return is_dtype(dtype) ? name_of(static_cast<DType>(dtype)) : nullptr; }
int32_t attune_dtype_size(attune_dtype dtype) { return is_dtype(dtype) ? size_of(static_cast<DType>(dtype)) : 0; }

float attune_bf16_to_float(uint16_t bits) { return to_float(bfloat16{bits}); }
float attune_f16_to_float(uint16_t bits) { return to_float(float16{bits}); }
uint16_t attune_bf16_from_double(double x) { return to_bfloat16(x).bits; }
uint16_t attune_f16_from_double(double x) { return to_float16(x).bits; }
