// SPDX-License-Identifier: MIT
#include "dispatch/shape_record.h"
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <new>
#include <pthread.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace attune {
namespace {

constexpr const char *columns = "name,op,dtype,b,h,kv,q,k,d,dv,causal,left,right,length,options,calls,seconds\n";
constexpr std::size_t most_lines = 4096;

// A file that is appended to; processes that share it wait for each other.
class AppendedFile {
public:
    explicit AppendedFile(const std::string &name)
        : file_(open(name.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666)) {}
    ~AppendedFile() {
        if (file_ >= 0) close(file_);
    }
    AppendedFile(const AppendedFile &) = delete;
    bool opened() const { return file_ >= 0; }
    // False where errno says why.
    bool append(const std::string &lines) {
        if (!opened() || flock(file_, LOCK_EX) != 0) return false;
        struct stat now = {};
        if (fstat(file_, &now) != 0) return false;
        const std::string text = (now.st_size == 0 ? columns : "") + lines;
        for (std::size_t at = 0; at < text.size();) {
            const ssize_t n = ::write(file_, text.data() + at, text.size() - at);
            if (n < 0 && errno == EINTR) continue;
            if (n < 0) return false;
            at += static_cast<std::size_t>(n);
        }
        return true;
    }

private:
    int file_;
};

}  // namespace

// Records that are alive, for exit(): a list through them. Constant-initialised and never destroyed, since Contexts may be
// static objects; a child that is forked begins with none, and with a mutex that nobody holds.
struct AliveRecords {
    std::mutex mutex = {};
    int process = 0;  // the number of forks from the first one to this
    ShapeRecord *first = nullptr;

    void add(ShapeRecord &r) {
        const std::lock_guard lock(mutex);
        r.before_ = nullptr, r.next_ = first;
        if (first) first->before_ = &r;
        first = &r;
    }
    void remove(ShapeRecord &r) {
        const std::lock_guard lock(mutex);
        (r.before_ ? r.before_->next_ : first) = r.next_;
        if (r.next_) r.next_->before_ = r.before_;
    }
    void write() {
        const std::lock_guard lock(mutex);
        for (ShapeRecord *r = first; r; r = r->next_) r->write();
    }
};
static_assert(std::is_trivially_destructible_v<AliveRecords>);
static constinit AliveRecords alive;

ShapeRecord::ShapeRecord(const char *file) {
    std::error_code error;  // the program may change its folder
    const std::filesystem::path absolute = std::filesystem::absolute(file, error);
    file_ = error ? file : absolute.string();
    static std::atomic<bool> registered{false};
    if (!registered.exchange(true)) {
        std::atexit([] { alive.write(); });
        pthread_atfork(nullptr, nullptr, [] {
            const int process = alive.process + 1;
            new (&alive) AliveRecords{.process = process};
        });
    }
    begin_in_this_process();
}

ShapeRecord::~ShapeRecord() {
    if (process_ != alive.process) return;  // the parent's, of which a thread may have held the mutex
    alive.remove(*this);
    write();
}

void ShapeRecord::begin_in_this_process() {
    lines_.clear();
    process_ = alive.process;
    alive.add(*this);
}

std::string ShapeRecord::defect() const {
    if (AppendedFile(file_).opened()) return {};
    return file_ + ": " + std::strerror(errno);
}

void ShapeRecord::add(const ShapeLine &s, double seconds) {
    std::string line = s.exact ? "recorded," : "nearest,";
    line += std::string(s.op) + ',' + name_of(s.dtype);
    for (const std::int64_t n : {s.b, s.h, s.kv, s.q, s.k, s.d, s.dv}) {
        if (n < 1) return;
        line += ',' + std::to_string(n);
    }
    for (const std::int64_t n : {std::int64_t(s.causal), s.left, s.right}) line += ',' + std::to_string(n);
    line += ',' + s.length + ',' + s.options;
    if (process_ != alive.process) begin_in_this_process();
    bool many = false;
    {
        const std::lock_guard lock(mutex_);
        Count &count = lines_[line];
        count.calls++, count.seconds += seconds;
        many = lines_.size() >= most_lines;
    }
    if (many) write();
}

void ShapeRecord::write() noexcept {
    const std::lock_guard lock(mutex_);
    if (lines_.empty()) return;
    try {
        std::string text;
        for (const auto &[line, count] : lines_) {
            char counts[64];
            std::snprintf(counts, sizeof counts, ",%lld,%.6g\n", static_cast<long long>(count.calls), count.seconds);
            text += line + counts;
        }
        // There is no status any more that could say so.
        if (!AppendedFile(file_).append(text))
            std::fprintf(stderr, "attune: ATTUNE_RECORD_SHAPES: %s: %s: shapes are lost\n", file_.c_str(),
                         std::strerror(errno));
    } catch (const std::bad_alloc &) {
        std::fputs("attune: ATTUNE_RECORD_SHAPES: out of memory: shapes are lost\n", stderr);
    }
    lines_.clear();
}

}  // namespace attune
