// SPDX-License-Identifier: Apache-2.0
#include "server/json/function_tools.h"

namespace dunlin::server {

Json ReadFunctionTools(const JsonValue& tools, bool untyped) {
  Json list = Json::array();
  if (!tools.ExpectArray()) return list;
  for (size_t i = 0; i < tools.size() && tools.ok(); ++i) {
    const JsonValue tool = tools.At(i);
    if (!tool.ExpectObject()) break;
    const JsonValue type = tool.At("type");
    if (!untyped || !type.is_null()) {
      if (!type.ExpectText()) break;
      if (type.json() != "function") {
        tool.LeaveOut("type", kFunctionAlone);
        continue;
      }
    }
    const JsonValue function = tool.At("function");
    if (function.ExpectObject()) function.At("name").ExpectText();
    list.push_back(tool.json());
  }
  return list;
}

}  // namespace dunlin::server
