// SPDX-License-Identifier: MIT
// Default number of threads of a Context: affinity, CPU quota of control groups, and the library's own limit.
#include "runtime/src/execution/processors.h"
#include "tests/support/catch.h"
#include <attune/context.h>
#include <filesystem>
#include <fstream>
#include <map>
#include <stdlib.h>

namespace {
namespace fs = std::filesystem;

// The quota of a machine with these files, by path.
double quota_of(const std::map<std::string, std::string> &files) {
    std::string folder = (fs::temp_directory_path() / "attune_root_XXXXXX").string();
    REQUIRE(mkdtemp(folder.data()));
    for (const auto &[path, text] : files) {
        fs::create_directories((folder + path).substr(0, (folder + path).rfind('/')));
        std::ofstream(folder + path) << text;
    }
    const double quota = attune::cpu_quota(folder);
    fs::remove_all(folder);
    return quota;
}

const std::string version_2 = "30 25 0:26 / /sys/fs/cgroup rw,nosuid shared:4 master:1 - cgroup2 cgroup2 rw,nsdelegate\n";
const std::string disk = "25 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n";
}  // namespace

TEST_CASE("processors: no quota without control groups, or with files that say nothing", "[runtime]") {
    CHECK(quota_of({}) == 0);
    CHECK(quota_of({{"/proc/self/cgroup", "0::/a\n"}, {"/proc/self/mountinfo", disk}}) == 0);
    CHECK(quota_of({{"/proc/self/cgroup", "0::/a\n"},
                    {"/proc/self/mountinfo", disk + version_2},
                    {"/sys/fs/cgroup/a/cpu.max", "max 100000\n"}}) == 0);
    for (const char *nonsense : {"", "\n", "x y\n", "100000\n", "100000 0\n", "-5 100000\n", "1 2 3\n"})
        CHECK(quota_of({{"/proc/self/cgroup", "0::/a\n"},
                        {"/proc/self/mountinfo", disk + version_2},
                        {"/sys/fs/cgroup/a/cpu.max", nonsense}}) == 0);
    for (const char *nonsense : {"\n\n", ":", "0:", "0::", "0::a", "- - - - - - - - -", "1 2 3 4 5 6 - cgroup2", "0::/a/../b"})
        CHECK(quota_of({{"/proc/self/cgroup", nonsense}, {"/proc/self/mountinfo", nonsense + version_2}}) == 0);
}

TEST_CASE("processors: version 2 has the least quota of a group and of those above it", "[runtime]") {
    const auto quota = [](const char *path, const char *leaf, const char *parent, const char *top) {
        return quota_of({{"/proc/self/cgroup", std::string("1:name=systemd:/x\n0::") + path + "\n"},
                         {"/proc/self/mountinfo", disk + version_2},
                         {"/sys/fs/cgroup/job.slice/task 1/cpu.max", leaf},
                         {"/sys/fs/cgroup/job.slice/cpu.max", parent},
                         {"/sys/fs/cgroup/cpu.max", top}});
    };
    CHECK(quota("/job.slice/task 1", "50000 100000\n", "max 100000\n", "max 100000\n") == 0.5);
    CHECK(quota("/job.slice/task 1", "max 100000\n", "350000 100000\n", "") == 3.5);
    CHECK(quota("/job.slice/task 1", "90000 30000\n", "700000 100000\n", "20000 10000\n") == 2);
    CHECK(quota("/job.slice", "50000 100000\n", "350000 100000\n", "") == 3.5);
    CHECK(quota("/", "50000 100000\n", "350000 100000\n", "600000 100000\n") == 6);
}

TEST_CASE("processors: a container sees its own group as the root of the mount, or none of the path", "[runtime]") {
    const auto quota = [](const std::string &path, const std::string &root) {
        return quota_of({{"/proc/self/cgroup", "0::" + path + "\n"},
                         {"/proc/self/mountinfo", "30 25 0:26 " + root + " /sys/fs/my\\040groups rw - cgroup2 cgroup2 rw\n"},
                         {"/sys/fs/my groups/cpu.max", "150000 100000\n"},
                         {"/sys/fs/my groups/inner/cpu.max", "125000 100000\n"}});
    };
    CHECK(quota("/docker/1f", "/docker/1f") == 1.5);
    CHECK(quota("/docker/1f/inner", "/docker/1f") == 1.25);
    CHECK(quota("/docker/1fff", "/docker/1f") == 1.5);
    CHECK(quota("/../../elsewhere", "/") == 1.5);
}

TEST_CASE("processors: version 1 divides cfs_quota_us by cfs_period_us of the controller cpu", "[runtime]") {
    const auto quota = [](const std::string &us, const std::string &period) {
        return quota_of({{"/proc/self/cgroup", "7:cpuset:/set\n4:cpu,cpuacct:/docker/1f\n0::/\n"},
                         {"/proc/self/mountinfo",
                          disk + "31 25 0:27 /set /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n" +
                              "32 25 0:28 / /sys/fs/cgroup/cpu,cpuacct rw shared:5 - cgroup cgroup rw,cpu,cpuacct\n"},
                         {"/sys/fs/cgroup/cpu,cpuacct/docker/1f/cpu.cfs_quota_us", us},
                         {"/sys/fs/cgroup/cpu,cpuacct/docker/1f/cpu.cfs_period_us", period},
                         {"/sys/fs/cgroup/cpuset/cpu.cfs_quota_us", "1000\n"},
                         {"/sys/fs/cgroup/cpuset/cpu.cfs_period_us", "100000\n"}});
    };
    CHECK(quota("250000\n", "100000\n") == 2.5);
    CHECK(quota("-1\n", "100000\n") == 0);
    CHECK(quota("20000\n", "50000\n") == 0.4);
    CHECK(quota("20000\n", "") == 0);
}

TEST_CASE("processors: the default is the least of affinity, quota rounded up, and the library's limit", "[runtime]") {
    const auto check = [](int processors, double quota, int threads, const std::string &limited_by) {
        const attune::DefaultThreads d = attune::default_threads(processors, quota);
        INFO(processors << " processors, quota " << quota);
        CHECK(d.threads == threads);
        CHECK(d.limited_by == limited_by);
        CHECK(d.processors == processors);
        CHECK(d.cpu_quota == quota);
    };
    check(1, 0, 1, "affinity");
    check(8, 0, 8, "affinity");
    check(8, 0.25, 1, "cgroup CPU quota");
    check(8, 2.5, 3, "cgroup CPU quota");
    check(8, 7.5, 8, "affinity");
    check(8, 1e300, 8, "affinity");
    check(1024, 0, 1024, "affinity");
    check(2304, 0, 1024, "library");
    check(2304, 1024.5, 1024, "library");
    check(2304, 96, 96, "cgroup CPU quota");
}

TEST_CASE("processors: a default Context has the default number of threads, and takes as many as it may be given",
          "[runtime]") {
    CHECK(attune::usable_cores() >= 1);
    const attune::DefaultThreads d = attune::default_threads();
    CHECK(d.processors == attune::usable_cores());
    const attune::Context context;
    CHECK(context.status().ok());
    CHECK(context.threads() == d.threads);
    CHECK(attune::Context({.threads = attune::most_threads}).status().ok());
    CHECK(!attune::Context({.threads = attune::most_threads + 1}).status().ok());
}
