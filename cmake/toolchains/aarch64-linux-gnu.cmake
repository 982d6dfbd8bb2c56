# SPDX-License-Identifier: MIT
# Toolchain for AArch64 Linux on a machine of another architecture: Debian's g++-aarch64-linux-gnu, and qemu-user-static for
# programs that a build or a test runs. QEMU_CPU in the environment chooses the emulated CPU, such as max or cortex-a76.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
# Shared libraries of the emulated programs are those beside the cross compiler.
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64-static -L /usr/aarch64-linux-gnu)
