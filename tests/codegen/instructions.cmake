# SPDX-License-Identifier: MIT
# Instructions of lowering/instructions: a kernel that leaves as assembly, object and bitcode has them in each.
set(prefill schedule=prefill kv_block=64 tile_q=32 key_tile=4 channel_tile=4 head_dim=64)
function(attune_check_instruction name generator target instruction intrinsic)
  attune_check_codegen(NAME instructions.${name} GENERATOR ${generator} TARGET ${target} PARAMETERS ${ARGN}
    PRODUCTS assembly object bitcode
    EXPECT CONTAINS ${instruction} IN object CONTAINS ${instruction} IN bitcode CONTAINS "${intrinsic}")
endfunction()
foreach(target avx512 zen4 zen5 sapphirerapids)
  attune_check_instruction(scaled_${target} sdpa ${target} vscalefps "llvm\\.x86\\.avx512\\.mask\\.scalef\\.ps\\.512"
    ${prefill})
endforeach()
attune_check_instruction(nearest sdpa avx512 vrndscaleps "llvm\\.x86\\.avx512\\.mask\\.rndscale\\.ps\\.512" ${prefill})
attune_check_instruction(tiles_past_l1 linear sapphirerapids tileloaddt1 "llvm\\.x86\\.tileloaddt164\\.internal"
  schedule=amx dtype=bfloat16 depth_block=256 task_rows=64 tile_rows=32 tile_columns=64 block=16 tile_depth_blocks=0)
