// SPDX-License-Identifier: Apache-2.0
// The forms of wgmma.mma_async that the kernels use: sums [64, kN] in FP32 (+)= A [64, 32 bytes of K] times B^T. Inline
// assembly needs its operand numbers as literals, hence macros: a row at the end of the file is a form. B's descriptor
// is K-major, or MN-major with kTransposed (16-bit operands only). Device code alone.
// Source: PTX ISA, wgmma.mma_async.
#pragma once

#include <cstdint>

#include "kernels/cuda/block/tensor_core.h"

namespace dunlin::kernels::cuda {

// E4M3 codes as an operand.
struct E4M3Format {
  static constexpr DType kDType = DType::kF8E4M3;
  DUNLIN_HD static float ToFloat(uint8_t code) { return FromE4M3(code); }
};

#ifdef __CUDACC__

// SharedA: A by descriptor. RegisterA: A in registers, as four of mma.m16n8k16's (or m16n8k32's) per warp of 16 rows.
// add: false overwrites the sums.
template <typename Format, int kN>
struct Wgmma;

// clang-format off
#define DUNLIN_NAMES_4 "%0, %1, %2, %3"
#define DUNLIN_NAMES_8 DUNLIN_NAMES_4 ", %4, %5, %6, %7"
#define DUNLIN_NAMES_16 DUNLIN_NAMES_8 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define DUNLIN_NAMES_32 DUNLIN_NAMES_16 ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define DUNLIN_NAMES_64 DUNLIN_NAMES_32                                                                   \
  ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"                      \
  ", %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define DUNLIN_NAMES_128 DUNLIN_NAMES_64                                                                  \
  ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79"                      \
  ", %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"                      \
  ", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111"          \
  ", %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define DUNLIN_SUMS_4_FROM(i) "+f"(sums[i]), "+f"(sums[i + 1]), "+f"(sums[i + 2]), "+f"(sums[i + 3])
#define DUNLIN_SUMS_16_FROM(i) \
  DUNLIN_SUMS_4_FROM(i), DUNLIN_SUMS_4_FROM(i + 4), DUNLIN_SUMS_4_FROM(i + 8), DUNLIN_SUMS_4_FROM(i + 12)
#define DUNLIN_SUMS_4 DUNLIN_SUMS_4_FROM(0)
#define DUNLIN_SUMS_8 DUNLIN_SUMS_4, DUNLIN_SUMS_4_FROM(4)
#define DUNLIN_SUMS_16 DUNLIN_SUMS_16_FROM(0)
#define DUNLIN_SUMS_32 DUNLIN_SUMS_16, DUNLIN_SUMS_16_FROM(16)
#define DUNLIN_SUMS_64 DUNLIN_SUMS_32, DUNLIN_SUMS_16_FROM(32), DUNLIN_SUMS_16_FROM(48)
#define DUNLIN_SUMS_128 \
  DUNLIN_SUMS_64, DUNLIN_SUMS_16_FROM(64), DUNLIN_SUMS_16_FROM(80), DUNLIN_SUMS_16_FROM(96), DUNLIN_SUMS_16_FROM(112)

// n: kN; half: kN / 2, the sums of a thread; o0 to o5: the operand numbers after them.
#define DUNLIN_WGMMA_SHARED(n, half, shape, immediates, o0, o1, o2)                                            \
  asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, %" #o2 ", 0;\n"                                           \
               "wgmma.mma_async.sync.aligned.m64n" #n shape " {" DUNLIN_NAMES_##half "}, %" #o0 ", %" #o1      \
               ", add, 1, 1" immediates ";\n}\n"                                                               \
               : DUNLIN_SUMS_##half : "l"(a), "l"(b), "r"(add))
