// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/gemm/tile_choices.h"

#include <algorithm>
#include <cmath>
#include <random>

namespace dunlin::kernels::cuda {
namespace {

constexpr int32_t kRowsOfFew = 64;          // up to which weights are on the M side
constexpr int32_t kRowsOfWholeTiles = 128;  // from which a tile of prompts is full

std::span<const int32_t> MeasuredOf(const TiledProduct& product) {
  if (product.groups == 0) return kMeasuredRows;
  return kMeasuredMeans;
}

// Of the product, or the mean of the groups that can have any.
int32_t RowsOfEach(const TiledProduct& product, int32_t num_rows) {
  if (product.groups == 0) return num_rows;
  const int32_t groups = std::min(product.groups, num_rows);
  return (num_rows + groups - 1) / groups;
}

int32_t Rounded(const TiledProduct& product, int32_t num_rows) {
  const std::span<const int32_t> measured = MeasuredOf(product);
  const auto found = std::ranges::lower_bound(measured, RowsOfEach(product, num_rows));
  return found == measured.end() ? measured.back() : *found;
}

// Few rows leave most of a large tile empty; many read the weights again for each small one. Of groups some have twice
// the mean.
bool IsWorthATry(const TiledProduct& product, int32_t tile_rows, int32_t each) {
  const int32_t few = product.groups == 0 ? kRowsOfFew : kRowsOfFew / 2;
  if (each <= few && tile_rows > kRowsOfFew) return false;
  return 2 * tile_rows >= std::min(each, kRowsOfWholeTiles);
}

uint64_t Nanoseconds(double seconds) {
  return static_cast<uint64_t>(std::clamp(std::round(seconds * 1e9), 1.0, 4294967295.0));
}

}  // namespace

std::string NameInStore(const TiledProduct& product, int32_t rows) {
  const std::string groups = product.groups == 0 ? "" : " groups " + std::to_string(product.groups);
  return "tile " + std::string(product.kernel) + (product.or_library ? " or cublaslt " : " ") +
         std::to_string(product.out_features) + " x " + std::to_string(product.in_features) + groups + " rows " +
         std::to_string(rows);
}

TiledRows TiledLaunchOf(const TiledProduct& all, int32_t num_rows, int32_t groups_max) {
  TiledProduct launch = all;
  launch.groups = std::min(all.groups, groups_max);
  return {launch, std::max(1, static_cast<int32_t>(int64_t{num_rows} * launch.groups / all.groups))};
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
  const auto found = chosen_.find(KeyOf(product, Rounded(product, num_rows)));
  return found == chosen_.end() ? 0 : found->second;
}

void TileChoices::Measure(const TiledProduct& product, int32_t num_rows, std::span<const int32_t> shape_rows,
                          const Launch& launch) {
  const std::lock_guard<std::mutex> lock(turn_);
  if (clock_ == nullptr || num_rows < 1) return;
  const int32_t last = Rounded(product, num_rows);
  for (const int32_t rows : MeasuredOf(product)) {
    if (rows > last) return;
    int32_t& chosen = chosen_[KeyOf(product, rows)];
    if (chosen != 0) continue;
    const std::string name = NameInStore(product, rows);
    const MatmulAlgo* known = store_->Find(name);
    if (known == nullptr || known->data[0] < 1 || known->data[0] > shape_rows.size()) {
      const auto all = static_cast<int32_t>(std::min<int64_t>(int64_t{rows} * std::max(product.groups, 1), num_rows));
      const MatmulAlgo fastest = FastestOf(product, RowsOfEach(product, all), all, shape_rows, launch);
      if (fastest.data[0] == 0) continue;  // none was launched: the device has failed
      store_->Add(name, fastest);
      known = store_->Find(name);
    }
    if (known != nullptr) chosen = static_cast<int32_t>(known->data[0]);
  }
}

std::vector<ExpertRows> RoutedAtRandom(int32_t num_rows, int32_t groups) {
  std::vector<ExpertRows> routed(static_cast<size_t>(groups));
  std::mt19937 draw(1);
  for (int32_t row = 0; row < num_rows; ++row) ++routed[draw() % static_cast<uint32_t>(groups)].count;
  int32_t first = 0;
  for (ExpertRows& group : routed) {
    group.first = first;
    first += group.count;
  }
  return routed;
}

MatmulAlgo TileChoices::FastestOf(const TiledProduct& product, int32_t each, int32_t num_rows,
                                  std::span<const int32_t> shape_rows, const Launch& launch) {
  MatmulAlgo fastest{};
  double best = INFINITY;
  for (size_t i = 0; i < shape_rows.size(); ++i) {
    if (!IsWorthATry(product, shape_rows[i], each)) continue;
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
