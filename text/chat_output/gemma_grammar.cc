// SPDX-License-Identifier: Apache-2.0
// The grammar of the calls of Gemma 4 and FunctionGemma (call_grammar.h, gemma_calls.h).
#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/string_view.h"
#include "text/chat_output/call_grammar.h"
#include "text/chat_output/gemma_calls.h"
#include "text/chat_output/nested_grammar.h"
#include "text/chat_output/tool_formats.h"

namespace dunlin::text {
namespace {

using Json = nlohmann::ordered_json;

// As the model writes it.
// NOLINTNEXTLINE(misc-no-recursion): literals of a parsed document
std::string GemmaText(const Json& value, std::string_view quote) {
  if (value.is_string()) {
    return absl::StrCat(engine::AbslView(quote), value.get_ref<const std::string&>(), engine::AbslView(quote));
  }
  if (!value.is_structured()) return value.dump();
  std::vector<std::string> members;
  for (const auto& [key, member] : value.items()) {
    members.push_back(value.is_object() ? absl::StrCat(key, ":", GemmaText(member, quote)) : GemmaText(member, quote));
  }
  const std::string inner = absl::StrJoin(members, ",");
  return value.is_object() ? absl::StrCat("{", inner, "}") : absl::StrCat("[", inner, "]");
}

// Whether a reader would read it as it is.
// NOLINTNEXTLINE(misc-no-recursion): as above
bool IsWritable(const Json& value, std::string_view quote) {
  if (value.is_string()) {
    return value.get_ref<const std::string&>().find(quote) == std::string::npos;
  }
  if (!value.is_structured()) return true;
  return std::all_of(value.items().begin(), value.items().end(), [&](const auto& member) {
    return (value.is_array() || IsGemmaKey(member.key())) && IsWritable(member.value(), quote);
  });
}

class GemmaGrammar final : public NestedGrammar {
 public:
  GemmaGrammar(const GemmaMarks& marks, const CallGrammar& request, GrammarParts* parts)
      : NestedGrammar(marks.form, IsGemmaKey, request, parts), marks_(marks), request_(request) {}

  std::string Write() {
    const std::string one = absl::StrCat(Terms(marks_.begin), " call ", Terms(marks_.end));
    std::string calls = absl::StrCat("calls: ", one, request_.several ? absl::StrCat(" (", one, ")*") : "", "\n",
                                     AnyCallRule(request_));
    for (size_t i = 0; i < request_.tools.size(); ++i) {
      const std::string arguments = ArgumentsOf(i);
      absl::StrAppend(&calls, "call_", i, ": ", GrammarString(absl::StrCat("call:", tool().name, "{")), " ", arguments,
                      " \"}\"\n");
    }
    return absl::StrCat(calls, rules(), GenericRules());
  }

 private:
  // Values of which nothing is said.
  std::string GenericRules() {
    const std::string word = parts()->Add(R"({"type": ["number", "boolean", "null"]})", tool().name);
    return absl::StrCat(
        "any_value: text_value | any_word | any_list | any_object\n", "any_word: ", word, "\n",
        "any_list: \"[\" (any_value (\",\" any_value)*)? \"]\"\n",
        "any_object: \"{\" (any_key any_value (\",\" any_key any_value)*)? \"}\"\n",
        "any_key: /[A-Za-z_][A-Za-z0-9_]{0,63}:/\n", "text_value: ", Terms(marks_.quote), " text_rest\n",
        TextUntilRule("text_rest", kAnyText, marks_.quote, FindToolFormat(marks_.form)->tokens, request_.tokenizer));
  }

  std::string Member(const std::string& name, const std::string& value) const override {
    return absl::StrCat(GrammarString(name + ":"), " ", value);
  }
  std::string_view separator() const override { return ","; }
  std::string Object(const std::string& members) const override { return absl::StrCat(R"("{" )", members, R"( "}")"); }
  std::string AnyObject() override { return "any_object"; }
  std::string Map(const Json& values, int depth) override {
    const std::string member = "any_key " + Value(values, depth);
    return absl::StrCat(R"("{" ()", member, R"( (",")", " ", member, R"()*)? "}")");
  }
  std::string List(const std::string& item, uint32_t least, std::optional<uint32_t> most) const override {
    if (most == 0U) return R"("[]")";
    const std::string further = absl::StrCat(R"((",")", " ", item, "){", least < 2 ? 0 : least - 1, ",",
                                             most.has_value() ? absl::StrCat(*most - 1) : "", "}");
    const std::string items = absl::StrCat(item, " ", further);
    return absl::StrCat(R"("[" )", least == 0 ? absl::StrCat("(", items, ")?") : items, R"( "]")");
  }
  std::string Word(const std::string& value) const override { return value; }
  std::optional<std::string> Literal(const Json& value, const Json&) const override {
    return IsWritable(value, marks_.quote) ? std::optional(Terms(GemmaText(value, marks_.quote))) : std::nullopt;
  }
  std::string Confusion(const Json&) const override { return ""; }

  const GemmaMarks& marks_;
  const CallGrammar& request_;
};

}  // namespace

std::string GemmaCallGrammar(const CallGrammar& request, GrammarParts* parts) {
  return GemmaGrammar(kGemma4Marks, request, parts).Write();
}

std::string FunctionGemmaCallGrammar(const CallGrammar& request, GrammarParts* parts) {
  return GemmaGrammar(kFunctionGemmaMarks, request, parts).Write();
}

}  // namespace dunlin::text
