// SPDX-License-Identifier: Apache-2.0
#include "tests/integration/refusals/groups.h"

namespace dunlin::integration {

const std::vector<Group>& Groups() {
  static const std::vector<Group>* const groups = new std::vector<Group>{
      SamplingRows(),    TokenBanRows(),   StoppingRows(),  OutputRows(),    PromptRows(),     RequestRows(),
      ExecutionRows(),   ChatRows(),       TemplateRows(),  TokenizerRows(), EmbeddingRows(),  MessageRows(),
      MethodRows(),      MetadataRows(),   HttpPortRows(),  FrameRows(),     FloodRows(),    TimeoutRows(),    QueueRows(),
      StreamRows(),
  };
  return *groups;
}

}  // namespace dunlin::integration
