#include "kernels/cpu/vector/rounding.h"

#include "kernels/cpu/avx512/kernels.h"
#include "kernels/cpu/avx512/lanes.h"

namespace dunlin::kernels::cpu::avx512 {

using Rounding = vector::Rounding<Lanes>;

void ToBf16(const float* in, int64_t n, uint16_t* out) {
  Rounding::ToBf16(in, n, out);
}
void ToFp16(const float* in, int64_t n, uint16_t* out) {
  Rounding::ToFp16(in, n, out);
}
void ToE4M3(const float* in, float factor, int64_t n, uint8_t* out) {
  Rounding::ToE4M3(in, factor, n, out);
}
void Bf16RowOfFloats(const float* in, int64_t n, void* row) {
  Rounding::Bf16RowOfFloats(in, n, row);
}
void Fp8RowOfFloats(const float* in, float factor, int64_t n, void* row) {
  Rounding::Fp8RowOfFloats(in, factor, n, row);
}
void Bf16RowOfBf16(const float* in, int64_t n, void* row) {
  Rounding::Bf16RowOfBf16(in, n, row);
}
void Fp8RowOfBf16(const float* in, float factor, int64_t n, void* row) {
  Rounding::Fp8RowOfBf16(in, factor, n, row);
}

}  // namespace dunlin::kernels::cpu::avx512
