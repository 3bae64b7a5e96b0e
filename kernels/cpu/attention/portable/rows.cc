// SPDX-License-Identifier: Apache-2.0
// Query and output rows of the portable variant; queries are packed as FP32.
#include "kernels/cpu/attention/portable/rows.h"

#include <algorithm>

#include "kernels/api/float_formats.h"

namespace dunlin::kernels::cpu::portable {

void LoadQuery(const QueryRowArgs& args) {
  auto* row = reinterpret_cast<float*>(args.packed);
  std::fill_n(row, (args.head_dim + 15) / 16 * 16, 0.0F);
  if (args.sign == 0.0F) return;
  const auto* floats = static_cast<const float*>(args.in);
  const auto* halves = static_cast<const uint16_t*>(args.in);
  for (int d = 0; d < args.head_dim; ++d) {
    const float value = args.in_dtype == DType::kF32   ? floats[d]
                        : args.in_dtype == DType::kF16 ? Fp16ToFloat(halves[d])
                                                       : Bf16ToFloat(halves[d]);
    row[d] = (args.round_to_bf16 ? Bf16ToFloat(FloatToBf16(value)) : value) * args.sign;
  }
}

void StoreOutput(const OutputRowArgs& args) {
  for (int d = 0; d < args.head_dim; ++d) {
    const float value = args.sum == 0.0F ? 0.0F : args.o[d] / args.sum;
    switch (args.out_dtype) {
      case DType::kF32:
        static_cast<float*>(args.out)[d] = value;
        break;
      case DType::kF16:
        static_cast<uint16_t*>(args.out)[d] = FloatToFp16(value);
        break;
      default:
        static_cast<uint16_t*>(args.out)[d] = FloatToBf16(value);
        break;
    }
  }
}

}  // namespace dunlin::kernels::cpu::portable
