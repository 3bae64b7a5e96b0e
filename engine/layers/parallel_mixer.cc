// SPDX-License-Identifier: Apache-2.0
#include "engine/layers/parallel_mixer.h"

#include "engine/layers/norm.h"

namespace dunlin::engine {

bool ParallelMixer::StoreKv() const {
  const Linear mamba = MambaLayer::InputOf(context_, weights_, context_->layer);
  return attention_.StoreKv() && NormAgainFor(context_, weights_.attention_norm, mamba) && mamba_.StoreKv();
}

// Observers see one input of a layer's output projections, which is the attention's.
bool ParallelMixer::Run(const Linear& next) const {
  const Linear out(context_, weights_.mamba.out, kUnobservedInput);
  return mamba_.Run(out) && out.AddToResidual("mamba out", weights_.post_attention_norm) && attention_.Run(next);
}

}  // namespace dunlin::engine
