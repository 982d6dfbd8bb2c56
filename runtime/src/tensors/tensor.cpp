// SPDX-License-Identifier: MIT
#include "attune/tensor.h"

namespace attune {

const char *name_of(DType t) noexcept {
    switch (t) {
    case DType::f32: return "f32";
    case DType::f64: return "f64";
    case DType::i32: return "i32";
    case DType::boolean: return "bool";
    case DType::bf16: return "bf16";
    case DType::f16: return "f16";
    case DType::i8: return "i8";
    case DType::u8: return "u8";
    case DType::i64: return "i64";
    }
    return "?";
}

int size_of(DType t) noexcept {
    switch (t) {
    case DType::f64:
    case DType::i64: return 8;
    case DType::boolean:
    case DType::i8:
    case DType::u8: return 1;
    case DType::bf16:
    case DType::f16: return 2;
    default: return 4;
    }
}

}  // namespace attune
