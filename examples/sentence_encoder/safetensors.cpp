// SPDX-License-Identifier: MIT
#include "safetensors.h"
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <stdexcept>
#include <string_view>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace sentence_encoder {
namespace {

// Reader of the header's JSON: {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...}.
class Json {
public:
    explicit Json(std::string_view text) : text_(text) {}

    // Calls member(name) behind the colon of each member, which it reads.
    template<typename Member> void object(const Member &member) {
        expect('{');
        if (take('}')) return;
        do {
            const std::string name = string();
            expect(':');
            member(name);
        } while (take(','));
        expect('}');
    }
    std::vector<std::uint64_t> numbers() {
        std::vector<std::uint64_t> all;
        expect('[');
        if (take(']')) return all;
        do all.push_back(number());
        while (take(','));
        expect(']');
        return all;
    }
    std::string string() {
        expect('"');
        std::string s;
        while (at_ < text_.size() && text_[at_] != '"') {
            if (text_[at_] == '\\') at_++;  // names of tensors have no escapes but of quotes and backslashes
            if (at_ < text_.size()) s += text_[at_++];
        }
        expect('"');
        return s;
    }

private:
    std::uint64_t number() {
        space();
        std::uint64_t n = 0;
        const std::size_t first = at_;
        while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') {
            if (n > (UINT64_MAX - 9) / 10) fail("a number of its header is too large");
            n = n * 10 + std::uint64_t(text_[at_++] - '0');
        }
        if (at_ == first) fail("its header has no number where one is due");
        return n;
    }
    void space() {
        while (at_ < text_.size() && std::strchr(" \t\r\n", text_[at_])) at_++;
    }
    bool take(char c) {
        space();
        if (at_ >= text_.size() || text_[at_] != c) return false;
        at_++;
        return true;
    }
    void expect(char c) {
        if (!take(c)) fail(std::string("its header lacks '") + c + "' at byte " + std::to_string(at_));
    }
    [[noreturn]] static void fail(const std::string &what) { throw std::runtime_error(what); }

    std::string_view text_;
    std::size_t at_ = 0;
};

std::string text_of(const Shape &shape) {
    std::string text = "(";
    for (std::int64_t n : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(n);
    return text + ")";
}

}  // namespace

Safetensors::Safetensors(const std::string &path) : path_(path) {
    const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    struct stat status {};
    if (file < 0 || fstat(file, &status) != 0) {
        if (file >= 0) close(file);
        fail(std::strerror(errno));
    }
    size_ = std::uint64_t(status.st_size);
    void *const map = size_ > 0 ? mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file, 0) : MAP_FAILED;
    close(file);
    if (map == MAP_FAILED) fail("cannot be mapped");
    bytes_ = static_cast<const char *>(map), mapped_ = true;
    try {
        read_header();
    } catch (const std::runtime_error &e) {
        munmap(map, size_);
        fail(e.what());
    }
}

Safetensors::Safetensors(std::string_view bytes, const std::string &name)
    : path_(name), bytes_(bytes.data()), size_(bytes.size()) {
    try {
        read_header();
    } catch (const std::runtime_error &e) {
        fail(e.what());
    }
}

Safetensors::~Safetensors() {
    if (mapped_) munmap(const_cast<char *>(bytes_), size_);
}

void Safetensors::fail(const std::string &what) const { throw std::runtime_error(path_ + ": " + what); }

void Safetensors::read_header() {
    std::uint64_t length = 0;  // little-endian, as every machine that attune has kernels for
    if (size_ < sizeof length) throw std::runtime_error("is too short for safetensors");
    std::memcpy(&length, bytes_, sizeof length);
    if (length > size_ - sizeof length) throw std::runtime_error("is shorter than its header");
    first_ = sizeof length + length;
    Json json(std::string_view(bytes_ + sizeof length, length));
    json.object([&](const std::string &name) {
        if (name == "__metadata__") return json.object([&](const std::string &) { json.string(); });
        Entry &e = entries_[name];
        json.object([&](const std::string &member) {
            if (member == "dtype") {
                e.type = json.string();
                return;
            }
            const std::vector<std::uint64_t> numbers = json.numbers();
            if (member == "shape") e.shape.assign(numbers.begin(), numbers.end());
            if (member == "data_offsets" && numbers.size() == 2) e.begin = numbers[0], e.end = numbers[1];
        });
        if (e.begin > e.end || e.end > size_ - first_) throw std::runtime_error(name + " reaches beyond the end of the file");
    });
}

Tensor Safetensors::tensor(const std::string &name, std::size_t rank) const {
    const auto found = entries_.find(name);
    if (found == entries_.end()) fail("has no tensor " + name);
    const Entry &e = found->second;
    if (e.type != "F32") fail(name + " is " + e.type + ", expected F32");
    if (e.shape.size() != rank) fail(name + " has shape " + text_of(e.shape) + ", expected rank " + std::to_string(rank));
    std::uint64_t bytes = sizeof(float);
    for (std::int64_t n : e.shape)
        if (n < 1 || __builtin_mul_overflow(bytes, std::uint64_t(n), &bytes)) fail(name + " has shape " + text_of(e.shape));
    if (bytes != e.end - e.begin) fail(name + " has " + std::to_string(e.end - e.begin) + " bytes, not those of its shape");
    const char *const data = bytes_ + first_ + e.begin;
    if (reinterpret_cast<std::uintptr_t>(data) % alignof(float) != 0) fail(name + " is not aligned");
    return {reinterpret_cast<const float *>(data), e.shape};
}

Tensor Safetensors::tensor(const std::string &name, const Shape &shape) const {
    Tensor t = tensor(name, shape.size());
    if (t.shape != shape) fail(name + " has shape " + text_of(t.shape) + ", expected " + text_of(shape));
    return t;
}

}  // namespace sentence_encoder
