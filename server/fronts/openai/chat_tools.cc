// SPDX-License-Identifier: Apache-2.0
#include "server/fronts/openai/chat_tools.h"

#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "engine/base/string_view.h"
#include "server/json/function_tools.h"

namespace dunlin::server {
namespace {

using V = JsonValue;
using B = GenerationBody;
using Mode = ClientToolChoice::Mode;

constexpr std::string_view kNoneOfItsOwn = ": the server runs no tools of its own";

// Of a tool as the chat template sees it; "" if there is none.
std::string NameOf(const Json& tool) {
  const auto function = tool.find("function");
  if (function == tool.end() || !function->is_object()) return "";
  const auto name = function->find("name");
  return name == function->end() || !name->is_string() ? "" : name->get<std::string>();
}

void SetTools(const Json& list, B* body) {
  body->chat.tools_json = list.empty() ? "" : DumpJson(list);
}

// The functions of a list of tools, in the form of the chat template.
class FlatToolReader {
 public:
  FlatToolReader(const FlatToolForm& form, B* body) : form_(form), body_(body) {}

  // Before Read: functions outside of namespaces keep their names, wherever they stand.
  void Reserve(const V& tool) {
    if (!tool.is_object() || !IsFunction(tool)) return;
    const V name = tool.At("name");
    if (name.is_string()) names_.insert(name.Text());
  }

  void Read(const V& tool) {
    if (!tool.ExpectObject()) return;
    const V type = tool.At("type");
    if (IsFunction(tool)) return ReadFunction(tool, "");
    if (type.json() == "namespace") return ReadNamespace(tool);
    if (type.ExpectText()) LeaveOut(tool);
  }

  const Json& list() const { return list_; }

 private:
  void LeaveOut(const V& tool) const {
    tool.LeaveOut("type", absl::StrCat("\"", engine::AbslView(form_.type), "\"", engine::AbslView(kNoneOfItsOwn)));
  }

  bool IsFunction(const V& tool) const {
    const V type = tool.At("type");
    return type.is_null() || type.json() == form_.type;
  }

  void ReadNamespace(const V& tool) {
    tool.IgnoreAllBut("type name description tools");
    const std::string name = tool.At("name").Text();
    const V functions = tool.At("tools");
    if (!functions.ExpectArray()) return;
    for (size_t i = 0; i < functions.size() && functions.ok(); ++i) {
      const V function = functions.At(i);
      if (!function.ExpectObject()) return;
      if (IsFunction(function)) {
        ReadFunction(function, name);
      } else {
        LeaveOut(function);
      }
    }
  }

  // space: the namespace; "": none.
  void ReadFunction(const V& tool, const std::string& space) {
    tool.IgnoreAllBut(
        absl::StrCat("type name description ", engine::AbslView(form_.schema), " ", engine::AbslView(form_.known)));
    const std::string name = tool.At("name").Text();
    const std::string offered = space.empty() || !names_.contains(name) ? name : absl::StrCat(space, "__", name);
    names_.insert(offered);
    if (!space.empty()) body_->namespaced.push_back({offered, space, name});
    Json function = {{"name", offered}};
    const V description = tool.At("description");
    if (!description.is_null()) function["description"] = description.Text();
    const V parameters = tool.At(form_.schema);
    if (!parameters.is_null() && parameters.ExpectObject()) function["parameters"] = parameters.json();
    list_.push_back({{"type", "function"}, {"function", std::move(function)}});
  }

  const FlatToolForm form_;
  B* const body_;
  Json list_ = Json::array();
  absl::flat_hash_set<std::string> names_;  // that are taken
};

void ReadMode(const V& mode, std::string_view limit, ClientToolChoice* out) {
  const std::string name = mode.Text();
  if (name == "none") {
    out->mode = Mode::kNone;
  } else if (name == "required") {
    out->mode = Mode::kRequired;
  } else if (name != "auto") {
    mode.FailName("mode", limit);
  }
}

// The name in {"type": "function"}, which stands in the object or in its member "function".
std::string ReadFunctionName(const V& choice) {
  const V type = choice.At("type");
  if (type.ExpectText() && type.json() != "function") type.FailName("type", kFunctionAlone);
  const V function = choice.At("function");
  choice.IgnoreAllBut("type function name");
  if (function.is_object()) function.IgnoreAllBut("name");
  return (function.is_object() ? function.At("name") : choice.At("name")).Text();
}

void ReadAllowedTools(const V& allowed, B* body) {
  if (!allowed.ExpectObject()) return;
  allowed.IgnoreAllBut("type mode tools");
  ReadMode(allowed.At("mode"), "\"auto\" or \"required\"", &body->request->tool_choice);
  const V tools = allowed.At("tools");
  if (!tools.ExpectArray()) return;
  body->allowed_tools.emplace();
  for (size_t i = 0; i < tools.size() && tools.ok(); ++i) {
    const V tool = tools.At(i);
    if (tool.ExpectObject()) body->allowed_tools->push_back(ReadFunctionName(tool));
  }
}

void KeepAllowedTools(const V& root, B* body) {
  const absl::flat_hash_set<std::string> allowed(body->allowed_tools->begin(), body->allowed_tools->end());
  absl::flat_hash_set<std::string> found;
  Json kept = Json::array();
  for (const Json& tool : body->chat.tools_json.empty() ? Json::array() : Json::parse(body->chat.tools_json)) {
    const std::string name = NameOf(tool);
    if (!allowed.contains(name)) continue;
    found.insert(name);
    kept.push_back(tool);
  }
  if (found.size() < allowed.size()) {
    root.At("tool_choice").Fail("allows a tool that is not there", "functions of tools");
  }
  SetTools(kept, body);
}

}  // namespace

void ReadTools(const JsonValue& tools, GenerationBody* body) {
  SetTools(ReadFunctionTools(tools, false), body);
}

void ReadFlatTools(const JsonValue& tools, const FlatToolForm& form, GenerationBody* body) {
  if (!tools.ExpectArray()) return;
  FlatToolReader reader(form, body);
  for (size_t i = 0; i < tools.size(); ++i) reader.Reserve(tools.At(i));
  for (size_t i = 0; i < tools.size() && tools.ok(); ++i) reader.Read(tools.At(i));
  SetTools(reader.list(), body);
}

void ReadToolChoice(const JsonValue& choice, GenerationBody* body) {
  ClientToolChoice& out = body->request->tool_choice;
  if (!choice.is_object()) return ReadMode(choice, "\"auto\", \"none\", \"required\" or a function", &out);
  if (choice.At("type").json() == "allowed_tools") {
    const V nested = choice.At("allowed_tools");
    return ReadAllowedTools(nested.is_null() ? choice : nested, body);
  }
  out.mode = Mode::kNamed;
  out.name = ReadFunctionName(choice);
}

void SettleTools(const JsonValue& root, GenerationBody* body) {
  absl::flat_hash_map<std::pair<std::string, std::string>, std::string> offered;  // by namespace and name
  for (const NamespacedTool& tool : body->namespaced) offered.emplace(std::pair(tool.space, tool.name), tool.offered);
  for (const GenerationBody::NamespacedCall& call : body->namespaced_calls) {
    std::string& name = body->chat.messages[call.message].tool_calls[call.call].name;
    const auto found = offered.find(std::pair(call.space, name));
    if (found != offered.end()) name = found->second;
  }
  if (body->allowed_tools.has_value()) KeepAllowedTools(root, body);
}

}  // namespace dunlin::server
