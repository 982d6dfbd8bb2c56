; SPDX-License-Identifier: MIT
; AVX-512 instructions without an expression in Halide 21 and LLVM 21, as functions that a Call names. The module replaces
; Halide's own of that name in the programs that make kernels. A Call of vector type finds the function whose name ends in x16
; and calls it once for each 16 lanes; a scalar Call finds the name without x16.

; The nearest integer, ties to even, to a float of any size: vrndscaleps. 8: ties to even, and no exception for a lost fraction.
declare <16 x float> @llvm.x86.avx512.mask.rndscale.ps.512(<16 x float>, i32, <16 x float>, i16, i32)
define weak_odr <16 x float> @attune_nearestx16(<16 x float> %x) nounwind alwaysinline {
  %r = tail call <16 x float> @llvm.x86.avx512.mask.rndscale.ps.512(<16 x float> %x, i32 8, <16 x float> zeroinitializer, i16 -1, i32 4)
  ret <16 x float> %r
}

; factor * 2^floor(n): vscalefps. Gives 0 where n is -inf, also for a factor that is NaN.
declare <16 x float> @llvm.x86.avx512.mask.scalef.ps.512(<16 x float>, <16 x float>, <16 x float>, i16, i32)
define weak_odr <16 x float> @attune_scaledx16(<16 x float> %factor, <16 x float> %n) nounwind alwaysinline {
  %r = tail call <16 x float> @llvm.x86.avx512.mask.scalef.ps.512(<16 x float> %factor, <16 x float> %n, <16 x float> zeroinitializer, i16 -1, i32 4)
  ret <16 x float> %r
}

; Both instructions for one float.
declare <4 x float> @llvm.x86.avx512.mask.rndscale.ps.128(<4 x float>, i32, <4 x float>, i8)
define weak_odr float @attune_nearest(float %x) nounwind alwaysinline {
  %v = insertelement <4 x float> zeroinitializer, float %x, i32 0
  %r = tail call <4 x float> @llvm.x86.avx512.mask.rndscale.ps.128(<4 x float> %v, i32 8, <4 x float> zeroinitializer, i8 -1)
  %s = extractelement <4 x float> %r, i32 0
  ret float %s
}

declare <4 x float> @llvm.x86.avx512.mask.scalef.ps.128(<4 x float>, <4 x float>, <4 x float>, i8)
define weak_odr float @attune_scaled(float %factor, float %n) nounwind alwaysinline {
  %v = insertelement <4 x float> zeroinitializer, float %factor, i32 0
  %w = insertelement <4 x float> zeroinitializer, float %n, i32 0
  %r = tail call <4 x float> @llvm.x86.avx512.mask.scalef.ps.128(<4 x float> %v, <4 x float> %w, <4 x float> zeroinitializer, i8 -1)
  %s = extractelement <4 x float> %r, i32 0
  ret float %s
}

; Functions that Halide's code generation calls by name where a kernel has their patterns. Names and types are an interface of
; Halide 21.0.0 (test lowering.modules finds a missing one); a missing function is an undefined symbol of the first kernel with
; its pattern.

; Rounding to bf16, ties to even. With two vectors the second is the lower half; for four floats only a masked form exists.
declare <32 x i16> @llvm.x86.avx512bf16.cvtne2ps2bf16.512(<16 x float>, <16 x float>)
define weak_odr <32 x i16> @vcvtne2ps2bf16x32(<32 x float> %x) nounwind alwaysinline {
  %low = shufflevector <32 x float> %x, <32 x float> poison, <16 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15>
  %high = shufflevector <32 x float> %x, <32 x float> poison, <16 x i32> <i32 16, i32 17, i32 18, i32 19, i32 20, i32 21, i32 22, i32 23, i32 24, i32 25, i32 26, i32 27, i32 28, i32 29, i32 30, i32 31>
  %rounded = tail call <32 x i16> @llvm.x86.avx512bf16.cvtne2ps2bf16.512(<16 x float> %high, <16 x float> %low)
  ret <32 x i16> %rounded
}
declare <8 x i16> @llvm.x86.avx512bf16.mask.cvtneps2bf16.128(<4 x float>, <8 x i16>, <4 x i1>)
define weak_odr <4 x i16> @vcvtneps2bf16x4(<4 x float> %x) nounwind alwaysinline {
  %rounded = tail call <8 x i16> @llvm.x86.avx512bf16.mask.cvtneps2bf16.128(<4 x float> %x, <8 x i16> poison, <4 x i1> <i1 true, i1 true, i1 true, i1 true>)
  %low = shufflevector <8 x i16> %rounded, <8 x i16> poison, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  ret <4 x i16> %low
}

