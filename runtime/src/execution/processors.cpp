// SPDX-License-Identifier: MIT
#include "execution/processors.h"
#include "execution/float_state.h"
#include <algorithm>
#include <atomic>
#include <charconv>
#include <cmath>
#include <fcntl.h>
#include <sched.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace attune {
namespace {

// Contents of a file; empty if there is no such file.
std::string contents_of(const std::string &path) {
    std::string all;
    const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) return all;
    char buffer[4096];
    try {
        for (ssize_t n; (n = read(file, buffer, sizeof buffer)) > 0;) all.append(buffer, static_cast<std::size_t>(n));
    } catch (...) {
        close(file);
        throw;
    }
    close(file);
    return all;
}

std::vector<std::string_view> split(std::string_view all, char at) {
    std::vector<std::string_view> parts;
    for (std::size_t end; !all.empty(); all.remove_prefix(std::min(end + 1, all.size()))) {
        end = std::min(all.find(at), all.size());
        parts.push_back(all.substr(0, end));
    }
    return parts;
}
bool has(const std::vector<std::string_view> &all, std::string_view one) {
    return std::find(all.begin(), all.end(), one) != all.end();
}

// A positive number, or 0 for any other text, such as "max" and "-1".
double number_at(std::string_view text) {
    long long n = 0;
    std::from_chars(text.data(), text.data() + text.size(), n);
    return n > 0 ? static_cast<double>(n) : 0;
}

// CPU quota of one group; 0: none, or there are no such files.
double quota_of(const std::string &group, bool version_2) {
    if (version_2) {
        const std::string text = contents_of(group + "/cpu.max");
        const auto numbers = split(text, ' ');
        const double period = numbers.size() == 2 ? number_at(numbers[1]) : 0;
        return period > 0 ? number_at(numbers[0]) / period : 0;
    }
    const double period = number_at(contents_of(group + "/cpu.cfs_period_us"));
    return period > 0 ? number_at(contents_of(group + "/cpu.cfs_quota_us")) / period : 0;
}

// The path of this process's group in a hierarchy: lines of /proc/self/cgroup are "0::/path" for version 2, and for version 1
// "4:cpu,cpuacct:/path".
std::string_view group_path(std::string_view cgroup_file, bool version_2) {
    for (const std::string_view line : split(cgroup_file, '\n')) {
        const std::size_t first = line.find(':'), second = line.find(':', first + 1);
        if (first == line.npos || second == line.npos) continue;
        const std::string_view controllers = line.substr(first + 1, second - first - 1);
        if (version_2 ? controllers.empty() : has(split(controllers, ','), "cpu")) return line.substr(second + 1);
    }
    return {};
}

// The path with the octal escapes of mountinfo replaced: a space is "\040".
std::string unescaped(std::string_view path) {
    std::string plain;
    for (std::size_t n = 0; n < path.size(); n++) {
        int code = 0;
        const char *digits = path.data() + n + 1;
        if (path[n] == '\\' && n + 3 < path.size() && std::from_chars(digits, digits + 3, code, 8).ptr == digits + 3)
            plain += static_cast<char>(code), n += 3;
        else
            plain += path[n];
    }
    return plain;
}

// A mount of CPU control groups: "<id> <parent> <device> <root> <mount point> <options> ... - <type> <source> <options>".
struct Mount {
    bool version_2;
    std::string root, point;
};
std::vector<Mount> cpu_mounts(std::string_view mountinfo) {
    std::vector<Mount> mounts;
    for (const std::string_view line : split(mountinfo, '\n')) {
        const auto fields = split(line, ' ');
        if (fields.size() < 6) continue;
        const auto separator = std::find(fields.begin() + 6, fields.end(), "-");  // after a number of optional fields
        if (fields.end() - separator < 4) continue;
        const std::string_view type = separator[1];
        if (type == "cgroup2" || (type == "cgroup" && has(split(separator[3], ','), "cpu")))
            mounts.push_back({type == "cgroup2", unescaped(fields[3]), unescaped(fields[4])});
    }
    return mounts;
}

// The group's path below the mount point. A container may mount its own group alone, which is then the root of the mount.
std::string path_below(const Mount &mount, std::string_view path) {
    if (path.find("/..") != path.npos) return {};  // outside of the process's cgroup namespace
    if (mount.root != "/") {
        if (!path.starts_with(mount.root)) return {};
        path.remove_prefix(mount.root.size());
    }
    if (!path.starts_with('/')) return {};
    while (path.ends_with('/')) path.remove_suffix(1);
    return std::string(path);
}

}  // namespace

int usable_cores() noexcept {
    // Linux refuses a set of fewer bits than it has processors; cpu_set_t has 1024.
    constexpr std::size_t most_processors = 1 << 16;
    cpu_set_t set[most_processors / CPU_SETSIZE];
    if (sched_getaffinity(0, sizeof set, set) == 0)
        if (const int count = CPU_COUNT_S(sizeof set, set); count > 0) return count;
    const unsigned cores = std::thread::hardware_concurrency();
    return cores ? static_cast<int>(cores) : 1;
}

double cpu_quota(const std::string &root) {
    const std::string groups = contents_of(root + "/proc/self/cgroup");
    double least = 0;
    for (const Mount &mount : cpu_mounts(contents_of(root + "/proc/self/mountinfo"))) {
        std::string below = path_below(mount, group_path(groups, mount.version_2));
        for (bool all = false; !all;) {
            all = below.empty();
            const double quota = quota_of(root + mount.point + below, mount.version_2);
            if (quota > 0 && (least == 0 || quota < least)) least = quota;
            if (!all) below.resize(below.rfind('/'));
        }
    }
    return least;
}

DefaultThreads default_threads(int processors, double quota) noexcept {
    DefaultThreads d{processors, "affinity", processors, quota};
    if (quota > 0 && std::ceil(quota) < d.threads)
        d.threads = static_cast<int>(std::ceil(quota)), d.limited_by = "cgroup CPU quota";
    if (d.threads > most_threads) d.threads = most_threads, d.limited_by = "library";
    return d;
}

DefaultThreads default_threads() {
    const DefaultFloatState of_this_call;
    // The quota's files are read once: a mountinfo can be long.
    static std::atomic<double> quota{-1};
    if (quota < 0) quota = cpu_quota("");
    return default_threads(usable_cores(), quota);
}

}  // namespace attune
