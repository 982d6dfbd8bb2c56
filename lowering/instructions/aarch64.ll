; SPDX-License-Identifier: MIT
; AArch64 instructions without an expression in Halide 21, as functions that a Call names. The module replaces Halide's own of
; that name in the programs that make kernels. A Call of vector type finds the function whose name ends in x2, x4 or x8, and
; calls it once for each 2, 4 or 8 lanes; a scalar Call finds the name alone.

; Dot products of pairs of bf16, added to each of four sums: bfdot. bf16 are passed as 16-bit integers, in which Halide keeps
; them.
declare <4 x float> @llvm.aarch64.neon.bfdot.v4f32.v8bf16(<4 x float>, <8 x bfloat>, <8 x bfloat>)
define weak_odr <4 x float> @attune_bf16_dotx4(<4 x float> %sum, <8 x i16> %a, <8 x i16> %b) nounwind alwaysinline {
  %a.bf16 = bitcast <8 x i16> %a to <8 x bfloat>
  %b.bf16 = bitcast <8 x i16> %b to <8 x bfloat>
  %r = tail call <4 x float> @llvm.aarch64.neon.bfdot.v4f32.v8bf16(<4 x float> %sum, <8 x bfloat> %a.bf16, <8 x bfloat> %b.bf16)
  ret <4 x float> %r
}

; Sums of 2 rows by 2 columns, each of 8 products of int8: smmla. Rows and columns are halves of the factors.
declare <4 x i32> @llvm.aarch64.neon.smmla.v4i32.v16i8(<4 x i32>, <16 x i8>, <16 x i8>)
define weak_odr <4 x i32> @attune_int8_matrixx4(<4 x i32> %sum, <16 x i8> %a, <16 x i8> %b) nounwind alwaysinline {
  %r = tail call <4 x i32> @llvm.aarch64.neon.smmla.v4i32.v16i8(<4 x i32> %sum, <16 x i8> %a, <16 x i8> %b)
  ret <4 x i32> %r
}

; Rounding to bf16, ties to even: bfcvtn, bfcvtn2, and bfcvt of one float.
define weak_odr <8 x i16> @attune_round_to_bf16x8(<8 x float> %x) nounwind alwaysinline {
  %rounded = fptrunc <8 x float> %x to <8 x bfloat>
  %r = bitcast <8 x bfloat> %rounded to <8 x i16>
  ret <8 x i16> %r
}
define weak_odr <4 x i16> @attune_round_to_bf16x4(<4 x float> %x) nounwind alwaysinline {
  %rounded = fptrunc <4 x float> %x to <4 x bfloat>
  %r = bitcast <4 x bfloat> %rounded to <4 x i16>
  ret <4 x i16> %r
}
define weak_odr i16 @attune_round_to_bf16(float %x) nounwind alwaysinline {
  %rounded = fptrunc float %x to bfloat
  %r = bitcast bfloat %rounded to i16
  ret i16 %r
}

