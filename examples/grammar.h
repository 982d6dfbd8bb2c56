// SPDX-License-Identifier: MIT
// A language of a few words whose entropy is known: "anna says two old cats see one dog , anna ." Nouns and verbs agree with
// numbers, and the name at the end is the one at the beginning: to know the next word, a reader must look back.
#pragma once
#include <array>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace examples::grammar {

inline const std::array<std::string, 22> words = {".",    "says",  ",",    "anna",  "ben", "cleo", "dan",  "one",
                                                  "two",  "red",   "old",  "big",   "cat", "dog",  "bird", "cats",
                                                  "dogs", "birds", "sees", "likes", "see", "like"};
enum Word : std::int32_t {
    stop,
    says,
    comma,
    names = 3,
    one = 7,
    adjectives = 9,
    nouns = 12,
    plural_nouns = 15,
    verbs = 18,
    plural_verbs = 20
};
constexpr int name_count = 4, adjective_count = 3, most_adjectives = 3, noun_count = 3, verb_count = 2;

// A sentence begins behind a stop and ends with one. `surprise`: -log of the probability of all its words.
struct Sentence {
    std::vector<std::int32_t> tokens = {stop};
    double surprise = 0;
};

// Draws a sentence.
class Writer {
public:
    explicit Writer(std::mt19937 &random) : random_(random) {}

    Sentence sentence() {
        made_ = {};
        const int name = choose(name_count);
        put(names + name), put(says);
        const bool plural = noun_phrase();
        put((plural ? plural_verbs : verbs) + choose(verb_count));
        noun_phrase();
        put(comma), put(names + name), put(stop);
        return made_;
    }

private:
    int choose(int count) {
        made_.surprise += std::log(double(count));
        return int(random_() % unsigned(count));
    }
    void put(std::int32_t word) { made_.tokens.push_back(word); }
    // One or two, adjectives, a noun. Whether it is plural.
    bool noun_phrase() {
        const int plural = choose(2);
        put(one + plural);
        for (int n = 0; n < most_adjectives && choose(2); n++) put(adjectives + choose(adjective_count));
        put((plural ? plural_nouns : nouns) + choose(noun_count));
        return plural;
    }

    std::mt19937 &random_;
    Sentence made_;
};

// Reads a sentence, and says whether it is one of the language.
class Reader {
public:
    explicit Reader(const std::vector<std::int32_t> &tokens) : tokens_(tokens) {}

    bool accepts() {
        if (!take(stop, 1)) return false;
        const int name = take(names, name_count);
        if (!name || !take(says, 1)) return false;
        const int number = noun_phrase();
        if (!number || !take(number == 2 ? plural_verbs : verbs, verb_count) || !noun_phrase()) return false;
        return take(comma, 1) && take(names, name_count) == name && take(stop, 1) && at_ == tokens_.size();
    }

private:
    // Takes one of `count` words from `first` on: its number from 1, or 0 where the next word is another.
    int take(std::int32_t first, int count) {
        if (at_ == tokens_.size() || tokens_[at_] < first || tokens_[at_] >= first + count) return 0;
        return tokens_[at_++] - first + 1;
    }
    int noun_phrase() {
        const int number = take(one, 2);
        for (int n = 0; n < most_adjectives && take(adjectives, adjective_count); n++) continue;
        return number && take(number == 2 ? plural_nouns : nouns, noun_count) ? number : 0;
    }

    const std::vector<std::int32_t> &tokens_;
    std::size_t at_ = 0;
};

inline std::string text_of(const std::vector<std::int32_t> &tokens) {
    std::string text;
    for (std::size_t n = 1; n < tokens.size(); n++) text += (n > 1 ? " " : "") + words[std::size_t(tokens[n])];
    return text;
}

}  // namespace examples::grammar
