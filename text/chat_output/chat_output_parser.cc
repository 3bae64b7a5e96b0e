// SPDX-License-Identifier: Apache-2.0
#include "text/chat_output/chat_output_parser.h"

#include "absl/strings/str_cat.h"
#include "text/chat_output/harmony_parser.h"
#include "text/chat_output/parser_names.h"
#include "text/chat_output/reasoning_parser.h"
#include "text/chat_output/tool_call_parser.h"

namespace dunlin::text {
namespace {

OutputFrame FrameOf(const ChatOutputForms& forms) {
  if (forms.reasoning != nullptr) return forms.reasoning->frame;
  return forms.calls == nullptr ? OutputFrame::kNone : forms.calls->frame;
}

// The row that `name` means; null: none.
template <typename Format>
absl::StatusOr<const Format*> Choose(const char* key, const std::string& name, const Format* named,
                                     const Format* recognised, const char* choices) {
  if (name == "none") return nullptr;
  if (name == "auto") return recognised;
  if (named != nullptr) return named;
  return absl::InvalidArgumentError(absl::StrCat(key, " is ", name, "; limit is one of ", choices));
}

}  // namespace

absl::StatusOr<ChatOutputForms> ChooseForms(const std::string& tool_parser, const std::string& reasoning_parser,
                                            std::string_view chat_template) {
  const auto calls = Choose("models[].tool_parser", tool_parser, FindToolFormat(tool_parser),
                            RecogniseToolFormat(chat_template), kToolParserChoices);
  if (!calls.ok()) return calls.status();
  const auto reasoning = Choose("models[].reasoning_parser", reasoning_parser, FindReasoningFormat(reasoning_parser),
                                RecogniseReasoningFormat(chat_template), kReasoningParserChoices);
  if (!reasoning.ok()) return reasoning.status();
  const ChatOutputForms forms = {*reasoning, *calls};
  if (Fit(forms)) return forms;
  if (reasoning_parser == "auto") return ChatOutputForms{nullptr, *calls};
  if (tool_parser == "auto") return ChatOutputForms{*reasoning, nullptr};
  return absl::InvalidArgumentError(absl::StrCat("models[].reasoning_parser is ", reasoning_parser,
                                                 "; limit is one that fits models[].tool_parser ", tool_parser,
                                                 ": gpt_oss for both or muse_glimmer for both, or neither of them"));
}

bool Fit(const ChatOutputForms& forms) {
  if (forms.reasoning == nullptr || forms.calls == nullptr) return true;
  return forms.reasoning->frame == forms.calls->frame;
}

ChatOutputParser::ChatOutputParser(const Options& options, ChatOutputSink* sink) {
  const ChatOutputForms& forms = options.forms;
  const OutputFrame frame = FrameOf(forms);
  if (frame != OutputFrame::kNone) {
    const HarmonyParser::Options messages = {frame,          forms.reasoning != nullptr, forms.calls, options.parallel,
                                             options.prompt, options.max_call_bytes};
    answer_ = std::make_unique<HarmonyParser>(messages, options.tools, sink);
  } else {
    const AnswerTags tags = forms.reasoning == nullptr ? AnswerTags() : forms.reasoning->answer_tags;
    const ToolCallParser::Options calls = {forms.calls, options.tools, options.parallel, options.max_call_bytes, tags};
    answer_ = std::make_unique<ToolCallParser>(calls, sink);
  }
  first_ = answer_.get();
  if (forms.reasoning == nullptr || frame != OutputFrame::kNone) return;
  whole_ = std::make_unique<ReasoningParser>(*forms.reasoning, BeginsInReasoning(*forms.reasoning, options.prompt),
                                             answer_.get(), sink);
  first_ = whole_.get();
}

}  // namespace dunlin::text
