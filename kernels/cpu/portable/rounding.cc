// Rounding of rows to the small formats, by the scalar functions themselves.
#include "kernels/api/float_formats.h"
#include "kernels/cpu/portable/kernels.h"

namespace dunlin::kernels::cpu::portable {

void ToBf16(const float* in, int64_t n, uint16_t* out) {
  for (int64_t i = 0; i < n; ++i) out[i] = FloatToBf16(in[i]);
}

void ToFp16(const float* in, int64_t n, uint16_t* out) {
  for (int64_t i = 0; i < n; ++i) out[i] = FloatToFp16(in[i]);
}

void ToE4M3(const float* in, float factor, int64_t n, uint8_t* out) {
  for (int64_t i = 0; i < n; ++i) out[i] = FloatToE4M3(in[i] * factor);
}

void Bf16Row(const float* in, int64_t n, void* row) {
  auto* out = static_cast<float*>(row);
  for (int64_t i = 0; i < n; ++i) out[i] = Bf16ToFloat(FloatToBf16(in[i]));
}

void Fp8Row(const float* in, float factor, int64_t n, void* row) {
  auto* out = static_cast<float*>(row);
  for (int64_t i = 0; i < n; ++i) out[i] = E4M3ToFloat(FloatToE4M3(in[i] * factor));
}

}  // namespace dunlin::kernels::cpu::portable
