// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/gemm/tile_choices.h"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace dunlin::kernels::cuda {
namespace {

constexpr int32_t kRowsOfFew = 64;          // up to which weights are on the M side
constexpr int32_t kRowsOfWholeTiles = 128;  // from which a tile of prompts is full

int32_t Rounded(int32_t num_rows) {
  const auto* found = std::ranges::lower_bound(kMeasuredRows, num_rows);
  return found == std::end(kMeasuredRows) ? *std::prev(found) : *found;
}

// Few rows leave most of a large tile empty; many read the weights again for each small one.
bool IsWorthATry(int32_t tile_rows, int32_t num_rows) {
  if (num_rows <= kRowsOfFew && tile_rows > kRowsOfFew) return false;
  return 2 * tile_rows >= std::min(num_rows, kRowsOfWholeTiles);
}

uint64_t Nanoseconds(double seconds) {
  return static_cast<uint64_t>(std::clamp(std::round(seconds * 1e9), 1.0, 4294967295.0));
}

}  // namespace

std::string NameInStore(const TiledProduct& product, int32_t num_rows) {
  return "tile " + std::string(product.kernel) + " " + std::to_string(product.out_features) + " x " +
         std::to_string(product.in_features) + " rows " + std::to_string(num_rows);
}

void TileChoices::Tune(ProductClock* clock, AlgorithmStore* store) {
  const std::lock_guard<std::mutex> lock(turn_);
  const bool on = clock != nullptr && store != nullptr && store->on_disk();
  clock_ = on ? clock : nullptr;
  store_ = on ? store : nullptr;
}

bool TileChoices::tunes() const {
  const std::lock_guard<std::mutex> lock(turn_);
  return clock_ != nullptr;
}

int32_t TileChoices::Find(const TiledProduct& product, int32_t num_rows) const {
  const std::lock_guard<std::mutex> lock(turn_);
  if (chosen_.empty()) return 0;
  const auto found = chosen_.find({product.kernel, product.out_features, product.in_features, Rounded(num_rows)});
  return found == chosen_.end() ? 0 : found->second;
}

void TileChoices::Measure(const TiledProduct& product, int32_t num_rows, std::span<const int32_t> shape_rows,
                          const Launch& launch) {
  const std::lock_guard<std::mutex> lock(turn_);
  if (clock_ == nullptr || num_rows < 1) return;
  const int32_t last = Rounded(num_rows);
  for (const int32_t rows : kMeasuredRows) {
    if (rows > last) return;
    int32_t& chosen = chosen_[{product.kernel, product.out_features, product.in_features, rows}];
    if (chosen != 0) continue;
    const std::string name = NameInStore(product, rows);
    const MatmulAlgo* known = store_->Find(name);
    if (known == nullptr || known->data[0] < 1 || known->data[0] > shape_rows.size()) {
      const MatmulAlgo fastest = FastestOf(std::min(rows, num_rows), shape_rows, launch);
      if (fastest.data[0] == 0) continue;  // none was launched: the device has failed
      store_->Add(name, fastest);
      known = store_->Find(name);
    }
    if (known != nullptr) chosen = static_cast<int32_t>(known->data[0]);
  }
}

MatmulAlgo TileChoices::FastestOf(int32_t num_rows, std::span<const int32_t> shape_rows, const Launch& launch) {
  MatmulAlgo fastest{};
  double best = INFINITY;
  for (size_t i = 0; i < shape_rows.size(); ++i) {
    if (!IsWorthATry(shape_rows[i], num_rows)) continue;
    const auto shape = static_cast<int32_t>(i + 1);
    const double seconds = clock_->ColdSeconds([&] { return launch(num_rows, shape); });
    if (!std::isfinite(seconds)) continue;
    if (1 + i / 2 < std::size(fastest.data)) fastest.data[1 + i / 2] |= Nanoseconds(seconds) << (32 * (i % 2));
    if (seconds >= best) continue;
    best = seconds;
    fastest.data[0] = static_cast<uint64_t>(shape);
  }
  return fastest;
}

}  // namespace dunlin::kernels::cuda
