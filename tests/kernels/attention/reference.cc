// SPDX-License-Identifier: Apache-2.0
// Plain loops: meant to be read, not to be fast.
#include "tests/kernels/attention/reference.h"

#include <algorithm>
#include <cmath>

#include "tests/kernels/attention/synthetic.h"

namespace dunlin::kernels::testing {
namespace {

template <typename Real>
std::vector<Real> SoftmaxOfScores(const ReferenceRow& row) {
  std::vector<Real> p(static_cast<size_t>(row.limit), -INFINITY);
  Real max = -INFINITY;
  for (int32_t j = row.begin; j < row.limit; ++j) {
    Real dot = 0;
    for (int32_t d = 0; d < row.head_dim; ++d) {
      dot += static_cast<Real>(row.q[d]) * static_cast<Real>(row.keys[int64_t{j} * row.head_dim + d]);
    }
    Real score = dot * static_cast<Real>(row.scale);
    if (row.softcap > 0.0F) score = std::tanh(score / static_cast<Real>(row.softcap)) * static_cast<Real>(row.softcap);
    score += static_cast<Real>(row.slope) * static_cast<Real>(j - row.position);
    if (row.bias != nullptr) score += static_cast<Real>(row.bias[j]);
    if (row.mask != nullptr && row.mask[j] == 0) score = -INFINITY;
    p[static_cast<size_t>(j)] = score;
    max = std::max(max, score);
  }
  Real sum = row.sink == nullptr || max == -INFINITY ? Real{0} : std::exp(static_cast<Real>(*row.sink) - max);
  for (Real& x : p) sum += x = x == -INFINITY ? Real{0} : std::exp(x - max);
  if (sum == 0) return p;
  for (Real& x : p) x /= sum;
  return p;
}

template <typename Real>
std::vector<Real> Weighted(const ReferenceRow& row, const std::vector<Real>& p) {
  std::vector<Real> out(static_cast<size_t>(row.value_dim()), Real{0});
  for (int32_t j = row.begin; j < row.limit; ++j) {
    if (p[static_cast<size_t>(j)] == 0) continue;
    for (int32_t d = 0; d < row.value_dim(); ++d) {
      out[static_cast<size_t>(d)] +=
          p[static_cast<size_t>(j)] * static_cast<Real>(row.values[int64_t{j} * row.value_dim() + d]);
    }
  }
  return out;
}

}  // namespace

std::vector<double> ExactRow(const ReferenceRow& row) {
  return Weighted(row, SoftmaxOfScores<double>(row));
}

std::vector<float> UnfusedRow(const ReferenceRow& row, DType dtype) {
  std::vector<float> p = SoftmaxOfScores<float>(row);
  for (float& x : p) x = RoundTo(dtype, x);
  std::vector<float> out = Weighted(row, p);
  for (float& x : out) x = RoundTo(dtype, x);
  return out;
}

void ErrorBound::Add(const std::vector<double>& exact, const std::vector<float>& unfused, const float* actual) {
  for (size_t d = 0; d < exact.size(); ++d) {
    const double error = std::fabs(static_cast<double>(actual[d]) - exact[d]);
    actual_ = std::isnan(error) || std::isnan(actual_) ? NAN : std::max(actual_, error);
    unfused_ = std::max(unfused_, std::fabs(static_cast<double>(unfused[d]) - exact[d]));
  }
}

}  // namespace dunlin::kernels::testing
