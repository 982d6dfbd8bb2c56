#include "attune/tensor.h"

namespace attune {

const char *name_of(DType t) noexcept {
    switch (t) {
    case DType::f32: return "f32";
    case DType::f64: return "f64";
    case DType::i32: return "i32";
    case DType::boolean: return "bool";
    }
    return "?";
}

int size_of(DType t) noexcept { return t == DType::f64 ? 8 : t == DType::boolean ? 1 : 4; }

}  // namespace attune
