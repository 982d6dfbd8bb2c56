// SPDX-License-Identifier: MIT
// HalideRuntime.h for the library's own copy of Halide's runtime, whose functions are called attune_... in objects
// (lowering/halide_patches/private_runtime.h), so that it is apart from any other copy in the program.
//
// Include before any other header of Halide's runtime: a name that an inline function has used already is not renamed any more.
#pragma once

// A function missing from this list is undefined at link time.
#pragma redefine_extname halide_set_error_handler attune_set_error_handler
#pragma redefine_extname halide_set_custom_do_par_for attune_set_custom_do_par_for
#pragma redefine_extname halide_set_custom_malloc attune_set_custom_malloc
#pragma redefine_extname halide_set_custom_free attune_set_custom_free
#pragma redefine_extname halide_malloc attune_malloc
#pragma redefine_extname halide_free attune_free
#pragma redefine_extname halide_do_par_for attune_do_par_for
// For devices.
#pragma redefine_extname halide_set_custom_get_library_symbol attune_set_custom_get_library_symbol
#pragma redefine_extname halide_set_cuda_acquire_context attune_set_cuda_acquire_context
#pragma redefine_extname halide_set_cuda_release_context attune_set_cuda_release_context
#pragma redefine_extname halide_set_cuda_get_stream attune_set_cuda_get_stream
#pragma redefine_extname halide_cuda_wrap_device_ptr attune_cuda_wrap_device_ptr
#pragma redefine_extname halide_cuda_detach_device_ptr attune_cuda_detach_device_ptr
#pragma redefine_extname halide_device_sync_global attune_device_sync_global
#pragma redefine_extname halide_device_free attune_device_free
#pragma redefine_extname halide_copy_to_host attune_copy_to_host
#pragma redefine_extname halide_opencl_device_interface attune_opencl_device_interface

#include "HalideRuntime.h"
