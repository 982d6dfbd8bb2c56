; Instructions of AVX-512 that Halide 21 and LLVM 21 have no expression for, as functions that a Call names. They are assembled
; with the functions of Halide's own module (halide/x86_avx512.ll), whose place both take together in the programs that make
; kernels. A Call of vector type finds the function whose name ends in x16 and calls it once for each 16 lanes; a scalar finds
; that without.

; The nearest integer, ties to even, of a float of any size: vrndscaleps. 8: ties to even, and no exception for a lost fraction.
declare <16 x float> @llvm.x86.avx512.mask.rndscale.ps.512(<16 x float>, i32, <16 x float>, i16, i32)
define weak_odr <16 x float> @attune_nearestx16(<16 x float> %x) nounwind alwaysinline {
  %r = tail call <16 x float> @llvm.x86.avx512.mask.rndscale.ps.512(<16 x float> %x, i32 8, <16 x float> zeroinitializer, i16 -1, i32 4)
  ret <16 x float> %r
}

; factor * 2^floor(n): vscalefps. Where n is -inf it is 0, also of a factor that is NaN.
declare <16 x float> @llvm.x86.avx512.mask.scalef.ps.512(<16 x float>, <16 x float>, <16 x float>, i16, i32)
define weak_odr <16 x float> @attune_scaledx16(<16 x float> %factor, <16 x float> %n) nounwind alwaysinline {
  %r = tail call <16 x float> @llvm.x86.avx512.mask.scalef.ps.512(<16 x float> %factor, <16 x float> %n, <16 x float> zeroinitializer, i16 -1, i32 4)
  ret <16 x float> %r
}

; The same of one float.
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
