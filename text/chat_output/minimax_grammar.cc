// SPDX-License-Identifier: Apache-2.0
// The grammar of MiniMax M3's calls (call_grammar.h, minimax_calls.h). Each term of a value ends in the mark of the tag
// that follows it, because a text ends where the mark is.
#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "engine/base/string_view.h"
#include "text/chat_output/call_grammar.h"
#include "text/chat_output/minimax_calls.h"
#include "text/chat_output/nested_grammar.h"
#include "text/chat_output/tool_formats.h"

namespace dunlin::text {
namespace {

using Json = nlohmann::ordered_json;

class MinimaxGrammar final : public NestedGrammar {
 public:
  MinimaxGrammar(const CallGrammar& request, GrammarParts* parts)
      : NestedGrammar("minimax_m3", IsMinimaxName, request, parts), request_(request) {}

  std::string Write() {
    const char* further = request_.several ? R"( (call "\n")* )" : " ";
    std::string calls = absl::StrCat("calls: ", Terms(absl::StrCat(engine::AbslView(kMinimaxBlock), "\n")),
                                     R"( call "\n")", further, Terms(kMinimaxBlockEnd), "\n", AnyCallRule(request_));
    for (size_t i = 0; i < request_.tools.size(); ++i) {
      const std::string arguments = ArgumentsOf(i);
      absl::StrAppend(&calls, "call_", i, ": ",
                      Terms(absl::StrCat(engine::AbslView(kMinimaxInvoke), tool().name, "\">")), " ", arguments, " ",
                      Terms(kMinimaxInvokeEnd), "\n");
    }
    const std::string text =
        TextUntilRule("text_value", kAnyText, kMinimaxMark, FindToolFormat("minimax_m3")->tokens, request_.tokenizer);
    return absl::StrCat(calls, rules(), "any_value: text_value\n", text);
  }

 private:
  std::string Element(const std::string& name, const std::string& value) const {
    return absl::StrCat(Terms(absl::StrCat(engine::AbslView(kMinimaxElement), name, ">")), " ", value, " ",
                        GrammarString(absl::StrCat("</", name, ">")));
  }
  std::string Mark() const { return Terms(kMinimaxMark); }

  std::string Member(const std::string& name, const std::string& value) const override { return Element(name, value); }
  std::string_view separator() const override { return ""; }
  std::string Object(const std::string& members) const override { return absl::StrCat(members, " ", Mark()); }
  // A tag that closes repeats its name, which no rule can for names that are not known: such objects are JSON.
  std::string AnyObject() override { return Word(parts()->Add(R"({"type": "object"})", tool().name)); }
  std::string Map(const Json& values, int) override {
    const Json map = {{"type", "object"}, {"additionalProperties", values}};
    if (map.dump().find("\"$ref\"") != std::string::npos) return Refuse("a \"$ref\" in \"additionalProperties\"");
    return Word(parts()->Add(map.dump(), tool().name));
  }
  std::string List(const std::string& item, uint32_t least, std::optional<uint32_t> most) const override {
    if (most == 0U) return Mark();
    return absl::StrCat("(", Element("item", item), "){", least, ",", most.has_value() ? absl::StrCat(*most) : "", "} ",
                        Mark());
  }
  std::string Word(const std::string& value) const override { return absl::StrCat(value, " ", Mark()); }

  std::optional<std::string> Literal(const Json& value, const Json& schema) const override {
    const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
    // What the reader makes of a text may be no JSON to this parser: 1e999, the escape of half a surrogate pair.
    const std::string json = ValueSchema(&tool().parameters, &schema).ToJson(text);
    const bool is_read = Json::parse(json, nullptr, /*allow_exceptions=*/false) == value;
    if (value.is_structured() || !is_read || text.find(kMinimaxMark) != std::string::npos) return std::nullopt;
    return Terms(absl::StrCat(text, engine::AbslView(kMinimaxMark)));
  }

  // A text may look like a value of another type, and the members of one object like those of another.
  std::string Confusion(const Json& schema) const override {
    if (SaysTypesOnly(schema)) return "";
    const ValueSchema said(&tool().parameters, &schema);
    if (said.text() == ParameterText::kEither) return "texts next to other values with rules";
    if (said.Names("array") && said.Names("object")) return "lists next to objects";
    const auto options = schema.find("anyOf");
    if (options == schema.end() || !options->is_array()) return "";
    for (const char* type : {"array", "object"}) {
      const auto has = [&](const Json& option) { return ValueSchema(&tool().parameters, &option).Names(type); };
      if (std::count_if(options->begin(), options->end(), has) > 1) return "objects or lists of several kinds";
    }
    return "";
  }

  const CallGrammar& request_;
};

}  // namespace

std::string MinimaxM3CallGrammar(const CallGrammar& request, GrammarParts* parts) {
  return MinimaxGrammar(request, parts).Write();
}

}  // namespace dunlin::text
