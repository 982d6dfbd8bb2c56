// SPDX-License-Identifier: MIT
#include "tools/files/input_file.h"
#include "tools/error.h"
#include <cerrno>
#include <cstring>
#include <filesystem>

namespace attune::program {

std::ifstream open_input(const std::string &argument, const std::string &path, std::uint64_t &bytes) {
    const auto fail = [&](const std::string &what) { throw InputError(argument, path + ": " + what); };
    namespace fs = std::filesystem;
    std::error_code error;
    const fs::file_status status = fs::status(path, error);
    if (status.type() == fs::file_type::not_found) fail("no such file");
    if (error) fail(error.message());
    if (fs::is_directory(status)) fail("is a directory");
    if (!fs::is_regular_file(status)) fail("is not a regular file");
    bytes = fs::file_size(path, error);
    if (error) fail(error.message());
    errno = 0;
    std::ifstream stream(path, std::ios::binary);
    if (!stream) fail(std::string("cannot be opened: ") + std::strerror(errno));
    return stream;
}

}  // namespace attune::program
