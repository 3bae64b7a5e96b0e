// SPDX-License-Identifier: Apache-2.0
#include "engine/chat_output/chat_output_parser.h"

#include "engine/chat_output/harmony_parser.h"
#include "engine/chat_output/reasoning_parser.h"
#include "engine/chat_output/tool_call_parser.h"

namespace dunlin::engine {
namespace {

bool IsHarmony(const ReasoningFormat* format) {
  return format != nullptr && format->open.empty();
}
bool IsHarmony(const ToolFormat* format) {
  return format != nullptr && format->make_reader == nullptr;
}

}  // namespace

bool Fit(const ChatOutputForms& forms) {
  if (forms.reasoning == nullptr || forms.calls == nullptr) return true;
  return IsHarmony(forms.reasoning) == IsHarmony(forms.calls);
}

ChatOutputParser::ChatOutputParser(const ChatOutputForms& forms, const ToolSet* tools, bool parallel,
                                   std::string_view prompt, ChatOutputSink* sink) {
  if (IsHarmony(forms.reasoning) || IsHarmony(forms.calls)) {
    const HarmonyParser::Options options = {forms.reasoning != nullptr, forms.calls != nullptr, parallel, prompt};
    answer_ = std::make_unique<HarmonyParser>(options, tools, sink);
  } else {
    answer_ = std::make_unique<ToolCallParser>(forms.calls, tools, parallel, sink);
  }
  first_ = answer_.get();
  if (forms.reasoning == nullptr || IsHarmony(forms.reasoning)) return;
  whole_ = std::make_unique<ReasoningParser>(*forms.reasoning, BeginsInReasoning(*forms.reasoning, prompt),
                                             answer_.get(), sink);
  first_ = whole_.get();
}

}  // namespace dunlin::engine
