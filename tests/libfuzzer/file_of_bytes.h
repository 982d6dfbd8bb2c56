// SPDX-License-Identifier: MIT
// A file in memory that holds the bytes of one execution, for readers that take a path.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <sys/mman.h>
#include <unistd.h>

class FileOfBytes {
public:
    FileOfBytes(const std::uint8_t *bytes, std::size_t count) : file_(memfd_create("libfuzzer", 0)) {
        if (file_ < 0 || write(file_, bytes, count) != ssize_t(count)) std::abort();
    }
    ~FileOfBytes() { close(file_); }
    FileOfBytes(const FileOfBytes &) = delete;
    FileOfBytes &operator=(const FileOfBytes &) = delete;
    std::string path() const { return "/proc/self/fd/" + std::to_string(file_); }

private:
    int file_;
};
