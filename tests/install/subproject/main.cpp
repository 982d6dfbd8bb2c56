// SPDX-License-Identifier: MIT
#include <cstdio>

const char *normalise(const float *scores, float *out, int rows, int columns);
const char *refused(const double *scores, double *out);
float back(float);

int main() {
    const float scores[] = {0, 0, 1, 1, 1, 1};
    float out[6];
    std::printf("%s\n", normalise(scores, out, 3, 2));
    for (float x : out) std::printf("%g ", x);
    const double score = 1;
    double weight = 0;
    std::printf("%g\n%s\n", back(1.5f), refused(&score, &weight));
}
