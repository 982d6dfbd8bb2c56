// SPDX-License-Identifier: MIT
// The safetensors format: 8 bytes that hold the length of a JSON header, the header, and the tensors one after another.
#include "weights.h"
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

namespace language_model {
namespace {

// A reader of the JSON that such headers consist of: objects, strings, lists of integers.
class HeaderReader {
public:
    explicit HeaderReader(std::string_view text) : text_(text) {}

    // The next character that is no space, if it is `wanted`; then it is taken.
    bool take(char wanted) {
        while (at_ < text_.size() && std::strchr(" \t\r\n", text_[at_])) at_++;
        if (at_ == text_.size() || text_[at_] != wanted) return false;
        at_++;
        return true;
    }
    void expect(char wanted) {
        if (!take(wanted)) throw Failure(std::string("expected '") + wanted + "' at byte " + std::to_string(at_));
    }
    std::string string() {
        expect('"');
        std::string out;
        for (; at_ < text_.size() && text_[at_] != '"'; at_++) {
            if (text_[at_] == '\\' && ++at_ == text_.size()) break;
            out += text_[at_];
        }
        expect('"');
        return out;
    }
    std::vector<std::int64_t> integers() {
        std::vector<std::int64_t> out;
        expect('[');
        if (take(']')) return out;
        do {
            while (at_ < text_.size() && text_[at_] == ' ') at_++;
            std::int64_t number = 0;
            const std::size_t first = at_;
            for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; at_++) {
                if (number > INT64_MAX / 10 - 1) throw Failure("a number at byte " + std::to_string(at_) + " is too large");
                number = number * 10 + (text_[at_] - '0');
            }
            if (at_ == first) throw Failure("expected a number at byte " + std::to_string(at_));
            out.push_back(number);
        } while (take(','));
        expect(']');
        return out;
    }
    // Calls `member` with each name of an object, to read its value.
    template<typename Member> void object(Member member) {
        expect('{');
        if (take('}')) return;
        do {
            const std::string name = string();
            expect(':');
            member(name);
        } while (take(','));
        expect('}');
    }

private:
    std::string_view text_;
    std::size_t at_ = 0;
};

attune::DType type_of(const std::string &name) {
    if (name == "F32") return attune::DType::f32;
    if (name == "BF16") return attune::DType::bf16;
    throw Failure("a tensor is of type " + name + ", which must be F32 or BF16");
}

}  // namespace

Weights::Weights(const std::string &path) : path_(path) {
    const int file = open(path.c_str(), O_RDONLY);
    if (file < 0) throw Failure(path + ": " + std::strerror(errno));
    struct stat about = {};
    void *mapped = MAP_FAILED;
    if (fstat(file, &about) == 0 && about.st_size > 8)
        mapped = mmap(nullptr, std::size_t(about.st_size), PROT_READ, MAP_PRIVATE, file, 0);
    close(file);
    if (mapped == MAP_FAILED) throw Failure(path + ": is no file that can be mapped");
    file_ = static_cast<const char *>(mapped), size_ = std::size_t(about.st_size), mapped_ = true;
    try {
        read();
    } catch (const Failure &) {
        munmap(mapped, size_);
        throw;
    }
}

Weights::Weights(std::string_view bytes, const std::string &name) : path_(name), file_(bytes.data()), size_(bytes.size()) {
    read();
}

void Weights::read() {
    try {
        if (size_ <= 8) throw Failure("is no safetensors file: it is too short");
        std::uint64_t length = 0;
        std::memcpy(&length, file_, 8);
        if (length > size_ - 8) throw Failure("is no safetensors file: its header is longer than the file");
        data_ = 8 + std::size_t(length);
        read_header({file_ + 8, std::size_t(length)});
    } catch (const Failure &failure) {
        throw Failure(path_ + ": " + failure.what());
    }
}

Weights::~Weights() {
    if (mapped_) munmap(const_cast<char *>(file_), size_);
}

void Weights::read_header(std::string_view header) {
    HeaderReader in(header);
    in.object([&](const std::string &name) {
        if (name == "__metadata__") return in.object([&](const std::string &key) { metadata_[key] = in.string(); });
        attune::DType type = attune::DType::f32;
        std::vector<std::int64_t> shape, bytes;
        in.object([&](const std::string &key) {
            if (key == "dtype")
                type = type_of(in.string());
            else if (key == "shape")
                shape = in.integers();
            else if (key == "data_offsets")
                bytes = in.integers();
            else
                throw Failure("unknown entry " + key + " of tensor " + name);
        });
        if (shape.empty() || shape.size() > 2 || bytes.size() != 2)
            throw Failure("tensor " + name + " must have one or two extents");
        std::int64_t needed = attune::size_of(type);
        for (const std::int64_t extent : shape) {
            if (extent > std::int64_t(size_)) throw Failure("tensor " + name + " is larger than the file");
            needed *= extent;
        }
        if (bytes[0] > bytes[1] || bytes[1] - bytes[0] != needed || std::size_t(bytes[1]) > size_ - data_)
            throw Failure("tensor " + name + " does not lie within the file");
        attune::ConstView view(reinterpret_cast<const float *>(file_ + data_ + bytes[0]), shape);
        view.dtype = type;
        tensors_[name] = view;
    });
}

attune::ConstView Weights::tensor(const std::string &name) const {
    const auto found = tensors_.find(name);
    if (found == tensors_.end()) throw Failure(path_ + ": there is no tensor " + name);
    return found->second;
}

double Weights::number(const std::string &key) const {
    const auto found = metadata_.find(key);
    if (found == metadata_.end()) throw Failure(path_ + ": the metadata has no " + key + " (convert.py writes it)");
    return std::strtod(found->second.c_str(), nullptr);
}

}  // namespace language_model
