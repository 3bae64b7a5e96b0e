// SPDX-License-Identifier: Apache-2.0
// The groups of the table, one function each; *_rows.cc has their rows.
#pragma once

#include "tests/integration/refusals/row.h"

namespace dunlin::integration {

// The config of all groups but those of stream_rows.cc.
inline constexpr char kAttackConfig[] = "attack.json";

// sampling_rows.cc
Group SamplingRows();
Group TokenBanRows();
Group BadWordRows();
// stopping_rows.cc
Group StoppingRows();
Group OutputRows();
// prompt_rows.cc
Group PromptRows();
Group RequestRows();
Group ExecutionRows();
// chat_rows.cc
Group ChatRows();
Group ChatOptionRows();
Group TemplateRows();
// tool_rows.cc
Group ToolRows();
// structured_output_rows.cc
Group StructuredOutputRows();
Group SchemaRows();
Group SchemaBoundRows();
// grammar_rows.cc
Group RegexRows();
Group GrammarRows();
// service_rows.cc
Group TokenizerRows();
Group EmbeddingRows();
// wire_rows.cc
Group MessageRows();
Group MethodRows();
Group MetadataRows();
// connection_rows.cc
Group HttpPortRows();
Group FrameRows();
Group FloodRows();
Group ResetRows();
Group TimeoutRows();
// stream_rows.cc
Group QueueRows();
Group StreamRows();

}  // namespace dunlin::integration