; Dot products of 2 bf16, 4 bytes or 2 i16, added to each sum; ...s: saturated. The intrinsics take the factors as i32.
declare <16 x float> @llvm.x86.avx512bf16.dpbf16ps.512(<16 x float>, <16 x i32>, <16 x i32>)
define weak_odr <16 x float> @dpbf16psx16(<16 x float> %sum, <32 x i16> %a, <32 x i16> %b) nounwind alwaysinline {
  %a.words = bitcast <32 x i16> %a to <16 x i32>
  %b.words = bitcast <32 x i16> %b to <16 x i32>
  %r = tail call <16 x float> @llvm.x86.avx512bf16.dpbf16ps.512(<16 x float> %sum, <16 x i32> %a.words, <16 x i32> %b.words)
  ret <16 x float> %r
}
declare <8 x float> @llvm.x86.avx512bf16.dpbf16ps.256(<8 x float>, <8 x i32>, <8 x i32>)
define weak_odr <8 x float> @dpbf16psx8(<8 x float> %sum, <16 x i16> %a, <16 x i16> %b) nounwind alwaysinline {
  %a.words = bitcast <16 x i16> %a to <8 x i32>
  %b.words = bitcast <16 x i16> %b to <8 x i32>
  %r = tail call <8 x float> @llvm.x86.avx512bf16.dpbf16ps.256(<8 x float> %sum, <8 x i32> %a.words, <8 x i32> %b.words)
  ret <8 x float> %r
}
declare <4 x float> @llvm.x86.avx512bf16.dpbf16ps.128(<4 x float>, <4 x i32>, <4 x i32>)
define weak_odr <4 x float> @dpbf16psx4(<4 x float> %sum, <8 x i16> %a, <8 x i16> %b) nounwind alwaysinline {
  %a.words = bitcast <8 x i16> %a to <4 x i32>
  %b.words = bitcast <8 x i16> %b to <4 x i32>
  %r = tail call <4 x float> @llvm.x86.avx512bf16.dpbf16ps.128(<4 x float> %sum, <4 x i32> %a.words, <4 x i32> %b.words)
  ret <4 x float> %r
}
declare <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32>, <16 x i32>, <16 x i32>)
define weak_odr <16 x i32> @dpbusdx16(<16 x i32> %sum, <64 x i8> %a, <64 x i8> %b) nounwind alwaysinline {
  %a.words = bitcast <64 x i8> %a to <16 x i32>
  %b.words = bitcast <64 x i8> %b to <16 x i32>
  %r = tail call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> %sum, <16 x i32> %a.words, <16 x i32> %b.words)
  ret <16 x i32> %r
}
declare <8 x i32> @llvm.x86.avx512.vpdpbusd.256(<8 x i32>, <8 x i32>, <8 x i32>)
define weak_odr <8 x i32> @dpbusdx8(<8 x i32> %sum, <32 x i8> %a, <32 x i8> %b) nounwind alwaysinline {
  %a.words = bitcast <32 x i8> %a to <8 x i32>
  %b.words = bitcast <32 x i8> %b to <8 x i32>
  %r = tail call <8 x i32> @llvm.x86.avx512.vpdpbusd.256(<8 x i32> %sum, <8 x i32> %a.words, <8 x i32> %b.words)
  ret <8 x i32> %r
}
declare <4 x i32> @llvm.x86.avx512.vpdpbusd.128(<4 x i32>, <4 x i32>, <4 x i32>)
define weak_odr <4 x i32> @dpbusdx4(<4 x i32> %sum, <16 x i8> %a, <16 x i8> %b) nounwind alwaysinline {
  %a.words = bitcast <16 x i8> %a to <4 x i32>
  %b.words = bitcast <16 x i8> %b to <4 x i32>
  %r = tail call <4 x i32> @llvm.x86.avx512.vpdpbusd.128(<4 x i32> %sum, <4 x i32> %a.words, <4 x i32> %b.words)
  ret <4 x i32> %r
}
declare <16 x i32> @llvm.x86.avx512.vpdpwssd.512(<16 x i32>, <16 x i32>, <16 x i32>)
define weak_odr <16 x i32> @dpwssdx16(<16 x i32> %sum, <32 x i16> %a, <32 x i16> %b) nounwind alwaysinline {
  %a.words = bitcast <32 x i16> %a to <16 x i32>
  %b.words = bitcast <32 x i16> %b to <16 x i32>
  %r = tail call <16 x i32> @llvm.x86.avx512.vpdpwssd.512(<16 x i32> %sum, <16 x i32> %a.words, <16 x i32> %b.words)
  ret <16 x i32> %r
}
declare <8 x i32> @llvm.x86.avx512.vpdpwssd.256(<8 x i32>, <8 x i32>, <8 x i32>)
define weak_odr <8 x i32> @dpwssdx8(<8 x i32> %sum, <16 x i16> %a, <16 x i16> %b) nounwind alwaysinline {
  %a.words = bitcast <16 x i16> %a to <8 x i32>
  %b.words = bitcast <16 x i16> %b to <8 x i32>
  %r = tail call <8 x i32> @llvm.x86.avx512.vpdpwssd.256(<8 x i32> %sum, <8 x i32> %a.words, <8 x i32> %b.words)
  ret <8 x i32> %r
}
declare <4 x i32> @llvm.x86.avx512.vpdpwssd.128(<4 x i32>, <4 x i32>, <4 x i32>)
define weak_odr <4 x i32> @dpwssdx4(<4 x i32> %sum, <8 x i16> %a, <8 x i16> %b) nounwind alwaysinline {
  %a.words = bitcast <8 x i16> %a to <4 x i32>
  %b.words = bitcast <8 x i16> %b to <4 x i32>
  %r = tail call <4 x i32> @llvm.x86.avx512.vpdpwssd.128(<4 x i32> %sum, <4 x i32> %a.words, <4 x i32> %b.words)
  ret <4 x i32> %r
}
declare <16 x i32> @llvm.x86.avx512.vpdpbusds.512(<16 x i32>, <16 x i32>, <16 x i32>)
define weak_odr <16 x i32> @dpbusdsx16(<16 x i32> %sum, <64 x i8> %a, <64 x i8> %b) nounwind alwaysinline {
  %a.words = bitcast <64 x i8> %a to <16 x i32>
  %b.words = bitcast <64 x i8> %b to <16 x i32>
  %r = tail call <16 x i32> @llvm.x86.avx512.vpdpbusds.512(<16 x i32> %sum, <16 x i32> %a.words, <16 x i32> %b.words)
  ret <16 x i32> %r
}
declare <8 x i32> @llvm.x86.avx512.vpdpbusds.256(<8 x i32>, <8 x i32>, <8 x i32>)
define weak_odr <8 x i32> @dpbusdsx8(<8 x i32> %sum, <32 x i8> %a, <32 x i8> %b) nounwind alwaysinline {
  %a.words = bitcast <32 x i8> %a to <8 x i32>
  %b.words = bitcast <32 x i8> %b to <8 x i32>
  %r = tail call <8 x i32> @llvm.x86.avx512.vpdpbusds.256(<8 x i32> %sum, <8 x i32> %a.words, <8 x i32> %b.words)
  ret <8 x i32> %r
}
declare <4 x i32> @llvm.x86.avx512.vpdpbusds.128(<4 x i32>, <4 x i32>, <4 x i32>)
define weak_odr <4 x i32> @dpbusdsx4(<4 x i32> %sum, <16 x i8> %a, <16 x i8> %b) nounwind alwaysinline {
  %a.words = bitcast <16 x i8> %a to <4 x i32>
  %b.words = bitcast <16 x i8> %b to <4 x i32>
  %r = tail call <4 x i32> @llvm.x86.avx512.vpdpbusds.128(<4 x i32> %sum, <4 x i32> %a.words, <4 x i32> %b.words)
  ret <4 x i32> %r
}
declare <16 x i32> @llvm.x86.avx512.vpdpwssds.512(<16 x i32>, <16 x i32>, <16 x i32>)
define weak_odr <16 x i32> @dpwssdsx16(<16 x i32> %sum, <32 x i16> %a, <32 x i16> %b) nounwind alwaysinline {
  %a.words = bitcast <32 x i16> %a to <16 x i32>
  %b.words = bitcast <32 x i16> %b to <16 x i32>
  %r = tail call <16 x i32> @llvm.x86.avx512.vpdpwssds.512(<16 x i32> %sum, <16 x i32> %a.words, <16 x i32> %b.words)
  ret <16 x i32> %r
}
declare <8 x i32> @llvm.x86.avx512.vpdpwssds.256(<8 x i32>, <8 x i32>, <8 x i32>)
define weak_odr <8 x i32> @dpwssdsx8(<8 x i32> %sum, <16 x i16> %a, <16 x i16> %b) nounwind alwaysinline {
  %a.words = bitcast <16 x i16> %a to <8 x i32>
  %b.words = bitcast <16 x i16> %b to <8 x i32>
  %r = tail call <8 x i32> @llvm.x86.avx512.vpdpwssds.256(<8 x i32> %sum, <8 x i32> %a.words, <8 x i32> %b.words)
  ret <8 x i32> %r
}
declare <4 x i32> @llvm.x86.avx512.vpdpwssds.128(<4 x i32>, <4 x i32>, <4 x i32>)
define weak_odr <4 x i32> @dpwssdsx4(<4 x i32> %sum, <8 x i16> %a, <8 x i16> %b) nounwind alwaysinline {
  %a.words = bitcast <8 x i16> %a to <4 x i32>
  %b.words = bitcast <8 x i16> %b to <4 x i32>
  %r = tail call <4 x i32> @llvm.x86.avx512.vpdpwssds.128(<4 x i32> %sum, <4 x i32> %a.words, <4 x i32> %b.words)
  ret <4 x i32> %r
}

