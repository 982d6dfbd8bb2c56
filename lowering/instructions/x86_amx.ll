; SPDX-License-Identifier: MIT
; AMX instructions without an expression in Halide 21, as functions that a Call names. The module replaces Halide's own of that
; name in the programs that make kernels.

; tileloaddt1 in place of Halide's tileloadd64_bf16: loads a tile of 512 bf16 without keeping its lines in L1.
declare x86_amx @llvm.x86.tileloaddt164.internal(i16, i16, i8*, i64)
define weak_odr <512 x i16> @attune_tileloaddt1_bf16x512(i16 %rows, i16 %colbytes, i8* %ptr, i64 %off, i64 %stride) nounwind alwaysinline readonly {
  %1 = getelementptr i8, i8* %ptr, i64 %off
  %2 = tail call x86_amx @llvm.x86.tileloaddt164.internal(i16 %rows, i16 %colbytes, i8* %1, i64 %stride) nounwind readonly
  %3 = bitcast x86_amx %2 to <512 x i16>
  ret <512 x i16> %3
}

; Functions that Halide's code generation calls by name for products of tiles; names and types are an interface of Halide
; 21.0.0.

; Loads, stores and zeroing of tiles. A zero is not readnone: otherwise LLVM makes one and copies it, and no instruction copies
; a tile.
declare x86_amx @llvm.x86.tileloadd64.internal(i16, i16, i8*, i64)
define weak_odr <1024 x i8> @tileloadd64_i8(i16 %rows, i16 %colbytes, i8* %ptr, i64 %off, i64 %stride) nounwind alwaysinline readonly {
  %at = getelementptr i8, i8* %ptr, i64 %off
  %tile = tail call x86_amx @llvm.x86.tileloadd64.internal(i16 %rows, i16 %colbytes, i8* %at, i64 %stride) nounwind readonly
  %r = bitcast x86_amx %tile to <1024 x i8>
  ret <1024 x i8> %r
}
define weak_odr <512 x i16> @tileloadd64_bf16(i16 %rows, i16 %colbytes, i8* %ptr, i64 %off, i64 %stride) nounwind alwaysinline readonly {
  %at = getelementptr i8, i8* %ptr, i64 %off
  %tile = tail call x86_amx @llvm.x86.tileloadd64.internal(i16 %rows, i16 %colbytes, i8* %at, i64 %stride) nounwind readonly
  %r = bitcast x86_amx %tile to <512 x i16>
  ret <512 x i16> %r
}
declare void @llvm.x86.tilestored64.internal(i16, i16, i8*, i64, x86_amx)
define weak_odr i32 @tilestored64_i32(i16 %rows, i16 %cols, i8* %ptr, i64 %off, i64 %stride, <256 x i32> %x) nounwind alwaysinline writeonly {
  %at = getelementptr i8, i8* %ptr, i64 %off
  %tile = bitcast <256 x i32> %x to x86_amx
  tail call void @llvm.x86.tilestored64.internal(i16 %rows, i16 %cols, i8* %at, i64 %stride, x86_amx %tile) nounwind writeonly
  ret i32 0
}
define weak_odr i32 @tilestored64_f32(i16 %rows, i16 %cols, i8* %ptr, i64 %off, i64 %stride, <256 x float> %x) nounwind alwaysinline writeonly {
  %at = getelementptr i8, i8* %ptr, i64 %off
  %tile = bitcast <256 x float> %x to x86_amx
  tail call void @llvm.x86.tilestored64.internal(i16 %rows, i16 %cols, i8* %at, i64 %stride, x86_amx %tile) nounwind writeonly
  ret i32 0
}
declare x86_amx @llvm.x86.tilezero.internal(i16, i16)
define weak_odr <256 x i32> @tilezero_i32(i16 %rows, i16 %colbytes) nounwind alwaysinline {
  %tile = tail call x86_amx @llvm.x86.tilezero.internal(i16 %rows, i16 %colbytes) nounwind
  %r = bitcast x86_amx %tile to <256 x i32>
  ret <256 x i32> %r
}
define weak_odr <256 x float> @tilezero_f32(i16 %rows, i16 %colbytes) nounwind alwaysinline {
  %tile = tail call x86_amx @llvm.x86.tilezero.internal(i16 %rows, i16 %colbytes) nounwind
  %r = bitcast x86_amx %tile to <256 x float>
  ret <256 x float> %r
}

