// SPDX-License-Identifier: Apache-2.0
#include "server/fronts/table.h"

#include "server/fronts/dunlin_v1/front.h"
#include "server/fronts/kserve/front.h"
#include "server/fronts/ollama/front.h"
#include "server/fronts/openai/front.h"
#include "server/fronts/page/front.h"
#include "server/fronts/smg_worker/front.h"
#include "server/fronts/vllm/front.h"

namespace dunlin::server {
namespace {

constexpr const FrontRow* kFronts[] = {
    &kDunlinV1Front, &kKserveFront, &kOllamaFront, &kOpenAiFront, &kSmgWorkerFront, &kVllmFront, &kPageFront,
};

}  // namespace

std::span<const FrontRow* const> Fronts() {
  return kFronts;
}

}  // namespace dunlin::server
