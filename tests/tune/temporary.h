// SPDX-License-Identifier: MIT
// A temporary folder of a test, removed at its end.
#pragma once
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <stdlib.h>
#include <string>

namespace attune::tune {

class TemporaryFolder {
public:
    TemporaryFolder() {
        std::string name = (std::filesystem::temp_directory_path() / "attune_tune_XXXXXX").string();
        if (!mkdtemp(name.data())) throw std::runtime_error("no folder for temporary files");
        path_ = name;
    }
    ~TemporaryFolder() { std::filesystem::remove_all(path_); }
    TemporaryFolder(const TemporaryFolder &) = delete;
    TemporaryFolder &operator=(const TemporaryFolder &) = delete;

    std::string path() const { return path_.string(); }
    std::string operator/(const std::string &name) const { return (path_ / name).string(); }
    std::string write(const std::string &name, const std::string &text) const {
        std::ofstream(*this / name, std::ios::binary) << text;
        return *this / name;
    }

private:
    std::filesystem::path path_;
};

}  // namespace attune::tune
