// SPDX-License-Identifier: Apache-2.0
// What adjusts the scores of FLASH by wgmma: soft caps, then ALiBi. Products become exponents of 2, whose factor is 1
// from there on. Masks come after them.
#pragma once

#include "kernels/cuda/attention/flash/sm90/wgmma_flash_rows.h"

namespace dunlin::kernels::cuda {

// A multiprocessor's special functions. Tests replace them by others that err as much as these may.
struct SpecialFunctions {
  // 2^x within 2 ulp.
  DUNLIN_DEVICE static float PowerOf2(float x) { return Exp2(x); }
  // 1 / x within 1 ulp; of infinity 0. x >= 1.
  DUNLIN_DEVICE static float Reciprocal(float x) {
#ifdef __CUDA_ARCH__
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
#else
    return 1.0F / x;
#endif
  }
};

// A score under a soft cap as an exponent of 2, cap * tanh(score / softcap), where cap = softcap * log2(e). By
// tanh(x) = 1 - 2 / (e^(2x) + 1): two special functions and three operations, within cap * 2^-20 (kWgmmaSoftcapMax).
// tanh.approx would be one, within 2^-11: a weight of Gemma 2, whose cap is 50, would be off by up to 2.5 %.
template <typename Functions = SpecialFunctions>
DUNLIN_DEVICE float CappedExponent(float cap, float cap_factor, float product) {
  const float power = Functions::PowerOf2(product * cap_factor);
  return fmaf(Functions::Reciprocal(power + 1.0F), -2.0F * cap, cap);
}

template <typename Shape, typename Block>
struct WgmmaFlashScores {
  using State = WgmmaFlashState<Shape>;
  using Rows = WgmmaFlashRows<Shape, Block>;

  const WgmmaFlashBlock<Shape, Block>& at;

  // The slopes of the thread's rows, of an exponent of 2.
  DUNLIN_DEVICE void FindSlopes(int warpgroup, int thread, State* own) const {
    const float* slopes = at.flash.call.alibi_slopes;
    DUNLIN_UNROLL
    for (int half = 0; half < 2; ++half) {
      const int32_t row = Rows::RowOf(warpgroup, thread, half);
      const bool sloped = slopes != nullptr && row < at.task.rows.num_rows;
      own->slope[half] = sloped ? slopes[at.task.rows.Head(row)] * kLog2E : 0.0F;
    }
  }

  // The products of `tile` to exponents of 2.
  DUNLIN_DEVICE void Adjust(int32_t tile, int warpgroup, int thread, State* own) const {
    if (at.flash.cap > 0.0F) {
      DUNLIN_UNROLL
      for (float& score : own->scores) score = CappedExponent(at.flash.cap, at.flash.cap_factor, score);
    } else {
      const float factor = WgmmaFlashFactor(at.flash.call);
      DUNLIN_UNROLL
      for (float& score : own->scores) score *= factor;
    }
    if (at.flash.call.alibi_slopes != nullptr) AddDistances(tile, warpgroup, thread, own);
  }

  // As AdjustedScore, by the distance from the row's limit: whole numbers, exact in FP32.
  DUNLIN_DEVICE void AddDistances(int32_t tile, int warpgroup, int thread, State* own) const {
    const int32_t first_key = tile * Shape::kTileKeys + Rows::KeyOf(warpgroup, thread, 0);
    const float first[2] = {static_cast<float>(first_key - own->limit[0]),
                            static_cast<float>(first_key - own->limit[1])};
    DUNLIN_UNROLL
    for (int i = 0; i < Shape::kScoreKeys / 2; ++i) {
      const int half = i / 2 % 2;
      const float distance = first[half] + static_cast<float>(i / 4 * 8 + i % 2);
      own->scores[i] = fmaf(own->slope[half], distance, own->scores[i]);
    }
  }
};

}  // namespace dunlin::kernels::cuda
