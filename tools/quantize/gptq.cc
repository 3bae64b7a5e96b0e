// SPDX-License-Identifier: Apache-2.0
#include "tools/quantize/gptq.h"

#include <Eigen/Cholesky>
#include <Eigen/Core>
#include <algorithm>
#include <atomic>
#include <cmath>
#include <numeric>
#include <thread>
#include <utility>

#include "engine/base/thread_name.h"

namespace dunlin::engine {
namespace {

using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using MatrixMap = Eigen::Map<Matrix>;
using ConstMatrixMap = Eigen::Map<const Matrix>;

constexpr double kDamping = 0.01;  // of the mean energy of a column
constexpr int kDampingTries = 4;   // each with ten times as much
// Steps whose errors reach the columns behind them with one product. A multiple of every group but a whole row.
constexpr int64_t kBlockSteps = 128;
constexpr int64_t kSliceRows = 64;  // of a task; fixed, so that codes do not depend on the number of threads

// The rows [first, first + width) of a matrix, transposed so that a column's elements are contiguous.
struct Slice {
  const CodeLayout& layout;
  Matrix columns;  // [columns, width] by step
  int64_t first;
  int64_t width;
};

void RoundStep(Slice* slice, int64_t step, int64_t column, float diagonal, CodedMatrix* out, float* errors) {
  float* values = slice->columns.row(step).data();
  for (int64_t n = 0; n < slice->width; ++n) {
    const auto at = static_cast<size_t>((slice->first + n) * out->columns + column);
    const float scale = out->scales[at / static_cast<size_t>(slice->layout.group)];
    out->codes[at] = CodeOf(slice->layout, values[n], scale);
    errors[n] = (values[n] - scale * static_cast<float>(out->codes[at])) / diagonal;
  }
}

// The scales of the group that starts with `step`, from the values as they are by then.
void ScaleGroupAt(const Slice& slice, int64_t step, CodedMatrix* out) {
  const int64_t group = slice.layout.group;
  std::vector<float> values(static_cast<size_t>(group));
  for (int64_t n = 0; n < slice.width; ++n) {
    for (int64_t i = 0; i < group; ++i) values[static_cast<size_t>(i)] = slice.columns(step + i, n);
    const int64_t at = (slice.first + n) * out->num_groups() + step / group;
    out->scales[static_cast<size_t>(at)] = ScaleOfGroup(slice.layout, values);
  }
}

}  // namespace

absl::StatusOr<GptqFactor> GptqFactor::Of(std::vector<float> moments, int64_t columns, bool by_activity) {
  const auto size = static_cast<size_t>(columns);
  const auto energy = [&](int64_t column) { return moments[static_cast<size_t>(column) * (size + 1)]; };
  GptqFactor factor;
  factor.by_activity_ = by_activity;
  factor.idle_.resize(size);
  factor.order_.resize(size);
  std::iota(factor.order_.begin(), factor.order_.end(), 0);
  double total = 0.0;
  for (int64_t k = 0; k < columns; ++k) {
    factor.idle_[static_cast<size_t>(k)] = energy(k) == 0.0F;
    total += static_cast<double>(energy(k));
  }
  if (!std::isfinite(total)) return absl::InvalidArgumentError("the inputs of a linear operation are not finite");
  if (by_activity) {
    std::stable_sort(factor.order_.begin(), factor.order_.end(),
                     [&](int64_t a, int64_t b) { return energy(a) > energy(b); });
  }
  // With the steps reversed, H = L L^T gives H = R R^T with R upper, so that U = R^-1 has U^T U = H^-1.
  Matrix reversed(columns, columns);
  const auto column_of = [&](int64_t row) { return factor.order_[static_cast<size_t>(columns - 1 - row)]; };
  double damping = total == 0.0 ? 1.0 : kDamping * total / static_cast<double>(columns);
  for (int attempt = 0;; ++attempt, damping *= 10.0) {
    for (int64_t i = 0; i < columns; ++i) {
      const float* row = moments.data() + column_of(i) * columns;
      for (int64_t j = 0; j <= i; ++j) reversed(i, j) = row[column_of(j)];
      reversed(i, i) += static_cast<float>(damping);
    }
    const Eigen::LLT<Eigen::Ref<Matrix>, Eigen::Lower> cholesky(reversed);
    if (cholesky.info() == Eigen::Success) break;
    if (attempt + 1 == kDampingTries) return absl::InvalidArgumentError("the moments are not positive definite");
  }
  factor.inverse_ = std::move(moments);
  MatrixMap inverse(factor.inverse_.data(), columns, columns);
  inverse.setIdentity();
  reversed.triangularView<Eigen::Lower>().solveInPlace(inverse);
  inverse.reverseInPlace();
  return factor;
}

CodedMatrix GptqFactor::Quantize(const CodeLayout& layout, std::vector<float> values, int64_t rows,
                                 int num_threads) const {
  const int64_t count = columns();
  for (int64_t k = 0; k < count; ++k) {
    if (!idle_[static_cast<size_t>(k)]) continue;
    for (int64_t n = 0; n < rows; ++n) values[static_cast<size_t>(n * count + k)] = 0.0F;
  }
  const bool moving = !by_activity_ && kBlockSteps % layout.group == 0;  // scales follow the values
  CodedMatrix out = moving ? EmptyCodes(layout, rows, count) : RoundToNearest(layout, values.data(), rows, count);
  const ConstMatrixMap all(values.data(), rows, count);
  const ConstMatrixMap inverse(inverse_.data(), count, count);
  const auto run = [&](int64_t first, int64_t width) {
    Slice slice{.layout = layout, .columns = Matrix(count, width), .first = first, .width = width};
    for (int64_t i = 0; i < count; ++i) {
      slice.columns.row(i) = all.col(order_[static_cast<size_t>(i)]).segment(first, width).transpose();
    }
    Matrix errors(kBlockSteps, width);
    for (int64_t begin = 0; begin < count; begin += kBlockSteps) {
      const int64_t end = std::min(begin + kBlockSteps, count);
      for (int64_t i = begin; i < end; ++i) {
        if (moving && i % layout.group == 0) ScaleGroupAt(slice, i, &out);
        RoundStep(&slice, i, order_[static_cast<size_t>(i)], inverse(i, i), &out, errors.row(i - begin).data());
        const int64_t rest = end - i - 1;
        slice.columns.middleRows(i + 1, rest).noalias() -=
            inverse.row(i).segment(i + 1, rest).transpose() * errors.row(i - begin);
      }
      slice.columns.bottomRows(count - end).noalias() -=
          inverse.block(begin, end, end - begin, count - end).transpose() * errors.topRows(end - begin);
    }
  };
  std::atomic<int64_t> taken = 0;
  const auto work = [&] {
    for (int64_t first = taken.fetch_add(kSliceRows); first < rows; first = taken.fetch_add(kSliceRows)) {
      run(first, std::min(kSliceRows, rows - first));
    }
  };
  {
    std::vector<std::jthread> threads;
    for (int64_t i = 1; i < num_threads && i * kSliceRows < rows; ++i) {
      threads.emplace_back([&work] {
        NameThread("gptq");
        work();
      });
    }
    work();
  }
  return out;
}

}  // namespace dunlin::engine
