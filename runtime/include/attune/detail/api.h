// SPDX-License-Identifier: MIT
// ATTUNE_API, the mark of functions and classes that a shared library exports; its other symbols are hidden.
#pragma once
#if defined(__GNUC__)
#define ATTUNE_API __attribute__((visibility("default")))
#else
#define ATTUNE_API
#endif
