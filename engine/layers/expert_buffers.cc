// SPDX-License-Identifier: Apache-2.0
#include "engine/layers/expert_buffers.h"

namespace dunlin::engine {
namespace {

constexpr size_t kAlignment = 64;  // a cache line

// Hands out arrays of a block one after another.
class Cut {
 public:
  explicit Cut(void* memory) : memory_(static_cast<std::byte*>(memory)) {}

  template <typename T>
  T* Take(int64_t count) {
    T* array = memory_ == nullptr ? nullptr : reinterpret_cast<T*>(memory_ + taken_);
    taken_ += (static_cast<size_t>(count) * sizeof(T) + kAlignment - 1) / kAlignment * kAlignment;
    return array;
  }
  size_t taken() const { return taken_; }

 private:
  std::byte* memory_;
  size_t taken_ = 0;
};

ExpertBuffers Place(const ModelConfig& config, int64_t tokens, Cut* cut) {
  const int64_t hidden = tokens * config.hidden_dim;
  const int64_t chosen = tokens * config.routing.num_chosen;
  return {.normed = cut->Take<float>(hidden),
          .gathered = cut->Take<float>(hidden),
          .output = cut->Take<float>(hidden),
          .logits = cut->Take<float>(tokens * config.router_features()),
          .chosen = cut->Take<int32_t>(chosen),
          .chosen_weights = cut->Take<float>(chosen),
          .rows = cut->Take<int32_t>(chosen),
          .weights = cut->Take<float>(chosen),
          .experts = cut->Take<kernels::ExpertRows>(config.routing.num_experts)};
}

}  // namespace

size_t ExpertBufferBytes(const ModelConfig& config, int32_t max_tokens) {
  if (!config.has_experts()) return 0;
  Cut cut(nullptr);
  (void)Place(config, max_tokens, &cut);
  return cut.taken();
}

ExpertBuffers PlaceExpertBuffers(const ModelConfig& config, int32_t max_tokens, void* memory) {
  Cut cut(memory);
  return Place(config, max_tokens, &cut);
}

}  // namespace dunlin::engine
