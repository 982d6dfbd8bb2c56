// SPDX-License-Identifier: MIT
// Bytes as a file of weights in the format safetensors: the reader of an example reads them or refuses them by an exception, an
// even number of bytes that of the sentence encoder, else that of the language model. Elements of each tensor lie in the file.
#include "examples/sentence_encoder/safetensors.h"
#include "examples/language_model/weights.h"
#include <stdexcept>
#include <string_view>

namespace {
// A sum, so that every element is loaded.
template<typename T> void load(const T *data, std::int64_t count) {
    volatile unsigned sum = 0;
    const auto *bytes = reinterpret_cast<const unsigned char *>(data);
    for (std::int64_t n = 0; n < count * std::int64_t(sizeof(T)); n++) sum = sum + bytes[n];
}

constexpr const char *names[] = {"a", "weight", "model.norm.weight", ""};

void read_by_sentence_encoder(std::string_view bytes) {
    const sentence_encoder::Safetensors weights(bytes, "bytes");
    for (const char *name : names)
        for (std::size_t rank = 0; rank < 4 && weights.has(name); rank++) {
            try {
                const sentence_encoder::Tensor tensor = weights.tensor(name, rank);
                std::int64_t elements = 1;
                for (const std::int64_t extent : tensor.shape) elements *= extent;
                load(tensor.data, elements);
            } catch (const std::runtime_error &) {}
        }
}

void read_by_language_model(std::string_view bytes) {
    const language_model::Weights weights(bytes, "bytes");
    for (const char *name : names) {
        if (!weights.has(name)) continue;
        const attune::ConstView v = weights.tensor(name);
        std::int64_t elements = 1;
        for (int n = 0; n < v.rank; n++) elements *= v.extent[n];
        load(static_cast<const char *>(v.data), elements * attune::size_of(v.dtype));
    }
    weights.number("layers");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *bytes, std::size_t count) {
    const std::string_view file(reinterpret_cast<const char *>(bytes), count);
    try {
        if (count % 2 == 0)
            read_by_sentence_encoder(file);
        else
            read_by_language_model(file);
    } catch (const std::runtime_error &) {}
    return 0;
}
