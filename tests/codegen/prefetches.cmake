# SPDX-License-Identifier: MIT
# Kernels that fetch what later rounds read (lowering/passes/prefetch.h): they hold prefetches into all caches, and
# parameters that cannot be are refused in their words.
set(prefill kv_block=64 tile_q=32 key_tile=4 channel_tile=4 head_dim=128 prefetch_tiles=1)
set(queries schedule=prefill kv_block=64 tile_q=32 key_tile=4 channel_tile=4 prefetch_queries=1)
set(tables schedule=prefill kv_block=64 tile_q=32 prefetch_tables=1)
set(panels schedule=panels depth_block=64 task_rows=12 tile_rows=6 tile_columns=32 full_tiles=1 prefetch_tiles=1)
set(row schedule=panels task_rows=4 tile_rows=1 tile_columns=32 block=16)
set(bf16_dot_row schedule=bf16_dot dtype=bfloat16 depth_block=512 accumulators=4 task_rows=1 tile_rows=1 tile_columns=64
  block=16)
set(rank_k_update schedule=panels depth_block=256 tile_rows=4 tile_columns=512 update_depth=8)

function(attune_check_prefetches name generator)
  set(features "")
  if(name MATCHES "bf16_dot_")
    set(features FEATURES -avx512_zen4)
  endif()
  attune_check_codegen(NAME prefetches.${name} GENERATOR ${generator} ${features} PARAMETERS ${ARGN}
    EXPECT CONTAINS prefetcht0)
endfunction()
attune_check_prefetches(prefill sdpa ${prefill} schedule=prefill)
attune_check_prefetches(queries sdpa ${queries} head_dim=64)
attune_check_prefetches(tables sdpa ${tables} kind=scored)
attune_check_prefetches(batch_dot batch_dot ${panels} tile_depth_blocks=0)
attune_check_prefetches(batch_dot_depth_blocks batch_dot ${panels} tile_depth_blocks=1)
attune_check_prefetches(panels linear ${row} tile_rows=4 prefetch_depth=256 prefetch_runs=1)
attune_check_prefetches(row linear ${row} prefetch_depth=256 prefetch_runs=1)
attune_check_prefetches(row_interleaved linear ${row} interleaved_blocks=4 prefetch_depth=256 prefetch_runs=1)
attune_check_prefetches(softmax masked_softmax schedule=rows task_rows=128 block=64 prefetch_rows=1 prefetch_out=1)
attune_check_prefetches(bf16_dot_row linear ${bf16_dot_row} prefetch_depth=512 prefetch_runs=1)
attune_check_prefetches(bf16_dot_interleaved linear ${bf16_dot_row} interleaved_blocks=2 interleaved_vectors=1
  prefetch_depth=512 prefetch_runs=1)

attune_check_refused(NAME split GENERATOR sdpa PARAMETERS ${prefill} schedule=split
  MESSAGE "prefetch_tiles is for prefill")
attune_check_refused(NAME queries GENERATOR sdpa PARAMETERS ${queries} head_dim=0
  MESSAGE "prefetch_queries is for a head size that is known, head_dim is 0")
attune_check_refused(NAME tables GENERATOR sdpa PARAMETERS ${tables} kind=plain
  MESSAGE "prefetch_tables is for prefill and bf16_dot of a kind that has a bias")
attune_check_refused(NAME bf16 GENERATOR sdpa PARAMETERS ${prefill} schedule=prefill dtype=bfloat16
  MESSAGE "prefetch_tiles is for inputs of the type that is summed")
attune_check_refused(NAME half_product GENERATOR batch_dot PARAMETERS ${panels} tile_depth_blocks=0 dtype=float16
  MESSAGE "prefetch_tiles is for x of the type that is summed")
attune_check_refused(NAME depth_blocks GENERATOR batch_dot PARAMETERS ${panels} tile_depth_blocks=2
  MESSAGE "prefetch_tiles is for tile_depth_blocks 0 and 1")
attune_check_refused(NAME runs GENERATOR linear PARAMETERS ${row} prefetch_depth=128 prefetch_runs=1
  MESSAGE "prefetch_runs is for prefetch_depth of a depth block, 256")
attune_check_refused(NAME runs_of_panels GENERATOR linear PARAMETERS ${row} tile_rows=4 tile_depth_blocks=2 prefetch_depth=256
    prefetch_runs=1
  MESSAGE "prefetch_runs of panels is for tile_depth_blocks 1 and no widened pairs")
attune_check_refused(NAME interleaved_blocks GENERATOR linear PARAMETERS ${row} tile_rows=4 interleaved_blocks=4
  MESSAGE "interleaved depth blocks are for few rows, by blocks")
attune_check_refused(NAME bf16_dot_without_blocks GENERATOR linear FEATURES -avx512_zen4 PARAMETERS ${bf16_dot_row} block=0
  interleaved_blocks=2
  MESSAGE "interleaved depth blocks are for few rows, by blocks")
attune_check_refused(NAME bf16_dot_task GENERATOR linear FEATURES -avx512_zen4 PARAMETERS ${bf16_dot_row} task_rows=4
  MESSAGE "task_rows is 4, must be tile_rows where pairs are read by lines")
attune_check_refused(NAME interleaved_vectors_of_one GENERATOR linear PARAMETERS ${row} interleaved_vectors=2
  MESSAGE "interleaved_vectors is for interleaved depth blocks, and for pairs of few rows")
attune_check_refused(NAME bf16_dot_interleaved_vectors GENERATOR linear FEATURES -avx512_zen4 PARAMETERS ${bf16_dot_row}
  interleaved_vectors=3
  MESSAGE "tile_columns is 64, must be a multiple of the columns of interleaved vectors")
attune_check_refused(NAME bf16_dot_row_to_out GENERATOR linear FEATURES -avx512_zen4 PARAMETERS ${bf16_dot_row}
  tile_depth_blocks=0
  MESSAGE "tile_depth_blocks is 0, must be 1 here")
attune_check_refused(NAME lanes GENERATOR linear PARAMETERS ${row} interleaved_blocks=3
  MESSAGE "the vector width is 16, must be a multiple of interleaved_blocks, 3")
attune_check_refused(NAME interleaved_vectors GENERATOR linear PARAMETERS ${row} interleaved_blocks=4 interleaved_vectors=3
  MESSAGE "tile_columns is 32, must be a multiple of the columns of interleaved vectors")
attune_check_refused(NAME rank_k_update GENERATOR batch_dot PARAMETERS ${rank_k_update} few_rows=1 prefetch_tiles=1
  MESSAGE "prefetch_tiles is not for update_depth")
attune_check_refused(NAME packed_rank_k_update GENERATOR batch_dot PARAMETERS ${rank_k_update}
  MESSAGE "update_depth is for few_rows, which reads x as it lies")
attune_check_refused(NAME rank_k_update_of_nothing GENERATOR batch_dot PARAMETERS ${rank_k_update} few_rows=1 update_depth=0
  MESSAGE "depth_block is 256, must be a multiple of update_depth, 0")
attune_check_refused(NAME rank_k_update_of_no_rows GENERATOR batch_dot PARAMETERS ${rank_k_update} few_rows=1 tile_rows=0
  MESSAGE "tile_rows must be given")
attune_check_refused(NAME rank_k_update_of_tasks GENERATOR batch_dot PARAMETERS ${rank_k_update} few_rows=1 task_rows=4
  MESSAGE "task_rows is not for update_depth: a task has the rows of a tile")
