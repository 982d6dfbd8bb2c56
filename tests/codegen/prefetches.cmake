# SPDX-License-Identifier: MIT
# Kernels that fetch what later rounds read (lowering/passes/prefetch.h): they hold prefetches into all caches, and
# numbers that cannot be are refused in their words.
set(prefill chunk=64 tile_q=32 key_tile=4 channel_tile=4 head_dim=128 prefetch_tiles=1)
set(queries schedule=prefill chunk=64 tile_q=32 key_tile=4 channel_tile=4 prefetch_queries=1)
set(tables schedule=prefill chunk=64 tile_q=32 prefetch_tables=1)
set(panels schedule=panels chunk=64 task_rows=12 tile_rows=6 tile_columns=32 whole=1 prefetch_tiles=1)
set(row schedule=panels task_rows=4 tile_rows=1 tile_columns=32 block=16)
set(pairs_row schedule=pairs dtype=bfloat16 chunk=512 strands=4 task_rows=1 tile_rows=1 tile_columns=64 block=16)
set(passes schedule=panels chunk=256 tile_rows=4 tile_columns=512 pass_depth=8)

function(attune_check_prefetches name generator)
  set(features "")
  if(name MATCHES "pairs_")
    set(features FEATURES -avx512_zen4)
  endif()
  attune_check_codegen(NAME prefetches.${name} GENERATOR ${generator} ${features} PARAMS ${ARGN}
    EXPECT CONTAINS prefetcht0)
endfunction()
attune_check_prefetches(prefill sdpa ${prefill} schedule=prefill)
attune_check_prefetches(queries sdpa ${queries} head_dim=64)
attune_check_prefetches(tables sdpa ${tables} kind=scored)
attune_check_prefetches(batch_dot batch_dot ${panels} tile_chunks=0)
attune_check_prefetches(batch_dot_chunks batch_dot ${panels} tile_chunks=1)
attune_check_prefetches(panels linear ${row} tile_rows=4 prefetch_depth=256 prefetch_runs=1)
attune_check_prefetches(row linear ${row} prefetch_depth=256 prefetch_runs=1)
attune_check_prefetches(row_abreast linear ${row} abreast=4 prefetch_depth=256 prefetch_runs=1)
attune_check_prefetches(pairs_row linear ${pairs_row} prefetch_depth=512 prefetch_runs=1)
attune_check_prefetches(pairs_abreast linear ${pairs_row} abreast=2 turns=1 prefetch_depth=512 prefetch_runs=1)

attune_check_refused(NAME split GENERATOR sdpa PARAMS ${prefill} schedule=split
  MESSAGE "prefetch_tiles is for prefill")
attune_check_refused(NAME queries GENERATOR sdpa PARAMS ${queries} head_dim=0
  MESSAGE "prefetch_queries is for a head size that is known, head_dim is 0")
attune_check_refused(NAME tables GENERATOR sdpa PARAMS ${tables} kind=plain
  MESSAGE "prefetch_tables is for prefill and pairs of a kind that has a bias")
attune_check_refused(NAME bf16 GENERATOR sdpa PARAMS ${prefill} schedule=prefill dtype=bfloat16
  MESSAGE "prefetch_tiles is for inputs of the type that is summed")
attune_check_refused(NAME half_product GENERATOR batch_dot PARAMS ${panels} tile_chunks=0 dtype=float16
  MESSAGE "prefetch_tiles is for x of the type that is summed")
attune_check_refused(NAME chunks GENERATOR batch_dot PARAMS ${panels} tile_chunks=2
  MESSAGE "prefetch_tiles is for tile_chunks 0 and 1")
attune_check_refused(NAME runs GENERATOR linear PARAMS ${row} prefetch_depth=128 prefetch_runs=1
  MESSAGE "prefetch_runs is for prefetch_depth of a chunk, 256")
attune_check_refused(NAME runs_of_panels GENERATOR linear PARAMS ${row} tile_rows=4 tile_chunks=2 prefetch_depth=256
    prefetch_runs=1
  MESSAGE "prefetch_runs of panels is for tile_chunks 1 and no widened pairs")
attune_check_refused(NAME abreast GENERATOR linear PARAMS ${row} tile_rows=4 abreast=4
  MESSAGE "chunks abreast are for few rows, by blocks")
attune_check_refused(NAME pairs_without_blocks GENERATOR linear FEATURES -avx512_zen4 PARAMS ${pairs_row} block=0 abreast=2
  MESSAGE "chunks abreast are for few rows, by blocks")
attune_check_refused(NAME pairs_task GENERATOR linear FEATURES -avx512_zen4 PARAMS ${pairs_row} task_rows=4
  MESSAGE "task_rows is 4, must be tile_rows where pairs are read by lines")
attune_check_refused(NAME turns_of_one GENERATOR linear PARAMS ${row} turns=2
  MESSAGE "turns is for chunks abreast, and for pairs of few rows")
attune_check_refused(NAME pairs_turns GENERATOR linear FEATURES -avx512_zen4 PARAMS ${pairs_row} turns=3
  MESSAGE "tile_columns is 64, must be a multiple of the columns that take turns")
attune_check_refused(NAME pairs_row_to_out GENERATOR linear FEATURES -avx512_zen4 PARAMS ${pairs_row} tile_chunks=0
  MESSAGE "tile_chunks is 0, must be 1 here")
attune_check_refused(NAME lanes GENERATOR linear PARAMS ${row} abreast=3
  MESSAGE "the vector width is 16, must be a multiple of abreast, 3")
attune_check_refused(NAME turns GENERATOR linear PARAMS ${row} abreast=4 turns=3
  MESSAGE "tile_columns is 32, must be a multiple of the columns that take turns")
attune_check_refused(NAME passes GENERATOR batch_dot PARAMS ${passes} few=1 prefetch_tiles=1
  MESSAGE "prefetch_tiles is not for pass_depth")
attune_check_refused(NAME packed_passes GENERATOR batch_dot PARAMS ${passes}
  MESSAGE "pass_depth is for few, which reads x as it lies")
attune_check_refused(NAME pass_of_nothing GENERATOR batch_dot PARAMS ${passes} few=1 pass_depth=0
  MESSAGE "chunk is 256, must be a multiple of pass_depth, 0")
attune_check_refused(NAME pass_of_no_rows GENERATOR batch_dot PARAMS ${passes} few=1 tile_rows=0
  MESSAGE "tile_rows must be given")
attune_check_refused(NAME pass_of_tasks GENERATOR batch_dot PARAMS ${passes} few=1 task_rows=4
  MESSAGE "task_rows is not for pass_depth: a task has the rows of a tile")