#define DUNLIN_WGMMA_REGISTER(n, half, shape, immediates, o0, o1, o2, o3, o4, o5)                              \
  asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, %" #o5 ", 0;\n"                                           \
               "wgmma.mma_async.sync.aligned.m64n" #n shape " {" DUNLIN_NAMES_##half "}, {%" #o0 ", %" #o1     \
               ", %" #o2 ", %" #o3 "}, %" #o4 ", add, 1, 1" immediates ";\n}\n"                                \
               : DUNLIN_SUMS_##half : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add))

#define DUNLIN_WGMMA_16(format, shape, n, half, o0, o1, o2, o3, o4, o5)                                        \
  template <> struct Wgmma<format, n> {                                                                        \
    template <bool kTransposed>                                                                                \
    static DUNLIN_DEVICE void SharedA(float (&sums)[half], uint64_t a, uint64_t b, int add) {                  \
      if constexpr (kTransposed) DUNLIN_WGMMA_SHARED(n, half, shape, ", 0, 1", o0, o1, o2);                    \
      else DUNLIN_WGMMA_SHARED(n, half, shape, ", 0, 0", o0, o1, o2);                                          \
    }                                                                                                          \
    template <bool kTransposed>                                                                                \
    static DUNLIN_DEVICE void RegisterA(float (&sums)[half], const uint32_t (&a)[4], uint64_t b, int add) {    \
      if constexpr (kTransposed) DUNLIN_WGMMA_REGISTER(n, half, shape, ", 1", o0, o1, o2, o3, o4, o5);         \
      else DUNLIN_WGMMA_REGISTER(n, half, shape, ", 0", o0, o1, o2, o3, o4, o5);                               \
    }                                                                                                          \
  };
#define DUNLIN_WGMMA_8(format, shape, n, half, o0, o1, o2, o3, o4, o5)                                         \
  template <> struct Wgmma<format, n> {                                                                        \
    template <bool kTransposed>                                                                                \
    static DUNLIN_DEVICE void SharedA(float (&sums)[half], uint64_t a, uint64_t b, int add) {                  \
      static_assert(!kTransposed);                                                                             \
      DUNLIN_WGMMA_SHARED(n, half, shape, "", o0, o1, o2);                                                     \
    }                                                                                                          \
    template <bool kTransposed>                                                                                \
    static DUNLIN_DEVICE void RegisterA(float (&sums)[half], const uint32_t (&a)[4], uint64_t b, int add) {    \
      static_assert(!kTransposed);                                                                             \
      DUNLIN_WGMMA_REGISTER(n, half, shape, "", o0, o1, o2, o3, o4, o5);                                       \
    }                                                                                                          \
  };

#define DUNLIN_WGMMA_WIDTHS(Kind, format, shape)              \
  Kind(format, shape, 8, 4, 4, 5, 6, 7, 8, 9)                 \
  Kind(format, shape, 16, 8, 8, 9, 10, 11, 12, 13)            \
  Kind(format, shape, 32, 16, 16, 17, 18, 19, 20, 21)         \
  Kind(format, shape, 64, 32, 32, 33, 34, 35, 36, 37)         \
  Kind(format, shape, 128, 64, 64, 65, 66, 67, 68, 69)        \
  Kind(format, shape, 256, 128, 128, 129, 130, 131, 132, 133)

DUNLIN_WGMMA_WIDTHS(DUNLIN_WGMMA_16, Bf16Format, "k16.f32.bf16.bf16")
DUNLIN_WGMMA_WIDTHS(DUNLIN_WGMMA_16, Fp16Format, "k16.f32.f16.f16")
DUNLIN_WGMMA_WIDTHS(DUNLIN_WGMMA_8, E4M3Format, "k32.f32.e4m3.e4m3")
// clang-format on

#undef DUNLIN_WGMMA_WIDTHS
#undef DUNLIN_WGMMA_8
#undef DUNLIN_WGMMA_16
#undef DUNLIN_WGMMA_REGISTER
#undef DUNLIN_WGMMA_SHARED

#endif  // __CUDACC__

}  // namespace dunlin::kernels::cuda
