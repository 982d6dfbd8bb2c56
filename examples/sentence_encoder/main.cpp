// SPDX-License-Identifier: MIT
// Embeddings of sentences, and how similar the sentences are.
// usage: sentence_encoder WEIGHTS.safetensors TOKENS.txt [--heads N] [--threads N] [--out EMBEDDINGS.npy]
//                         [--layer N --rows ROWS.npy] [--time N]
// TOKENS.txt has a line of token numbers for each sentence (tokens.py writes it). ROWS.npy, (T, 3, heads, head size), gets the
// queries, keys and values of a layer, from 1. --time N prints the seconds that the embeddings take, N times.
#include "encoder.h"
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>

using namespace sentence_encoder;

namespace {

struct Arguments {
    std::string weights, tokens, out, rows;
    std::int64_t heads = 12, layer = 0, timed = 0;
    int threads = int(std::thread::hardware_concurrency());
};

std::int64_t number(const std::string &option, const std::string &text) {
    char *end = nullptr;
    const long long n = std::strtoll(text.c_str(), &end, 10);
    if (text.empty() || *end != 0 || n < 1 || n > 1000000)
        throw std::runtime_error(option + ": '" + text + "' is no number from 1");
    return n;
}

Arguments parse(int argc, char **argv) {
    Arguments a;
    std::vector<std::string> files;
    for (int n = 1; n < argc; n++) {
        const std::string word = argv[n];
        if (word.rfind("--", 0) != 0) {
            files.push_back(word);
            continue;
        }
        if (n + 1 == argc) throw std::runtime_error(word + ": needs a value");
        const std::string value = argv[++n];
        if (word == "--heads")
            a.heads = number(word, value);
        else if (word == "--threads")
            a.threads = int(number(word, value));
        else if (word == "--layer")
            a.layer = number(word, value);
        else if (word == "--time")
            a.timed = number(word, value);
        else if (word == "--out")
            a.out = value;
        else if (word == "--rows")
            a.rows = value;
        else
            throw std::runtime_error(word + ": there is no such option");
    }
    if (files.size() != 2) throw std::runtime_error("needs WEIGHTS.safetensors and TOKENS.txt");
    if ((a.layer == 0) != a.rows.empty()) throw std::runtime_error("--layer and --rows need each other");
    a.weights = files[0], a.tokens = files[1];
    return a;
}

Batch read_tokens(const std::string &path) {
    std::ifstream file(path);
    if (!file) throw std::runtime_error(path + ": cannot be read");
    Batch batch;
    for (std::string line; std::getline(file, line);) {
        std::istringstream words(line);
        for (std::int32_t token; words >> token;) batch.tokens.push_back(token);
        if (!words.eof())
            throw std::runtime_error(path + ": line " + std::to_string(batch.sentences() + 1) + " is not all token numbers");
        batch.ends.push_back(std::int32_t(batch.tokens.size()));
    }
    return batch;
}

// A file of NumPy, version 1.0: f32 in the order of C.
void write_npy(const std::string &path, const std::vector<float> &numbers, const Shape &shape) {
    std::string extents;
    for (std::int64_t n : shape) extents += std::to_string(n) + ", ";
    std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (" + extents + "), }";
    constexpr std::size_t before = 10, aligned = 64;
    while ((before + header.size() + 1) % aligned != 0) header += ' ';
    header += '\n';
    const char length[2] = {char(header.size() & 0xff), char(header.size() >> 8)};
    std::ofstream file(path, std::ios::binary);
    file.write("\x93NUMPY\x01\x00", 8).write(length, 2) << header;
    file.write(reinterpret_cast<const char *>(numbers.data()), std::streamsize(numbers.size() * sizeof(float)));
    if (!file.flush()) throw std::runtime_error(path + ": cannot be written");
}

// Cosines: embeddings have length 1.
void print_similarities(const std::vector<float> &embeddings, std::int64_t sentences, std::int64_t width) {
    std::printf("cosine similarity\n      ");
    for (std::int64_t s = 0; s < sentences; s++) std::printf("%6d", int(s + 1));
    for (std::int64_t s = 0; s < sentences; s++) {
        std::printf("\n%6d", int(s + 1));
        for (std::int64_t t = 0; t < sentences; t++) {
            double cosine = 0;
            for (std::int64_t d = 0; d < width; d++)
                cosine += double(embeddings[std::size_t(s * width + d)]) * double(embeddings[std::size_t(t * width + d)]);
            std::printf("%6.2f", cosine);
        }
    }
    std::printf("\n");
}

void print_seconds(Encoder &encoder, const Batch &batch, std::int64_t times) {
    for (std::int64_t n = 0; n < times; n++) {
        const auto begin = std::chrono::steady_clock::now();
        encoder.embed(batch);
        std::printf("%.6f\n", std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    }
}

void run(const Arguments &a) {
    const Safetensors weights(a.weights);
    const Batch batch = read_tokens(a.tokens);
    Encoder encoder(weights, a.heads, a.threads);
    if (a.layer > encoder.layers())
        throw std::runtime_error("--layer: there are " + std::to_string(encoder.layers()) + " layers");
    std::vector<float> rows;
    const std::vector<float> embeddings = encoder.embed(batch, a.layer, &rows);
    if (!a.out.empty()) write_npy(a.out, embeddings, {batch.sentences(), encoder.width()});
    if (!a.rows.empty()) write_npy(a.rows, rows, {batch.rows(), 3, a.heads, encoder.width() / a.heads});
    if (a.timed > 0) return print_seconds(encoder, batch, a.timed);
    print_similarities(embeddings, batch.sentences(), encoder.width());
}

}  // namespace

int main(int argc, char **argv) {
    try {
        run(parse(argc, argv));
    } catch (const std::exception &e) {
        std::fprintf(stderr, "sentence_encoder: %s\n", e.what());
        return 2;
    }
    return 0;
}
