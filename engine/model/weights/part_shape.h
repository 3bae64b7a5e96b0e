// SPDX-License-Identifier: Apache-2.0
// Whether a tensor has the shape of a part. Pure.
#pragma once

#include "engine/model/checkpoint/tensor_source.h"
#include "engine/model/weights/weight_parts.h"

namespace dunlin::engine {

// The part's own shape, or one with the same elements in the same order that checkpoints have in its place. The
// patches' matrix is stored as a convolution. Taps of convolutions, and vectors of heads and experts, may have
// dimensions of one element more or fewer; the weights of Mamba2's norm may have a row for each group, and tables of
// entries, tokens and positions of patches have one for each place, token or position.
bool HasShape(const TensorInfo& tensor, const WeightPart& part);

}  // namespace dunlin::engine
