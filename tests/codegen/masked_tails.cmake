# SPDX-License-Identifier: MIT
# Vectors that reach beyond the last column or channel are read by masked tail loads (lowering/passes/mask_tail_loads.h), and
# not element by element.
set(product schedule=panels depth_block=64 task_rows=8 tile_rows=8 tile_columns=16 tile_depth_blocks=0)
set(decode schedule=decode kv_block=512 tile_q=4 key_tile=4 value_block=16 channel_tile=2 kv_subblock=64)
set(masked_load "vmov.*{%k[1-7]} {z}")
# A gather of sixteen elements has twelve insertions at least.
attune_check_codegen(NAME masked_tails.columns GENERATOR batch_dot PARAMETERS ${product}
  EXPECT CONTAINS ${masked_load} AT_MOST 11 vinsertps)
attune_check_codegen(NAME masked_tails.columns_of_f16 GENERATOR batch_dot PARAMETERS ${product} dtype=float16
  EXPECT CONTAINS ${masked_load} AT_MOST 11 vpinsrw)
# Sums and maxima of a row have some of their own.
attune_check_codegen(NAME masked_tails.channels GENERATOR sdpa PARAMETERS ${decode}
  EXPECT CONTAINS ${masked_load} AT_MOST 63 vinsertps)