; Products of tiles, added to a tile: of bytes, signed or not, and of bf16.
declare x86_amx @llvm.x86.tdpbssd.internal(i16, i16, i16, x86_amx, x86_amx, x86_amx)
define weak_odr <256 x i32> @tdpbssd(i16 %rows, i16 %colbytes, i16 %acc, <256 x i32> %sum, <1024 x i8> %a, <1024 x i8> %b) nounwind alwaysinline readnone {
  %a.tile = bitcast <1024 x i8> %a to x86_amx
  %b.tile = bitcast <1024 x i8> %b to x86_amx
  %sum.tile = bitcast <256 x i32> %sum to x86_amx
  %tile = tail call x86_amx @llvm.x86.tdpbssd.internal(i16 %rows, i16 %colbytes, i16 %acc, x86_amx %sum.tile, x86_amx %a.tile, x86_amx %b.tile) nounwind readnone
  %r = bitcast x86_amx %tile to <256 x i32>
  ret <256 x i32> %r
}
declare x86_amx @llvm.x86.tdpbsud.internal(i16, i16, i16, x86_amx, x86_amx, x86_amx)
define weak_odr <256 x i32> @tdpbsud(i16 %rows, i16 %colbytes, i16 %acc, <256 x i32> %sum, <1024 x i8> %a, <1024 x i8> %b) nounwind alwaysinline readnone {
  %a.tile = bitcast <1024 x i8> %a to x86_amx
  %b.tile = bitcast <1024 x i8> %b to x86_amx
  %sum.tile = bitcast <256 x i32> %sum to x86_amx
  %tile = tail call x86_amx @llvm.x86.tdpbsud.internal(i16 %rows, i16 %colbytes, i16 %acc, x86_amx %sum.tile, x86_amx %a.tile, x86_amx %b.tile) nounwind readnone
  %r = bitcast x86_amx %tile to <256 x i32>
  ret <256 x i32> %r
}
declare x86_amx @llvm.x86.tdpbusd.internal(i16, i16, i16, x86_amx, x86_amx, x86_amx)
define weak_odr <256 x i32> @tdpbusd(i16 %rows, i16 %colbytes, i16 %acc, <256 x i32> %sum, <1024 x i8> %a, <1024 x i8> %b) nounwind alwaysinline readnone {
  %a.tile = bitcast <1024 x i8> %a to x86_amx
  %b.tile = bitcast <1024 x i8> %b to x86_amx
  %sum.tile = bitcast <256 x i32> %sum to x86_amx
  %tile = tail call x86_amx @llvm.x86.tdpbusd.internal(i16 %rows, i16 %colbytes, i16 %acc, x86_amx %sum.tile, x86_amx %a.tile, x86_amx %b.tile) nounwind readnone
  %r = bitcast x86_amx %tile to <256 x i32>
  ret <256 x i32> %r
}
declare x86_amx @llvm.x86.tdpbuud.internal(i16, i16, i16, x86_amx, x86_amx, x86_amx)
define weak_odr <256 x i32> @tdpbuud(i16 %rows, i16 %colbytes, i16 %acc, <256 x i32> %sum, <1024 x i8> %a, <1024 x i8> %b) nounwind alwaysinline readnone {
  %a.tile = bitcast <1024 x i8> %a to x86_amx
  %b.tile = bitcast <1024 x i8> %b to x86_amx
  %sum.tile = bitcast <256 x i32> %sum to x86_amx
  %tile = tail call x86_amx @llvm.x86.tdpbuud.internal(i16 %rows, i16 %colbytes, i16 %acc, x86_amx %sum.tile, x86_amx %a.tile, x86_amx %b.tile) nounwind readnone
  %r = bitcast x86_amx %tile to <256 x i32>
  ret <256 x i32> %r
}
declare x86_amx @llvm.x86.tdpbf16ps.internal(i16, i16, i16, x86_amx, x86_amx, x86_amx)
define weak_odr <256 x float> @tdpbf16ps(i16 %rows, i16 %colbytes, i16 %acc, <256 x float> %sum, <512 x i16> %a, <512 x i16> %b) nounwind alwaysinline readnone {
  %a.tile = bitcast <512 x i16> %a to x86_amx
  %b.tile = bitcast <512 x i16> %b to x86_amx
  %sum.tile = bitcast <256 x float> %sum to x86_amx
  %tile = tail call x86_amx @llvm.x86.tdpbf16ps.internal(i16 %rows, i16 %colbytes, i16 %acc, x86_amx %sum.tile, x86_amx %a.tile, x86_amx %b.tile) nounwind readnone
  %r = bitcast x86_amx %tile to <256 x float>
  ret <256 x float> %r
}
