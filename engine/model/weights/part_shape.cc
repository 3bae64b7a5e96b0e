// SPDX-License-Identifier: Apache-2.0
#include "engine/model/weights/part_shape.h"

#include <algorithm>

namespace dunlin::engine {
namespace {

std::vector<int64_t> WithoutOnes(std::vector<int64_t> shape) {
  shape.erase(std::remove(shape.begin(), shape.end(), 1), shape.end());
  return shape;
}

// Whether `stored` is a convolution's [out, channels, height, width], or [out, channels, frames, height, width], with
// the elements of the matrix `shape`.
bool IsConvolutionOf(const std::vector<int64_t>& stored, const std::vector<int64_t>& shape) {
  if ((stored.size() != 4 && stored.size() != 5) || shape.size() != 2) return false;
  const int64_t frames = stored.size() == 5 ? stored[2] : 1;
  const int64_t side = stored.back();
  return stored[0] == shape[0] && stored[1] == kImageChannels && stored[stored.size() - 2] == side &&
         frames * side * side * kImageChannels == shape[1];
}

}  // namespace

bool HasShape(const TensorInfo& tensor, const WeightPart& part) {
  if (tensor.shape == part.shape) return true;
  using enum WeightSlot;
  if (part.slot == kPatchEmbedding) return IsConvolutionOf(tensor.shape, part.shape);
  constexpr WeightSlot kTables[] = {kMambaNorm, kEntryBias, kIndexEntryBias, kTokenExperts, kPatchPositions};
  if (std::find(std::begin(kTables), std::end(kTables), part.slot) != std::end(kTables)) {
    return tensor.shape.size() == 2 && tensor.shape[0] * tensor.shape[1] == part.shape[0];
  }
  constexpr WeightSlot kFolded[] = {kDeltaRate, kMambaRate, kMambaSkip, kMlpCurve, kRouterCorrection};
  const bool folded = std::find(std::begin(kFolded), std::end(kFolded), part.slot) != std::end(kFolded);
  return (folded || IsConvolution(part.slot)) && WithoutOnes(tensor.shape) == WithoutOnes(part.shape);
}

}  // namespace dunlin::engine
