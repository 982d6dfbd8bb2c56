// SPDX-License-Identifier: MIT
// Records as lines of JSON, and the file they are appended to.
#include "records.h"
#include "tools/error.h"
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace attune::tune {
namespace {
using nlohmann::json, nlohmann::ordered_json;
using program::InputError, program::MachineError;

// Fields of a key in a file, each named once: `field(name, member)` for all members.
template<typename Key, typename Field> void each_of_key(Key &key, Field field) {
    field("target", key.target), field("hardware", key.hardware);
    field("algorithm", key.algorithm), field("halide", key.halide);
    field("op", key.op), field("dtype", key.dtype), field("schedule", key.schedule), field("class", key.shape_class);
    field("kind", key.kind), field("head_dim", key.head_dim), field("threads", key.threads);
    field("mask", key.mask), field("group", key.group);
    field("log2_queries", key.log2_queries), field("log2_keys", key.log2_keys);
    field("shape", key.shape), field("baseline", key.baseline), field("cold", key.cold);
}

template<typename Measured, typename Field> void each_of_record(Measured &record, Field field) {
    field("parameters", record.parameters), field("verdict", record.verdict), field("reason", record.reason);
    field("ratios", record.ratios), field("seconds", record.seconds), field("error_ratio", record.error_ratio);
    field("object", record.object), field("foreign_load", record.foreign_load), field("when", record.when);
}

template<typename T> void read_field(const json &object, const char *name, T &value) {
    if (!object.contains(name)) throw std::runtime_error("has no \"" + std::string(name) + "\"");
    try {
        object.at(name).get_to(value);
    } catch (const json::exception &) {
        throw std::runtime_error("\"" + std::string(name) + "\" is " + object.at(name).dump());
    }
}

Record record_of(const json &line) {
    if (!line.is_object() || !line.contains("key") || !line.at("key").is_object())
        throw std::runtime_error("is no record: it has no \"key\"");
    Record record;
    std::size_t fields = 0;
    each_of_key(record.key, [&](const char *name, auto &value) { read_field(line.at("key"), name, value), fields++; });
    // An unknown field would make different measurements equal.
    if (line.at("key").size() != fields) throw std::runtime_error("\"key\" has fields that are not known here");
    each_of_record(record, [&](const char *name, auto &value) { read_field(line, name, value); });
    bool known = false;
    for (const char *verdict : {"timed", "rejected", "timeout", "compile_error"}) known = known || record.verdict == verdict;
    if (!known) throw std::runtime_error("\"verdict\" is \"" + record.verdict + "\"");
    return record;
}

// Whether a line ends in the middle, as after a writer was killed: its only fault is its end.
bool cut_off(const std::string &line, const json::parse_error &error) { return error.byte > line.size(); }

}  // namespace

ordered_json json_of(const Record &record) {
    ordered_json key, line;
    each_of_key(record.key, [&](const char *name, const auto &value) { key[name] = value; });
    line["key"] = key;
    each_of_record(record, [&](const char *name, const auto &value) { line[name] = value; });
    return line;
}

std::vector<Record> read_records(const std::string &file) {
    if (!std::filesystem::exists(file)) return {};
    std::ifstream in(file, std::ios::binary);
    if (!in) throw InputError(file, "cannot be read");
    return read_records(in, file);
}

std::vector<Record> read_records(std::istream &in, const std::string &file) {
    std::vector<Record> records;
    std::string line;
    for (int number = 1; std::getline(in, line); number++) {
        if (line.find_first_not_of(" \r") == std::string::npos) continue;
        try {
            records.push_back(record_of(json::parse(line)));
        } catch (const json::parse_error &error) {
            if (!cut_off(line, error)) throw InputError(file, "line " + std::to_string(number) + ": is not JSON");
        } catch (const json::exception &error) {  // a number that overflows
            throw InputError(file, "line " + std::to_string(number) + ": " + error.what());
        } catch (const std::runtime_error &error) {
            throw InputError(file, "line " + std::to_string(number) + ": " + error.what());
        }
    }
    if (in.bad()) throw MachineError(file, "cannot be read");
    return records;
}

namespace {
[[noreturn]] void cannot_write(const std::string &file) {
    throw MachineError(file, std::string("cannot be written: ") + std::strerror(errno));
}

void write_all(int file, const std::string &name, const std::string &text) {
    for (std::size_t done = 0; done < text.size();) {
        const ssize_t now = write(file, text.data() + done, text.size() - done);
        if (now < 0 && errno != EINTR) cannot_write(name);
        done += now < 0 ? 0 : std::size_t(now);
    }
}

// Synchronises the folder of a file, so that the file's name is on the disk.
void synchronise_folder_of(const std::string &name) {
    const auto folder = std::filesystem::absolute(name).parent_path();
    const int file = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (file < 0) cannot_write(name);
    const bool done = fsync(file) == 0 || errno == EINVAL;  // EINVAL: some file systems do it by themselves
    close(file);
    if (!done) cannot_write(name);
}

class Locked {
public:
    Locked(int file, const std::string &name) : file_(file) {
        while (flock(file, LOCK_EX) != 0)
            if (errno != EINTR) cannot_write(name);
    }
    ~Locked() { flock(file_, LOCK_UN); }
    Locked(const Locked &) = delete;
    Locked &operator=(const Locked &) = delete;

private:
    int file_;
};
}  // namespace

RecordLog::RecordLog(const std::string &file)
    : file_(open(file.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0666)), name_(file) {
    if (file_ < 0) cannot_write(name_);
    try {
        synchronise_folder_of(name_);
    } catch (...) {
        close(file_);
        throw;
    }
}

RecordLog::~RecordLog() { close(file_); }

void RecordLog::append(const Record &record) { append(json_of(record)); }

void RecordLog::append(const ordered_json &json) {
    std::string line = json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
    const Locked lock(file_, name_);
    // A line that a killed writer left unfinished must not be the start of this one.
    struct stat now;
    if (fstat(file_, &now) != 0) cannot_write(name_);
    char last = '\n';
    if (now.st_size > 0 && pread(file_, &last, 1, now.st_size - 1) != 1) cannot_write(name_);
    if (last != '\n') line = "\n" + line;
    write_all(file_, name_, line);
    if (fsync(file_) != 0 && errno != EINVAL) cannot_write(name_);  // a pipe or /dev/null has no disk
}

}  // namespace attune::tune
