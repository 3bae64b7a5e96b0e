// SPDX-License-Identifier: Apache-2.0
// A decoder run over a text in windows, each from position 0: for calibration, and for perplexity.
// Thread rule: one thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/layers/fp8_scaling.h"
#include "engine/layers/input_observer.h"
#include "engine/model/model.h"
#include "engine/request/options.h"
#include "engine/request/types.h"
#include "engine/runtime/step_buffers.h"

namespace dunlin::engine {

inline constexpr int32_t kTextWindow = 512;  // tokens, fewer where the model's context is shorter

class TextWindows {
 public:
  // What sees a window. All may be empty.
  struct Watch {
    const Fp8Scaling* scaling = nullptr;
    InputObserver* inputs = nullptr;  // only with ExecutionMode::kEager; the head's alone is not seen
    // Logits [count, vocab_size] FP32 in host memory of the rows [first, first + count) of the window.
    std::function<void(int32_t first, int32_t count, const float* logits)> logits = {};
  };

  // Runs in the model's default precision. model outlives the windows. FAILED_PRECONDITION for an encoder;
  // RESOURCE_EXHAUSTED when there is no memory for a window.
  static absl::StatusOr<TextWindows> Create(const Model& model, ExecutionMode execution);

  int32_t window() const { return window_; }
  // Runs all tokens, each < vocab_size. INVALID_ARGUMENT when there are none; INTERNAL when the device fails.
  absl::Status Run(std::span<const TokenId> tokens, const Watch& watch) const;

 private:
  TextWindows(const Model& model, int32_t window, ExecutionProfile profile, std::unique_ptr<StepBuffers> buffers,
              int32_t tokens_per_page)
      : model_(&model),
        window_(window),
        profile_(profile),
        buffers_(std::move(buffers)),
        tokens_per_page_(tokens_per_page) {}
  absl::Status RunWindow(std::span<const TokenId> tokens, const Watch& watch) const;

  const Model* model_;
  int32_t window_;
  ExecutionProfile profile_;
  std::unique_ptr<StepBuffers> buffers_;
  int32_t tokens_per_page_;
};

struct Perplexity {
  int64_t scored_tokens = 0;
  double value = 0.0;  // exp of the mean negative log likelihood of the scored tokens
};

// Of the model's default precision on a text. The first token of every window is not scored. INVALID_ARGUMENT when the
// text has fewer than 2 tokens; otherwise as TextWindows.
absl::StatusOr<Perplexity> MeasurePerplexity(const Model& model, std::span<const TokenId> tokens);

}  // namespace dunlin::engine
