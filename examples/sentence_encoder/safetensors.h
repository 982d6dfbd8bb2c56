// SPDX-License-Identifier: MIT
// File of weights in the format safetensors, mapped into memory: tensors are read where they lie.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace sentence_encoder {

using Shape = std::vector<std::int64_t>;

// f32 elements within the mapped file, which must outlive them.
struct Tensor {
    const float *data = nullptr;
    Shape shape;
};

class Safetensors {
public:
    // Throws std::runtime_error with a line that names the file.
    explicit Safetensors(const std::string &path);
    // The bytes of such a file, which outlive this object; messages call them `name`.
    Safetensors(std::string_view bytes, const std::string &name);
    ~Safetensors();
    Safetensors(const Safetensors &) = delete;
    Safetensors &operator=(const Safetensors &) = delete;

    bool has(const std::string &name) const { return entries_.count(name) != 0; }
    // A tensor of f32 and of this rank; throws std::runtime_error if the file has no such tensor.
    Tensor tensor(const std::string &name, std::size_t rank) const;
    // The same of known extents.
    Tensor tensor(const std::string &name, const Shape &) const;

private:
    struct Entry {
        std::string type;
        Shape shape;
        std::uint64_t begin = 0, end = 0;  // bytes behind the header
    };
    void read_header();
    [[noreturn]] void fail(const std::string &what) const;

    std::string path_;
    bool mapped_ = false;
    const char *bytes_ = nullptr;
    std::uint64_t size_ = 0, first_ = 0;  // bytes of the file; where the tensors begin
    std::map<std::string, Entry> entries_;
};

}  // namespace sentence_encoder
