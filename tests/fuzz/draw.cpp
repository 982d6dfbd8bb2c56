// SPDX-License-Identifier: MIT
#include "tests/fuzz/draw.h"
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <iterator>
#include <sstream>

namespace attune_fuzz {

std::string text_of(const Values &values) {
    std::string text;
    for (const auto &[name, value] : values) text += (text.empty() ? "" : " ") + name + "=" + value;
    return text;
}
Values values_of(const std::string &text) {
    Values values;
    std::istringstream words(text);
    for (std::string word; words >> word;)
        if (const auto at = word.find('='); at != word.npos) values[word.substr(0, at)] = word.substr(at + 1);
    return values;
}

const std::string *Draw::given(const std::string &name) const {
    const auto found = given_.find(name);
    return found == given_.end() ? nullptr : &found->second;
}

void Draw::note(const std::string &name, const std::string &value, const std::string &lowest) {
    made_[name] = value;
    const std::string line = name + '\t' + value + '\t' + lowest + '\n';
    const std::size_t used = journal ? std::strlen(journal) : 0;
    if (journal && used + line.size() < journal_size) std::memcpy(journal + used, line.c_str(), line.size() + 1);
}

std::int64_t Draw::number(const std::string &name, std::int64_t low, std::int64_t high) {
    high = std::max(low, high);
    std::int64_t x = low;
    if (replays_) {
        if (const std::string *text = given(name)) std::from_chars(text->data(), text->data() + text->size(), x);
    } else {
        constexpr std::int64_t tiles[] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 80, 96, 128, 160, 192, 256};
        const double unit = double(random_() >> 11) * 0x1p-53;
        if (random_() % 2)
            x = tiles[random_() % std::size(tiles)] + std::int64_t(random_() % 3) - 1;
        else
            x = low + std::int64_t(std::exp(unit * std::log(double(high - low) + 1.999))) - 1;
        if (x < low || x > high) x = low + std::int64_t(unit * double(high - low + 1));
    }
    x = std::clamp(x, low, high);
    if (x != low) note(name, std::to_string(x), std::to_string(low));
    return x;
}

std::size_t Draw::one_of(const std::string &name, const std::vector<std::string> &labels, unsigned rare) {
    std::size_t n = 0;
    if (replays_) {
        if (const std::string *text = given(name))
            n = std::size_t(std::find(labels.begin(), labels.end(), *text) - labels.begin());
        if (n >= labels.size()) n = 0;
    } else if (labels.size() > 1 && random_() % rare == 0) {
        n = rare == 1 ? random_() % labels.size() : 1 + random_() % (labels.size() - 1);
    }
    if (n != 0) note(name, labels[n], "");
    return n;
}

}  // namespace attune_fuzz
