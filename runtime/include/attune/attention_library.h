// What libraries of users' attention are written with by attune_add_attention(), and archives of tuned variants by
// attune_add_variants(). Call attention through the header that is made for it, <name>.h (docs/write-your-own-attention.md); of
// this one only BlockMask is meant to be used by hand.
#pragma once
#include "attune/sdpa_backward.h"
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace attune {

// Elements that the caller owns, one after another: std::span for headers of C++17.
template<typename T> class ArrayView {
public:
    constexpr ArrayView() = default;
    constexpr ArrayView(T *data, std::size_t size) : data_(data), size_(size) {}
    template<std::size_t count> constexpr ArrayView(T (&array)[count]) : ArrayView(array, count) {}
    // A vector, or a std::span.
    template<typename Elements,
             typename = std::enable_if_t<std::is_convertible_v<decltype(std::declval<Elements &>().data()), T *>>>
    constexpr ArrayView(Elements &&elements) : ArrayView(elements.data(), elements.size()) {}

    constexpr T *data() const { return data_; }
    constexpr std::size_t size() const { return size_; }
    constexpr bool empty() const { return size_ == 0; }
    constexpr T *begin() const { return data_; }
    constexpr T *end() const { return data_ + size_; }
    constexpr T &operator[](std::size_t n) const { return data_[n]; }

private:
    T *data_ = nullptr;
    std::size_t size_ = 0;
};

// Which blocks of pairs a mask leaves out, kept from call to call: what a user's mask says is asked once and not in each call.
// Give the same object to calls of the same sizes with the same captures; clear() it when a captured buffer changes. One call at
// a time.
class BlockMask {
public:
    void clear() { tables_.clear(); }

private:
    friend class BlockMaskTables;
    struct Table {
        std::vector<std::int64_t> key;  // what it was made for
        std::vector<std::int32_t> blocks;
    };
    std::vector<Table> tables_;
};

// A kernel that is linked in.
struct VariantRecord {
    std::string_view name, op;
    DType dtype;
    int head_dim;  // 0: any
    std::string_view target, schedule, shape_class, kind, numbers, provenance;
    int tile_q, chunk;  // of numbers; 1 where the schedule has none
    bool dispatched;
    int (*kernel)(void **);
};

// A capture of the struct. Rank 0: a number.
struct CaptureRecord {
    std::string_view name;
    bool of_scores;  // f64 for f64, else f32; dtype otherwise
    DType dtype;
    int rank;
    // Whether each element is read by one batch entry, or query head, alone; and whether it has a gradient.
    bool by_batch, by_head, has_gradient;
};

struct AttentionRecord {
    std::string_view name, op, backward_op;  // ops of the variants: user_<name>, which no op of the library is named
    ArrayView<const CaptureRecord> captures;
    bool has_mask, mask_by_batch, mask_by_head;
    ArrayView<const VariantRecord> variants;
};

// Registers variants: variants() lists them, and dispatch finds them. One that has the name of a variant of the library, or of
// one that was registered before, takes its place. The records are kept by reference and are never given back.
class VariantRegistration {
public:
    explicit VariantRegistration(ArrayView<const VariantRecord>) noexcept;
};

// The same of an attention's, which find_attention() gives from then on.
class AttentionRegistration {
public:
    explicit AttentionRegistration(const AttentionRecord &) noexcept;
};
// By its op, or that of its gradients; the latest registered. Null if there is none.
const AttentionRecord *find_attention(std::string_view op) noexcept;

// What the caller gives for a capture: a buffer, or a number.
struct CaptureArgument {
    ConstView buffer = {};
    std::optional<double> number = {};
};

Status run_user_attention(Context &, const AttentionRecord &, const ConstView &query, const ConstView &key,
                          const ConstView &value, const View &out, const SdpaOptions &, ArrayView<const CaptureArgument>,
                          BlockMask *) noexcept;
// grad_captures: one for each capture; not given where it is not wanted.
Status run_user_attention_backward(Context &, const AttentionRecord &, const ConstView &query, const ConstView &key,
                                   const ConstView &value, const SdpaForward &, const SdpaGradients &,
                                   ArrayView<const View> grad_captures, const SdpaOptions &, ArrayView<const CaptureArgument>,
                                   BlockMask *) noexcept;

}  // namespace attune
