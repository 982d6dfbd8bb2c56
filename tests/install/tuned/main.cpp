// SPDX-License-Identifier: MIT
int normalise();
int main() { return normalise(); }
