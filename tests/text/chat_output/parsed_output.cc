// SPDX-License-Identifier: Apache-2.0
#include "tests/text/chat_output/parsed_output.h"

#include <algorithm>
#include <iterator>

namespace dunlin::text {
namespace {

class Recorder final : public ChatOutputSink {
 public:
  explicit Recorder(ParsedOutput* out) : out_(out) {}
  void OnText(std::string_view text) override {
    out_->text += text;
    out_->raw += text;
  }
  void OnReasoning(std::string_view text) override {
    out_->reasoning += text;
    out_->raw += text;
  }
  void OnCall(std::string_view name, std::string_view id) override {
    out_->calls.push_back({std::string(name), "", false, std::string(id)});
  }
  void OnArguments(std::string_view json) override { out_->calls.back().arguments += json; }
  void OnCallEnd(std::string_view raw) override {
    out_->calls.back().complete = true;
    out_->raw += raw;
  }
  void OnCallBroken() override {}
  void OnMarkup(std::string_view raw) override { out_->raw += raw; }

 private:
  ParsedOutput* const out_;
};

constexpr char kTools[] = R"([
  {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object", "properties": {
    "city": {"type": "string"}, "days": {"type": "integer"}, "tags": {"type": "array", "items": {"type": "string"}},
    "exact": {"type": "boolean"}, "at": {"type": "object"}}, "required": ["city"]}}},
  {"type": "function", "function": {"name": "ping"}},
  {"name": "find.birds", "parameters": {"type": "object", "properties": {
    "q": {"type": ["string", "null"]}, "limit": {"type": "number"}}}}])";

}  // namespace

std::vector<ParsedCall> ParsedOutput::complete_calls() const {
  std::vector<ParsedCall> complete;
  std::copy_if(calls.begin(), calls.end(), std::back_inserter(complete),
               [](const ParsedCall& call) { return call.complete; });
  return complete;
}

ChatOutputForms FormsNamed(const std::string& reasoning, const std::string& calls) {
  return {FindReasoningFormat(reasoning), FindToolFormat(calls)};
}

ParsedOutput ParsePieces(const ParseOptions& options, const std::vector<std::string_view>& pieces) {
  ParsedOutput out;
  Recorder recorder(&out);
  ChatOutputParser parser({.forms = options.forms,
                           .tools = options.tools == nullptr ? &TestTools() : options.tools,
                           .parallel = options.parallel,
                           .prompt = options.prompt},
                          &recorder);
  for (const std::string_view piece : pieces) parser.Push(piece);
  parser.Finish();
  return out;
}

ParsedOutput Parse(const ParseOptions& options, std::string_view output) {
  return ParsePieces(options, {output});
}

ParsedOutput ParseBytewise(const ParseOptions& options, std::string_view output) {
  std::vector<std::string_view> pieces;
  for (size_t i = 0; i < output.size(); ++i) pieces.push_back(output.substr(i, 1));
  return ParsePieces(options, pieces);
}

const ToolSet& TestTools() {
  static const ToolSet tools = ToolSet::Parse(kTools);
  return tools;
}

}  // namespace dunlin::text
