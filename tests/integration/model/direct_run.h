// SPDX-License-Identifier: Apache-2.0
// Runs tokens through ForwardPass without scheduler or sampler and shows the logits of every position.
#pragma once

#include <memory>
#include <vector>

#include "engine/layers/fp8_scaling.h"
#include "engine/model/model.h"
#include "engine/request/options.h"
#include "engine/request/types.h"
#include "engine/runtime/adapter_stage.h"
#include "engine/runtime/step_buffers.h"
#include "engine/runtime/step_inputs.h"

namespace dunlin::engine {

// What a model's config would say.
struct DirectRunOptions {
  ExecutionMode execution = ExecutionMode::kFused;
  Fp8Options fp8;
  std::vector<float> input_scales;   // of the recipe static
  AdapterLease adapter;              // of all rows; none: the base
  const PromptRows* rows = nullptr;  // of the tokens; outlives the run
};

class DirectRun {
 public:
  // At most max_tokens positions. Dies when memory or a device operation fails.
  DirectRun(const Model* model, const ExecutionProfile& profile, int32_t max_tokens,
            const DirectRunOptions& options = {});

  // Logits [tokens.size() - num_cached][vocab_size] of positions num_cached and up, computed in chunks of chunk_size
  // tokens. The first num_cached tokens, whole pages, are taken from the pages that the run before left behind.
  std::vector<std::vector<float>> Logits(const std::vector<TokenId>& tokens, int32_t chunk_size,
                                         int32_t num_cached = 0);
  int32_t tokens_per_page() const;
  // [state_floats] the state that the last run left behind, of a recurrent model.
  std::vector<float> State() const;
  // The scale that each linear input has now; empty for the recipe per_token.
  std::vector<float> InputScales() const;

 private:
  // The first `count` floats of a buffer, once what was enqueued has run.
  std::vector<float> Read(BufferId id, size_t count) const;

  const Model* model_;
  ExecutionProfile profile_;
  std::unique_ptr<StepBuffers> buffers_;
  std::unique_ptr<StepInputs> inputs_;
  AdapterLease adapter_;
  const PromptRows* rows_;
  std::unique_ptr<AdapterStage> adapters_;
  std::unique_ptr<Fp8Scaling> scaling_;
};

}  // namespace dunlin::engine
