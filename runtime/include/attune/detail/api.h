// SPDX-License-Identifier: MIT
// ATTUNE_API marks the functions and classes that a shared library exports; everything else of it is hidden.
#pragma once
#if defined(__GNUC__)
#define ATTUNE_API __attribute__((visibility("default")))
#else
#define ATTUNE_API
#endif
