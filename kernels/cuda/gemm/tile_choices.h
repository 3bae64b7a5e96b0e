// SPDX-License-Identifier: Apache-2.0
// The tile shapes that products take on this device where they were measured: by kernel, weight's shape and number of
// rows, for rows in groups with a weight each by the mean of a group's. They come from the file of AlgorithmStore or,
// while tuning, from the clock, and go into it. What was not measured takes the kernel's own table
// (sm90/wgmma_plan.cc). No bit depends on a choice. Host code.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "kernels/api/experts.h"
#include "kernels/api/status.h"
#include "kernels/cuda/gemm/cublaslt/algorithm_store.h"
#include "kernels/cuda/gemm/cublaslt/product_clock.h"

namespace dunlin::kernels::cuda {

// The numbers of rows that are measured. Others take the choice of the next larger one, more the last one's.
inline constexpr int32_t kMeasuredRows[] = {8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192};

// The same of the mean rows of a group, of those that have any.
inline constexpr int32_t kMeasuredMeans[] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024};

struct TiledProduct {
  std::string_view kernel;  // GemmKernel::name, or GroupedGemmKernel's
  int64_t out_features;
  int64_t in_features;
  int32_t groups = 0;       // of rows with a weight each; 0: one product
  bool or_library = false;  // the choice is one of kOwnAndLibrary instead of a tile shape
};

// Choices where bits may depend on the number of rows (GemmParams::deterministic): the kernel in its own tile shape, or
// cuBLASLt in its fastest algorithm.
inline constexpr int32_t kOwnKernel = 1;
inline constexpr int32_t kLibrary = 2;
// As the rows of their tiles, of which neither is left out.
inline constexpr int32_t kOwnAndLibrary[] = {64, 64};

// A product and its number of rows, as TileChoices takes them.
struct TiledRows {
  TiledProduct product;
  int32_t num_rows;
};

// Of rows in groups a launch, which takes up to groups_max of these: those of all launches of a call have the same
// mean. num_rows, of all groups, is > 0; a launch has at least one.
TiledRows TiledLaunchOf(const TiledProduct& all, int32_t num_rows, int32_t groups_max);

// Thread rule: any thread.
class TileChoices {
 public:
  // Starts tuning, where the store has a file. Nulls end it.
  void Tune(ProductClock* clock, AlgorithmStore* store);
  bool tunes() const;

  // TileCall::tile_shape of a product of num_rows > 0; 0: by the kernel's own table.
  int32_t Find(const TiledProduct& product, int32_t num_rows) const;

  // Enqueues the product of num_rows rows in a shape, 1 or more: of the first ones, or of as many divided among groups.
  using Launch = std::function<KernelStatus(int32_t num_rows, int32_t shape)>;
  // While tuning, else nothing: chooses for as many of kMeasuredRows, or kMeasuredMeans, as num_rows holds, the next
  // one if it is not one of them. shape_rows: rows of a tile of each shape. Results are meaningless, as GemmPlans::Tune
  // says.
  void Measure(const TiledProduct& product, int32_t num_rows, std::span<const int32_t> shape_rows,
               const Launch& launch);

 private:
  using Key = std::tuple<std::string_view, int64_t, int64_t, int32_t, bool, int32_t>;
  static Key KeyOf(const TiledProduct& product, int32_t rows) {
    return {product.kernel, product.out_features, product.in_features, product.groups, product.or_library, rows};
  }

  // each: rows of a group, or of the product.
  MatmulAlgo FastestOf(const TiledProduct& product, int32_t each, int32_t num_rows, std::span<const int32_t> shape_rows,
                       const Launch& launch);

  mutable std::mutex turn_;  // guards all below
  ProductClock* clock_ = nullptr;
  AlgorithmStore* store_ = nullptr;
  std::map<Key, int32_t> chosen_;
};

// The line of the store: its first word is the shape, those after it hold two times each, in nanoseconds: word 1 + i /
// 2 of shape i + 1, 0 where it was not measured. rows: of kMeasuredRows, or of kMeasuredMeans.
std::string NameInStore(const TiledProduct& product, int32_t rows);

// num_rows rows of groups, each row's drawn at random, always the same.
std::vector<ExpertRows> RoutedAtRandom(int32_t num_rows, int32_t groups);

}  // namespace dunlin::kernels::cuda
