# Instructions that others stand in for (schedules/stand_ins.h): the assembly, and the object that is made of it, have what is meant
# and no stand-in; and kernels that leave by another way do without.
set(prefill schedule=prefill chunk=64 tile_q=32 key_tile=4 channel_tile=4 head_dim=64)
attune_check_codegen(NAME instructions.powers GENERATOR sdpa TARGET zen5 PARAMS ${prefill} PRODUCTS object assembly
  EXPECT CONTAINS vscalefps CONTAINS vrndscaleps LACKS vpsubusw LACKS vplzcntd IN object CONTAINS vscalefps)
attune_check_codegen(NAME instructions.powers_object GENERATOR sdpa TARGET zen5 PARAMS ${prefill} PRODUCTS object
  EXPECT IN object CONTAINS vrndscaleps)
attune_check_codegen(NAME instructions.powers_of_bitcode GENERATOR sdpa TARGET zen5 PARAMS ${prefill} PRODUCTS object bitcode
  EXPECT IN object LACKS vscalefps LACKS vpsubusw LACKS vplzcntd)
