// Reading shapes/*.csv, and counting what the masks keep.
#include "shapes.h"
#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fnmatch.h>
#include <fstream>
#include <set>
#include <sstream>

namespace bench {
namespace {

constexpr const char *header = "name,dtype,b,h,kv,q,k,d,dv,causal,left,right,length,quick";

std::vector<std::string> split(const std::string &line, char at) {
    std::vector<std::string> parts(1);
    for (char c : line) {
        if (c == at)
            parts.emplace_back();
        else
            parts.back() += c;
    }
    return parts;
}

bool number(const std::string &text, std::int64_t &value) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && end == text.data() + text.size();
}

// False if a field is no number or out of range.
bool parse(const std::vector<std::string> &f, Shape &s) {
    if (f.size() != 14 || (f[1] != "f32" && f[1] != "f64")) return false;
    std::int64_t causal = 0, quick = 0;
    std::int64_t *const into[] = {&s.b, &s.h, &s.kv, &s.q, &s.k, &s.d, &s.dv, &causal, &s.window.left, &s.window.right};
    for (std::size_t n = 0; n < std::size(into); n++)
        if (!number(f[n + 2], *into[n])) return false;
    if (!number(f[13], quick)) return false;
    s.name = f[0];
    s.dtype = f[1] == "f64" ? attune::DType::f64 : attune::DType::f32;
    s.causal = causal != 0;
    s.quick = quick != 0;
    if (!f[12].empty())
        for (const std::string &text : split(f[12], '_')) {
            std::int64_t length = 0;
            if (!number(text, length) || length < 0 || length > s.k) return false;
            s.lengths.push_back(static_cast<std::int32_t>(length));
        }
    if (s.lengths.size() == 1) s.lengths.resize(static_cast<std::size_t>(s.b), s.lengths[0]);
    if (!s.lengths.empty() && s.lengths.size() != static_cast<std::size_t>(s.b)) return false;
    return std::min({s.b, s.h, s.kv, s.q, s.k, s.d, s.dv}) >= 1 && s.h % s.kv == 0;
}

}  // namespace

std::pair<std::int64_t, std::int64_t> Shape::keys_of(std::int64_t e, std::int64_t i) const {
    const std::int64_t position = i + (causal ? k - q : 0);
    std::int64_t from = 0, to = lengths.empty() ? k : lengths[static_cast<std::size_t>(e)];
    if (causal) to = std::min(to, position + 1);
    if (window.left >= 0) from = std::max(from, position - window.left);
    if (window.right >= 0) to = std::min(to, position + window.right + 1);
    return {from, std::max(from, to)};
}

double Shape::pairs() const {
    double kept = 0;
    for (std::int64_t e = 0; e < b; e++)
        for (std::int64_t i = 0; i < q; i++) kept += static_cast<double>(keys_of(e, i).second - keys_of(e, i).first);
    return kept * static_cast<double>(h);
}

double Shape::bytes() const {
    double rows = 0;
    for (std::int64_t e = 0; e < b; e++) {
        std::int64_t first = k, last = 0;
        for (std::int64_t i = 0; i < q; i++) {
            const auto [from, to] = keys_of(e, i);
            if (from < to) first = std::min(first, from), last = std::max(last, to);
        }
        rows += static_cast<double>(std::max<std::int64_t>(0, last - first));
    }
    return static_cast<double>((d + dv) * attune::size_of(dtype)) *
           (static_cast<double>(kv) * rows + static_cast<double>(b * h * q));
}

std::string Shape::label() const {
    std::ostringstream out;
    out << "b:" << b << "/h:" << h << "/kv:" << kv << "/q:" << q << "/k:" << k << "/d:" << d;
    if (dv != d) out << "/dv:" << dv;
    out << "/causal:" << causal;
    if (window.left >= 0 || window.right >= 0) out << "/window:" << window.left << '_' << window.right;
    if (!lengths.empty()) {
        const bool same = std::set<std::int32_t>(lengths.begin(), lengths.end()).size() == 1;
        out << "/len:" << lengths[0];
        for (std::size_t e = 1; !same && e < lengths.size(); e++) out << '_' << lengths[e];
    }
    return out.str();
}

std::vector<Shape> read_shapes(const std::string &folder, const std::string &glob, std::string &error) {
    std::vector<std::filesystem::path> files;
    std::error_code none;
    for (const auto &entry : std::filesystem::directory_iterator(folder, none))
        if (entry.path().extension() == ".csv") files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    if (files.empty()) error = "no *.csv in " + folder;
    std::vector<Shape> shapes;
    for (const auto &file : files) {
        std::ifstream in(file);
        bool headed = false;
        int row = 0;
        for (std::string line; std::getline(in, line);) {
            row++;
            if (line.empty() || line[0] == '#') continue;
            Shape shape;
            shape.set = file.stem().string();
            if (!headed ? line != header : !parse(split(line, ','), shape)) {
                error = file.string() + ":" + std::to_string(row) + ": expected " + header;
                return {};
            }
            const std::string full = shape.set + "/" + shape.name;
            if (headed && (fnmatch(glob.c_str(), full.c_str(), 0) == 0 || fnmatch(glob.c_str(), shape.set.c_str(), 0) == 0))
                shapes.push_back(shape);
            headed = true;
        }
    }
    return shapes;
}

}  // namespace bench
