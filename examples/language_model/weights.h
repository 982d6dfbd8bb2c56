// SPDX-License-Identifier: MIT
// Tensors of a safetensors file, which is mapped: a tensor is read from the disk when it is first used.
#pragma once
#include "tensors.h"
#include <map>
#include <string>
#include <string_view>

namespace language_model {

class Weights {
public:
    explicit Weights(const std::string &path);
    // The bytes of such a file, which outlive this object; messages call them `name`.
    Weights(std::string_view bytes, const std::string &name);
    ~Weights();
    Weights(const Weights &) = delete;
    Weights &operator=(const Weights &) = delete;

    bool has(const std::string &name) const { return tensors_.count(name) > 0; }
    // The tensor as it lies in the file: f32 or bf16, dense. The view is valid as long as this object.
    attune::ConstView tensor(const std::string &name) const;
    // A number of the file's metadata, such as "layers".
    double number(const std::string &key) const;

private:
    void read();
    void read_header(std::string_view header);
    std::string path_;
    bool mapped_ = false;
    const char *file_ = nullptr;
    std::size_t size_ = 0, data_ = 0;  // bytes; where the tensors begin
    std::map<std::string, attune::ConstView> tensors_;
    std::map<std::string, std::string> metadata_;
};

}  // namespace language_model
