// SPDX-License-Identifier: Apache-2.0
// What the configuration may call the forms of a chat's output: the names of the tables in tool_formats.h and
// reasoning_formats.h, in their order, for the table of config keys. Constant data.
#pragma once

namespace dunlin::text {

// auto: as the chat template shows. none: all stays text.
inline constexpr char kToolParserChoices[] =
    "auto|none|gpt_oss|muse_glimmer|deepseek|mistral|kimi_k2|minimax_m2|minimax_m3|gemma4|functiongemma|dsml|lfm2|"
    "seed_oss|qwen3_coder|glm|hy_v3|hunyuan|olmo3|nemotron|cohere|phi4_mini|granite|hermes|pythonic|llama3_json";
inline constexpr char kReasoningParserChoices[] =
    "auto|none|gpt_oss|muse_glimmer|gemma4|kimi_k2|minimax_m3|seed_oss|cohere|hunyuan|ernie4_5|"
    "qwen3|think_tags|mistral";

}  // namespace dunlin::text
