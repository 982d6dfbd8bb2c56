; Instructions of AMX that Halide 21 has no expression for, as functions that a Call names. They are assembled with the
; functions of Halide's own module (halide/x86_amx.ll), whose place both take together in the programs that make kernels.

; Halide's tileloadd64_bf16 with tileloaddt1, which loads a tile of 512 bf16 without keeping its lines in L1.
declare x86_amx @llvm.x86.tileloaddt164.internal(i16, i16, i8*, i64)
define weak_odr <512 x i16> @attune_tileloaddt1_bf16x512(i16 %rows, i16 %colbytes, i8* %ptr, i64 %off, i64 %stride) nounwind alwaysinline readonly {
  %1 = getelementptr i8, i8* %ptr, i64 %off
  %2 = tail call x86_amx @llvm.x86.tileloaddt164.internal(i16 %rows, i16 %colbytes, i8* %1, i64 %stride) nounwind readonly
  %3 = bitcast x86_amx %2 to <512 x i16>
  ret <512 x i16> %3
}
