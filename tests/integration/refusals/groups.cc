// SPDX-License-Identifier: Apache-2.0
#include "tests/integration/refusals/groups.h"

namespace dunlin::integration {

const std::vector<Group>& Groups() {
  static const std::vector<Group>* const groups = new std::vector<Group>{
      SamplingRows(),
      TokenBanRows(),
      BadWordRows(),
      StoppingRows(),
      OutputRows(),
      PromptRows(),
      RequestRows(),
      ExecutionRows(),
      ChatRows(),
      ChatOptionRows(),
      TemplateRows(),
      ToolRows(),
      StructuredOutputRows(),
      SchemaRows(),
      SchemaBoundRows(),
      RegexRows(),
      GrammarRows(),
      TokenizerRows(),
      EmbeddingRows(),
      MessageRows(),
      MethodRows(),
      MetadataRows(),
      HttpPortRows(),
      FrameRows(),
      FloodRows(),
      ResetRows(),
      TimeoutRows(),
      QueueRows(),
      StreamRows(),
  };
  return *groups;
}

}  // namespace dunlin::integration
