// SPDX-License-Identifier: Apache-2.0
#include "tests/simulation/trace.h"

#include "kernels/api/attention_backend.h"
#include "kernels/api/dtype.h"

namespace dunlin::simulation {

std::string Describe(engine::TimeNs now, size_t request, const std::string& what) {
  return std::to_string(now) + ": request " + std::to_string(request) + " " + what;
}

std::string Describe(const engine::Request& request) {
  std::string text = "comes: " + std::to_string(request.prompt.size()) + " tokens, at most " +
                     std::to_string(request.stopping.max_tokens) + " more, " +
                     kernels::Name(request.profile.attention_backend) + "/" + kernels::Name(request.profile.precision);
  if (request.tenant != engine::kSharedTenant) text += ", tenant " + std::to_string(request.tenant);
  if (request.priority != 0) text += ", priority " + std::to_string(request.priority);
  if (request.deadline != engine::kNoDeadline) text += ", deadline " + std::to_string(request.deadline);
  if (request.output_index > 0) text += ", output " + std::to_string(request.output_index);
  if (!request.cache_salt.empty()) text += ", with a salt";
  if (request.sampling.prompt_logprobs >= 0) text += ", with prompt scores";
  if (request.sampling.seed >> 63 != 0) {
    text += ", a fault at position " + std::to_string(request.sampling.seed & 0xFFFF);
  }
  if (request.constraint != nullptr) text += ", constrained";
  return text;
}

std::string Describe(const engine::SequenceStep& step) {
  return "computes " + std::to_string(step.num_tokens) + " tokens from " + std::to_string(step.first_position) +
         (step.samples ? ", samples" : "");
}

}  // namespace dunlin::simulation
