# SPDX-License-Identifier: MIT
# A register tile of sums is in registers (lowering/passes/pin_stack_slots.h): nothing clears it in memory, where it has 64 rows
# by 4 channels.
foreach(dtype float32 bfloat16)
  attune_check_codegen(NAME registers.${dtype} GENERATOR sdpa
    PARAMETERS schedule=prefill dtype=${dtype} kv_block=128 tile_q=64 key_tile=4 channel_tile=4 head_dim=64
    EXPECT CONTAINS vfmadd231ps LACKS "\\$1024, %edx")
endforeach()
