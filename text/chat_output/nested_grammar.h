// SPDX-License-Identifier: Apache-2.0
// The grammar of calls whose form writes no JSON inside its values either (call_grammar.h): the schemas of texts, lists
// and objects become rules; numbers and words stay JSON Schemas. Each such form says how it writes what a schema
// allows. Schemas nested deeper than 32 are refused. Owner: a form's grammar function. Thread rule: one thread at a
// time.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/chat_output/call_grammar.h"
#include "text/chat_output/parameters.h"

namespace dunlin::text {

class NestedGrammar {
 public:
  // form: in the table of forms, which has its markers. is_name: of parameters and members. request and the pointers
  // outlive this.
  NestedGrammar(const char* form, bool (*is_name)(std::string_view name), const CallGrammar& request,
                GrammarParts* parts)
      : form_(form), is_name_(is_name), request_(request), parts_(parts) {}
  NestedGrammar(const NestedGrammar&) = delete;
  NestedGrammar& operator=(const NestedGrammar&) = delete;
  virtual ~NestedGrammar() = default;

 protected:
  using Json = nlohmann::ordered_json;

  // The rules of the arguments of each function, and what is written of function i's: a term.
  std::string ArgumentsOf(size_t i);
  // The rules that all terms so far refer to.
  const std::string& rules() const { return rules_; }
  const ToolSet::Tool& tool() const { return *tool_; }  // of the last ArgumentsOf
  GrammarParts* parts() const { return parts_; }

  std::string Terms(std::string_view text) const;
  // Refuses the function, and stands for the term.
  std::string Refuse(std::string_view what);
  // A term for the values of a schema.
  std::string Value(const Json& schema, int depth);

  // How the form writes things; all but Refuse are terms. The rules "text_value", a text, and "any_value", a value of
  // which nothing is said, are its own.
  virtual std::string Member(const std::string& name, const std::string& value) const = 0;
  virtual std::string_view separator() const = 0;                    // between members
  virtual std::string Object(const std::string& members) const = 0;  // members: a term of all of them
  virtual std::string AnyObject() = 0;                               // an object of which nothing is said
  virtual std::string Map(const Json& values, int depth) = 0;        // members of any name, with a schema
  virtual std::string List(const std::string& item, uint32_t least, std::optional<uint32_t> most) const = 0;
  virtual std::string Word(const std::string& value) const = 0;  // value: a term, of a number or a word in JSON
  // nullopt: its reader would take what it is for another value. schema: that has the literal.
  virtual std::optional<std::string> Literal(const Json& value, const Json& schema) const = 0;
  // What of a schema its reader could not tell apart, for Refuse; "": nothing.
  virtual std::string Confusion(const Json& schema) const = 0;

 private:
  void AddMembers(const std::string& object, const std::vector<Parameter>& members, int depth);
  std::string OfType(const std::string& type, const Json& schema, int depth);
  std::string ListOf(const Json& schema, int depth);
  std::string ObjectOf(const Json& schema, int depth);
  std::string AnyOf(const Json& options, int depth);
  std::string Literals(const Json& values, const Json& schema);
  std::string Reference(const Json& reference, int depth);

  const char* const form_;
  bool (*const is_name_)(std::string_view name);
  const CallGrammar& request_;
  GrammarParts* const parts_;
  const ToolSet::Tool* tool_ = nullptr;
  std::string rules_;
  std::map<std::string, std::string> references_;  // of tool_, their rules
  int num_references_ = 0;
  int num_objects_ = 0;
};

}  // namespace dunlin::text