; Multiply-adds rounded once: c + a*b, c - a*b, a*b - c (fmla, fmls, fneg and fmla; fmadd, fmsub, fnmsub of one number).
declare float @llvm.fma.f32(float, float, float)
define weak_odr float @attune_fmadd_f32(float %a, float %b, float %c) nounwind alwaysinline {
  %r = tail call float @llvm.fma.f32(float %a, float %b, float %c)
  ret float %r
}
define weak_odr float @attune_fmsub_f32(float %a, float %b, float %c) nounwind alwaysinline {
  %a.negated = fneg float %a
  %r = tail call float @llvm.fma.f32(float %a.negated, float %b, float %c)
  ret float %r
}
define weak_odr float @attune_fnmsub_f32(float %a, float %b, float %c) nounwind alwaysinline {
  %c.negated = fneg float %c
  %r = tail call float @llvm.fma.f32(float %a, float %b, float %c.negated)
  ret float %r
}
declare <2 x float> @llvm.fma.v2f32(<2 x float>, <2 x float>, <2 x float>)
define weak_odr <2 x float> @attune_fmadd_f32x2(<2 x float> %a, <2 x float> %b, <2 x float> %c) nounwind alwaysinline {
  %r = tail call <2 x float> @llvm.fma.v2f32(<2 x float> %a, <2 x float> %b, <2 x float> %c)
  ret <2 x float> %r
}
define weak_odr <2 x float> @attune_fmsub_f32x2(<2 x float> %a, <2 x float> %b, <2 x float> %c) nounwind alwaysinline {
  %a.negated = fneg <2 x float> %a
  %r = tail call <2 x float> @llvm.fma.v2f32(<2 x float> %a.negated, <2 x float> %b, <2 x float> %c)
  ret <2 x float> %r
}
define weak_odr <2 x float> @attune_fnmsub_f32x2(<2 x float> %a, <2 x float> %b, <2 x float> %c) nounwind alwaysinline {
  %c.negated = fneg <2 x float> %c
  %r = tail call <2 x float> @llvm.fma.v2f32(<2 x float> %a, <2 x float> %b, <2 x float> %c.negated)
  ret <2 x float> %r
}
declare <4 x float> @llvm.fma.v4f32(<4 x float>, <4 x float>, <4 x float>)
define weak_odr <4 x float> @attune_fmadd_f32x4(<4 x float> %a, <4 x float> %b, <4 x float> %c) nounwind alwaysinline {
  %r = tail call <4 x float> @llvm.fma.v4f32(<4 x float> %a, <4 x float> %b, <4 x float> %c)
  ret <4 x float> %r
}
define weak_odr <4 x float> @attune_fmsub_f32x4(<4 x float> %a, <4 x float> %b, <4 x float> %c) nounwind alwaysinline {
  %a.negated = fneg <4 x float> %a
  %r = tail call <4 x float> @llvm.fma.v4f32(<4 x float> %a.negated, <4 x float> %b, <4 x float> %c)
  ret <4 x float> %r
}
define weak_odr <4 x float> @attune_fnmsub_f32x4(<4 x float> %a, <4 x float> %b, <4 x float> %c) nounwind alwaysinline {
  %c.negated = fneg <4 x float> %c
  %r = tail call <4 x float> @llvm.fma.v4f32(<4 x float> %a, <4 x float> %b, <4 x float> %c.negated)
  ret <4 x float> %r
}
declare double @llvm.fma.f64(double, double, double)
define weak_odr double @attune_fmadd_f64(double %a, double %b, double %c) nounwind alwaysinline {
  %r = tail call double @llvm.fma.f64(double %a, double %b, double %c)
  ret double %r
}
define weak_odr double @attune_fmsub_f64(double %a, double %b, double %c) nounwind alwaysinline {
  %a.negated = fneg double %a
  %r = tail call double @llvm.fma.f64(double %a.negated, double %b, double %c)
  ret double %r
}
define weak_odr double @attune_fnmsub_f64(double %a, double %b, double %c) nounwind alwaysinline {
  %c.negated = fneg double %c
  %r = tail call double @llvm.fma.f64(double %a, double %b, double %c.negated)
  ret double %r
}
declare <2 x double> @llvm.fma.v2f64(<2 x double>, <2 x double>, <2 x double>)
define weak_odr <2 x double> @attune_fmadd_f64x2(<2 x double> %a, <2 x double> %b, <2 x double> %c) nounwind alwaysinline {
  %r = tail call <2 x double> @llvm.fma.v2f64(<2 x double> %a, <2 x double> %b, <2 x double> %c)
  ret <2 x double> %r
}
define weak_odr <2 x double> @attune_fmsub_f64x2(<2 x double> %a, <2 x double> %b, <2 x double> %c) nounwind alwaysinline {
  %a.negated = fneg <2 x double> %a
  %r = tail call <2 x double> @llvm.fma.v2f64(<2 x double> %a.negated, <2 x double> %b, <2 x double> %c)
  ret <2 x double> %r
}
define weak_odr <2 x double> @attune_fnmsub_f64x2(<2 x double> %a, <2 x double> %b, <2 x double> %c) nounwind alwaysinline {
  %c.negated = fneg <2 x double> %c
  %r = tail call <2 x double> @llvm.fma.v2f64(<2 x double> %a, <2 x double> %b, <2 x double> %c.negated)
  ret <2 x double> %r
}

