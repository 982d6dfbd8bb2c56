// SPDX-License-Identifier: MIT
// Arrays from Python (attune_library.py has the same struct).
#pragma once
#include "attune/tensor.h"
#include <cstring>

extern "C" {
struct PeersTensor {
    void *data;
    std::int32_t dtype, rank, place;  // an attune::DType; rank 0: not given; an attune::Place
    std::int64_t extent[attune::max_rank], stride[attune::max_rank];
};
}

namespace bench {

template<typename View = attune::ConstView> View view(const PeersTensor &t) {
    View v;
    v.data = t.data, v.dtype = static_cast<attune::DType>(t.dtype), v.rank = t.rank;
    v.place = static_cast<attune::Place>(t.place);
    std::memcpy(v.extent, t.extent, sizeof(v.extent));
    std::memcpy(v.stride, t.stride, sizeof(v.stride));
    return v;
}

inline attune::View output(const PeersTensor &t) { return view<attune::View>(t); }

}  // namespace bench