; Magnitudes.
declare <64 x i8> @llvm.abs.v64i8(<64 x i8>, i1) nounwind readnone
define weak_odr <64 x i8> @abs_i8x64(<64 x i8> %x) {
  %r = tail call <64 x i8> @llvm.abs.v64i8(<64 x i8> %x, i1 false)
  ret <64 x i8> %r
}
declare <32 x i16> @llvm.abs.v32i16(<32 x i16>, i1) nounwind readnone
define weak_odr <32 x i16> @abs_i16x32(<32 x i16> %x) {
  %r = tail call <32 x i16> @llvm.abs.v32i16(<32 x i16> %x, i1 false)
  ret <32 x i16> %r
}
declare <16 x i32> @llvm.abs.v16i32(<16 x i32>, i1) nounwind readnone
define weak_odr <16 x i32> @abs_i32x16(<16 x i32> %x) {
  %r = tail call <16 x i32> @llvm.abs.v16i32(<16 x i32> %x, i1 false)
  ret <16 x i32> %r
}

; Sums of neighbours, as products with 1, and products of i16 in twice the width.
declare <32 x i16> @llvm.x86.avx512.pmaddubs.w.512(<64 x i8>, <64 x i8>) nounwind readnone
define weak_odr <32 x i16> @hadd_pmadd_u8_avx512(<64 x i8> %x) nounwind alwaysinline {
  %r = tail call <32 x i16> @llvm.x86.avx512.pmaddubs.w.512(<64 x i8> %x, <64 x i8> <i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1>)
  ret <32 x i16> %r
}
define weak_odr <32 x i16> @hadd_pmadd_i8_avx512(<64 x i8> %x) nounwind alwaysinline {
  %r = tail call <32 x i16> @llvm.x86.avx512.pmaddubs.w.512(<64 x i8> <i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1, i8 1>, <64 x i8> %x)
  ret <32 x i16> %r
}
declare <16 x i32> @llvm.x86.avx512.pmaddw.d.512(<32 x i16>, <32 x i16>) nounwind readnone
define weak_odr <16 x i32> @wmul_pmaddwd_avx512(<16 x i16> %a, <16 x i16> %b) nounwind alwaysinline {
  %a.wide = zext <16 x i16> %a to <16 x i32>
  %b.wide = zext <16 x i16> %b to <16 x i32>
  %a.words = bitcast <16 x i32> %a.wide to <32 x i16>
  %b.words = bitcast <16 x i32> %b.wide to <32 x i16>
  %r = call <16 x i32> @llvm.x86.avx512.pmaddw.d.512(<32 x i16> %a.words, <32 x i16> %b.words)
  ret <16 x i32> %r
}
define weak_odr <16 x i32> @hadd_pmadd_i16_avx512(<32 x i16> %x) nounwind alwaysinline {
  %r = call <16 x i32> @llvm.x86.avx512.pmaddw.d.512(<32 x i16> %x, <32 x i16> <i16 1, i16 1, i16 1, i16 1, i16 1, i16 1, i16 1, i16 1, i16 1, i16 1, i16 1, i16 1, i16 1, i16 1, i16 1, i16 1, i16 1, i16 1, i16 1, i16 1, i16 1, i16 1, i16 1, i16 1, i16 1, i16 1, i16 1, i16 1, i16 1, i16 1, i16 1, i16 1>)
  ret <16 x i32> %r
}