; Functions that Halide's code generation calls by name where a kernel has their patterns. Names and types are an interface of
; Halide 21.0.0 (test lowering.modules finds a missing one); a missing function is an undefined symbol of the first kernel with
; its pattern.

; Absolute differences, widened.
declare <8 x i8> @llvm.aarch64.neon.sabd.v8i8(<8 x i8>, <8 x i8>)
define weak_odr <8 x i16> @vabdl_i8x8(<8 x i8> %a, <8 x i8> %b) nounwind alwaysinline {
  %difference = tail call <8 x i8> @llvm.aarch64.neon.sabd.v8i8(<8 x i8> %a, <8 x i8> %b)
  %r = zext <8 x i8> %difference to <8 x i16>
  ret <8 x i16> %r
}
declare <8 x i8> @llvm.aarch64.neon.uabd.v8i8(<8 x i8>, <8 x i8>)
define weak_odr <8 x i16> @vabdl_u8x8(<8 x i8> %a, <8 x i8> %b) nounwind alwaysinline {
  %difference = tail call <8 x i8> @llvm.aarch64.neon.uabd.v8i8(<8 x i8> %a, <8 x i8> %b)
  %r = zext <8 x i8> %difference to <8 x i16>
  ret <8 x i16> %r
}
declare <4 x i16> @llvm.aarch64.neon.sabd.v4i16(<4 x i16>, <4 x i16>)
define weak_odr <4 x i32> @vabdl_i16x4(<4 x i16> %a, <4 x i16> %b) nounwind alwaysinline {
  %difference = tail call <4 x i16> @llvm.aarch64.neon.sabd.v4i16(<4 x i16> %a, <4 x i16> %b)
  %r = zext <4 x i16> %difference to <4 x i32>
  ret <4 x i32> %r
}
declare <4 x i16> @llvm.aarch64.neon.uabd.v4i16(<4 x i16>, <4 x i16>)
define weak_odr <4 x i32> @vabdl_u16x4(<4 x i16> %a, <4 x i16> %b) nounwind alwaysinline {
  %difference = tail call <4 x i16> @llvm.aarch64.neon.uabd.v4i16(<4 x i16> %a, <4 x i16> %b)
  %r = zext <4 x i16> %difference to <4 x i32>
  ret <4 x i32> %r
}
declare <2 x i32> @llvm.aarch64.neon.sabd.v2i32(<2 x i32>, <2 x i32>)
define weak_odr <2 x i64> @vabdl_i32x2(<2 x i32> %a, <2 x i32> %b) nounwind alwaysinline {
  %difference = tail call <2 x i32> @llvm.aarch64.neon.sabd.v2i32(<2 x i32> %a, <2 x i32> %b)
  %r = zext <2 x i32> %difference to <2 x i64>
  ret <2 x i64> %r
}
declare <2 x i32> @llvm.aarch64.neon.uabd.v2i32(<2 x i32>, <2 x i32>)
define weak_odr <2 x i64> @vabdl_u32x2(<2 x i32> %a, <2 x i32> %b) nounwind alwaysinline {
  %difference = tail call <2 x i32> @llvm.aarch64.neon.uabd.v2i32(<2 x i32> %a, <2 x i32> %b)
  %r = zext <2 x i32> %difference to <2 x i64>
  ret <2 x i64> %r
}

