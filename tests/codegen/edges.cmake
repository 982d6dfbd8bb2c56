# SPDX-License-Identifier: MIT
# Vectors that reach beyond the last column or channel are read by masked loads (lowering/passes/mask_tail_loads.h), and not
# element by element.
set(product schedule=panels chunk=64 task_rows=8 tile_rows=8 tile_columns=16 tile_chunks=0)
set(decode schedule=decode chunk=512 tile_q=4 key_tile=4 value_block=16 channel_tile=2 key_block=64)
set(masked_load "vmov.*{%k[1-7]} {z}")
# A gather of sixteen elements has twelve insertions at least.
attune_check_codegen(NAME edges.columns GENERATOR batch_dot PARAMS ${product}
  EXPECT CONTAINS ${masked_load} AT_MOST 11 vinsertps)
attune_check_codegen(NAME edges.columns_of_f16 GENERATOR batch_dot PARAMS ${product} dtype=float16
  EXPECT CONTAINS ${masked_load} AT_MOST 11 vpinsrw)
# Sums and maxima of a row have some of their own.
attune_check_codegen(NAME edges.channels GENERATOR sdpa PARAMS ${decode}
  EXPECT CONTAINS ${masked_load} AT_MOST 63 vinsertps)
