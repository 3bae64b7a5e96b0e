#include "kernels/cpu/vector/rows.h"

#include "kernels/cpu/avx2/kernels.h"
#include "kernels/cpu/avx2/lanes.h"

namespace dunlin::kernels::cpu::avx2 {

using Rows = vector::Rows<Lanes>;

NormMoments Moments(NormKind kind, const float* in, int64_t n, float epsilon) {
  return Rows::Moments(kind, in, n, epsilon);
}
void Normalize(const float* in, NormMoments moments, const float* weight, const float* bias, int64_t n, float* out) {
  Rows::Normalize(in, moments, weight, bias, n, out);
}
void Activate(ActivationKind kind, const float* in, const float* gated_by, int64_t n, float* out) {
  Rows::Activate(kind, in, gated_by, n, out);
}
void Softcap(float cap, int64_t n, float* values) {
  Rows::Softcap(cap, n, values);
}
uint32_t MaxMagnitudeBits(const float* in, int64_t n) {
  return Rows::MaxMagnitudeBits(in, n);
}

}  // namespace dunlin::kernels::cpu::avx2