; Estimates of 1/x and of 1/sqrt(x), with one Newton step.
declare float @llvm.aarch64.neon.frecpe.f32(float)
declare float @llvm.aarch64.neon.frecps.f32(float, float)
define weak_odr float @fast_inverse_f32(float %x) nounwind alwaysinline {
  %estimate = tail call float @llvm.aarch64.neon.frecpe.f32(float %x)
  %step = tail call float @llvm.aarch64.neon.frecps.f32(float %estimate, float %x)
  %r = fmul float %estimate, %step
  ret float %r
}
declare float @llvm.aarch64.neon.frsqrte.f32(float)
declare float @llvm.aarch64.neon.frsqrts.f32(float, float)
define weak_odr float @fast_inverse_sqrt_f32(float %x) nounwind alwaysinline {
  %estimate = tail call float @llvm.aarch64.neon.frsqrte.f32(float %x)
  %factor = fmul float %estimate, %estimate
  %step = tail call float @llvm.aarch64.neon.frsqrts.f32(float %factor, float %x)
  %r = fmul float %estimate, %step
  ret float %r
}
declare <2 x float> @llvm.aarch64.neon.frecpe.v2f32(<2 x float>)
declare <2 x float> @llvm.aarch64.neon.frecps.v2f32(<2 x float>, <2 x float>)
define weak_odr <2 x float> @fast_inverse_f32x2(<2 x float> %x) nounwind alwaysinline {
  %estimate = tail call <2 x float> @llvm.aarch64.neon.frecpe.v2f32(<2 x float> %x)
  %step = tail call <2 x float> @llvm.aarch64.neon.frecps.v2f32(<2 x float> %estimate, <2 x float> %x)
  %r = fmul <2 x float> %estimate, %step
  ret <2 x float> %r
}
declare <2 x float> @llvm.aarch64.neon.frsqrte.v2f32(<2 x float>)
declare <2 x float> @llvm.aarch64.neon.frsqrts.v2f32(<2 x float>, <2 x float>)
define weak_odr <2 x float> @fast_inverse_sqrt_f32x2(<2 x float> %x) nounwind alwaysinline {
  %estimate = tail call <2 x float> @llvm.aarch64.neon.frsqrte.v2f32(<2 x float> %x)
  %factor = fmul <2 x float> %estimate, %estimate
  %step = tail call <2 x float> @llvm.aarch64.neon.frsqrts.v2f32(<2 x float> %factor, <2 x float> %x)
  %r = fmul <2 x float> %estimate, %step
  ret <2 x float> %r
}
declare <4 x float> @llvm.aarch64.neon.frecpe.v4f32(<4 x float>)
declare <4 x float> @llvm.aarch64.neon.frecps.v4f32(<4 x float>, <4 x float>)
define weak_odr <4 x float> @fast_inverse_f32x4(<4 x float> %x) nounwind alwaysinline {
  %estimate = tail call <4 x float> @llvm.aarch64.neon.frecpe.v4f32(<4 x float> %x)
  %step = tail call <4 x float> @llvm.aarch64.neon.frecps.v4f32(<4 x float> %estimate, <4 x float> %x)
  %r = fmul <4 x float> %estimate, %step
  ret <4 x float> %r
}
declare <4 x float> @llvm.aarch64.neon.frsqrte.v4f32(<4 x float>)
declare <4 x float> @llvm.aarch64.neon.frsqrts.v4f32(<4 x float>, <4 x float>)
define weak_odr <4 x float> @fast_inverse_sqrt_f32x4(<4 x float> %x) nounwind alwaysinline {
  %estimate = tail call <4 x float> @llvm.aarch64.neon.frsqrte.v4f32(<4 x float> %x)
  %factor = fmul <4 x float> %estimate, %estimate
  %step = tail call <4 x float> @llvm.aarch64.neon.frsqrts.v4f32(<4 x float> %factor, <4 x float> %x)
  %r = fmul <4 x float> %estimate, %step
  ret <4 x float> %r
}
declare half @llvm.aarch64.neon.frecpe.f16(half)
declare half @llvm.aarch64.neon.frecps.f16(half, half)
define weak_odr half @fast_inverse_f16(half %x) nounwind alwaysinline {
  %estimate = tail call half @llvm.aarch64.neon.frecpe.f16(half %x)
  %step = tail call half @llvm.aarch64.neon.frecps.f16(half %estimate, half %x)
  %r = fmul half %estimate, %step
  ret half %r
}
declare half @llvm.aarch64.neon.frsqrte.f16(half)
declare half @llvm.aarch64.neon.frsqrts.f16(half, half)
define weak_odr half @fast_inverse_sqrt_f16(half %x) nounwind alwaysinline {
  %estimate = tail call half @llvm.aarch64.neon.frsqrte.f16(half %x)
  %factor = fmul half %estimate, %estimate
  %step = tail call half @llvm.aarch64.neon.frsqrts.f16(half %factor, half %x)
  %r = fmul half %estimate, %step
  ret half %r
}
declare <4 x half> @llvm.aarch64.neon.frecpe.v4f16(<4 x half>)
declare <4 x half> @llvm.aarch64.neon.frecps.v4f16(<4 x half>, <4 x half>)
define weak_odr <4 x half> @fast_inverse_f16x4(<4 x half> %x) nounwind alwaysinline {
  %estimate = tail call <4 x half> @llvm.aarch64.neon.frecpe.v4f16(<4 x half> %x)
  %step = tail call <4 x half> @llvm.aarch64.neon.frecps.v4f16(<4 x half> %estimate, <4 x half> %x)
  %r = fmul <4 x half> %estimate, %step
  ret <4 x half> %r
}
declare <4 x half> @llvm.aarch64.neon.frsqrte.v4f16(<4 x half>)
declare <4 x half> @llvm.aarch64.neon.frsqrts.v4f16(<4 x half>, <4 x half>)
define weak_odr <4 x half> @fast_inverse_sqrt_f16x4(<4 x half> %x) nounwind alwaysinline {
  %estimate = tail call <4 x half> @llvm.aarch64.neon.frsqrte.v4f16(<4 x half> %x)
  %factor = fmul <4 x half> %estimate, %estimate
  %step = tail call <4 x half> @llvm.aarch64.neon.frsqrts.v4f16(<4 x half> %factor, <4 x half> %x)
  %r = fmul <4 x half> %estimate, %step
  ret <4 x half> %r
}
declare <8 x half> @llvm.aarch64.neon.frecpe.v8f16(<8 x half>)
declare <8 x half> @llvm.aarch64.neon.frecps.v8f16(<8 x half>, <8 x half>)
define weak_odr <8 x half> @fast_inverse_f16x8(<8 x half> %x) nounwind alwaysinline {
  %estimate = tail call <8 x half> @llvm.aarch64.neon.frecpe.v8f16(<8 x half> %x)
  %step = tail call <8 x half> @llvm.aarch64.neon.frecps.v8f16(<8 x half> %estimate, <8 x half> %x)
  %r = fmul <8 x half> %estimate, %step
  ret <8 x half> %r
}
declare <8 x half> @llvm.aarch64.neon.frsqrte.v8f16(<8 x half>)
declare <8 x half> @llvm.aarch64.neon.frsqrts.v8f16(<8 x half>, <8 x half>)
define weak_odr <8 x half> @fast_inverse_sqrt_f16x8(<8 x half> %x) nounwind alwaysinline {
  %estimate = tail call <8 x half> @llvm.aarch64.neon.frsqrte.v8f16(<8 x half> %x)
  %factor = fmul <8 x half> %estimate, %estimate
  %step = tail call <8 x half> @llvm.aarch64.neon.frsqrts.v8f16(<8 x half> %factor, <8 x half> %x)
  %r = fmul <8 x half> %estimate, %step
  ret <8 x half> %r
}
declare <vscale x 4 x float> @llvm.aarch64.sve.frecpe.x.nxv4f32(<vscale x 4 x float>)
declare <vscale x 4 x float> @llvm.aarch64.sve.frecps.x.nxv4f32(<vscale x 4 x float>, <vscale x 4 x float>)
define weak_odr <vscale x 4 x float> @fast_inverse_f32nx4(<vscale x 4 x float> %x) nounwind alwaysinline {
  %estimate = tail call <vscale x 4 x float> @llvm.aarch64.sve.frecpe.x.nxv4f32(<vscale x 4 x float> %x)
  %step = tail call <vscale x 4 x float> @llvm.aarch64.sve.frecps.x.nxv4f32(<vscale x 4 x float> %estimate, <vscale x 4 x float> %x)
  %r = fmul <vscale x 4 x float> %estimate, %step
  ret <vscale x 4 x float> %r
}
declare <vscale x 4 x float> @llvm.aarch64.sve.frsqrte.x.nxv4f32(<vscale x 4 x float>)
declare <vscale x 4 x float> @llvm.aarch64.sve.frsqrts.x.nxv4f32(<vscale x 4 x float>, <vscale x 4 x float>)
define weak_odr <vscale x 4 x float> @fast_inverse_sqrt_f32nx4(<vscale x 4 x float> %x) nounwind alwaysinline {
  %estimate = tail call <vscale x 4 x float> @llvm.aarch64.sve.frsqrte.x.nxv4f32(<vscale x 4 x float> %x)
  %factor = fmul <vscale x 4 x float> %estimate, %estimate
  %step = tail call <vscale x 4 x float> @llvm.aarch64.sve.frsqrts.x.nxv4f32(<vscale x 4 x float> %factor, <vscale x 4 x float> %x)
  %r = fmul <vscale x 4 x float> %estimate, %step
  ret <vscale x 4 x float> %r
}
declare <vscale x 8 x half> @llvm.aarch64.sve.frecpe.x.nxv8f16(<vscale x 8 x half>)
declare <vscale x 8 x half> @llvm.aarch64.sve.frecps.x.nxv8f16(<vscale x 8 x half>, <vscale x 8 x half>)
define weak_odr <vscale x 8 x half> @fast_inverse_f16nx8(<vscale x 8 x half> %x) nounwind alwaysinline {
  %estimate = tail call <vscale x 8 x half> @llvm.aarch64.sve.frecpe.x.nxv8f16(<vscale x 8 x half> %x)
  %step = tail call <vscale x 8 x half> @llvm.aarch64.sve.frecps.x.nxv8f16(<vscale x 8 x half> %estimate, <vscale x 8 x half> %x)
  %r = fmul <vscale x 8 x half> %estimate, %step
  ret <vscale x 8 x half> %r
}
declare <vscale x 8 x half> @llvm.aarch64.sve.frsqrte.x.nxv8f16(<vscale x 8 x half>)
declare <vscale x 8 x half> @llvm.aarch64.sve.frsqrts.x.nxv8f16(<vscale x 8 x half>, <vscale x 8 x half>)
define weak_odr <vscale x 8 x half> @fast_inverse_sqrt_f16nx8(<vscale x 8 x half> %x) nounwind alwaysinline {
  %estimate = tail call <vscale x 8 x half> @llvm.aarch64.sve.frsqrte.x.nxv8f16(<vscale x 8 x half> %x)
  %factor = fmul <vscale x 8 x half> %estimate, %estimate
  %step = tail call <vscale x 8 x half> @llvm.aarch64.sve.frsqrts.x.nxv8f16(<vscale x 8 x half> %factor, <vscale x 8 x half> %x)
  %r = fmul <vscale x 8 x half> %estimate, %step
  ret <vscale x 8 x half> %r
}
