// SPDX-License-Identifier: MIT
// DLPack's structures (version 1.x): arrays of other libraries, and the table of C functions that exchanges them without
// Python. The layout is that of the specification, https://dmlc.github.io/dlpack/latest.
#pragma once
#include <cstdint>

namespace attune_python::dlpack {

enum DeviceType : std::int32_t { cpu = 1, cuda = 2, cuda_host = 3, rocm_host = 11, cuda_managed = 13 };
enum TypeCode : std::uint8_t { integer = 0, unsigned_integer = 1, real = 2, bfloat = 4, boolean = 6 };
inline constexpr std::uint64_t read_only_flag = 1;

struct Version {
    std::uint32_t major, minor;
};
struct Device {
    std::int32_t type, id;
};
struct DataType {
    std::uint8_t code, bits;
    std::uint16_t lanes;
};
struct Tensor {
    void *data;
    Device device;
    std::int32_t rank;
    DataType type;
    std::int64_t *shape;
    std::int64_t *strides;  // in elements; null: dense
    std::uint64_t byte_offset;
};
struct Managed {  // capsule "dltensor"
    Tensor tensor;
    void *owner;
    void (*deleter)(Managed *);
};
struct ManagedVersioned {  // capsule "dltensor_versioned"
    Version version;
    void *owner;
    void (*deleter)(ManagedVersioned *);
    std::uint64_t flags;
    Tensor tensor;
};

// The table behind type(array).__dlpack_c_exchange_api__, capsule "dlpack_exchange_api".
struct ExchangeApi {
    Version version;
    ExchangeApi *previous;
    int (*allocate)(Tensor *prototype, ManagedVersioned **out, void *error,
                    void (*set_error)(void *, const char *, const char *));
    int (*from_object)(void *object, ManagedVersioned **out);
    int (*to_object)(ManagedVersioned *, void **object);
    int (*view_of_object)(void *object, Tensor *out);  // may be null
    int (*current_stream)(std::int32_t device_type, std::int32_t device_id, void **stream);
};

}  // namespace attune_python::dlpack
