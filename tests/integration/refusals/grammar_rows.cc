// SPDX-License-Identifier: Apache-2.0
// Structured output: regular expressions and grammars that explode, and what they may not have.
#include "absl/strings/str_cat.h"
#include "tests/integration/refusals/groups.h"
#include "tests/integration/refusals/requests.h"

namespace dunlin::integration {
namespace {

constexpr char kInvalid[] = "GRAMMAR_INVALID";
constexpr char kUnsupported[] = "GRAMMAR_UNSUPPORTED";
constexpr char kTooComplex[] = "GRAMMAR_TOO_COMPLEX";

Sent Regex(const std::string& regex) {
  return Constrained("regex", regex);
}

Sent Grammar(const std::string& grammar) {
  return Constrained("grammar", grammar);
}

// a.{1}b|a.{2}b|...: the states of all are alive at once.
std::string Counters() {
  std::string all = "a";
  for (int count = 1; count < 900; ++count) absl::StrAppend(&all, "|a.{", count, "}b");
  return all;
}

Answer OfRegex(const char* reason, const std::string& rest) {
  return BadGrammar(reason, "structured_output.regex", rest);
}

Answer OfGrammar(const char* reason, const std::string& rest) {
  return BadGrammar(reason, "structured_output.grammar", rest);
}

}  // namespace

Group RegexRows() {
  return {
      "Regexes",
      kAttackConfig,
      {
          {"a parenthesis that is not closed", Regex("(a"),
           OfRegex(kInvalid, "has a malformed regular expression: unclosed group")},
          {"a class that is not closed", Regex("[a-z"),
           OfRegex(kInvalid, "has a malformed regular expression: unclosed character class")},
          {"a range backwards", Regex("[z-a]"),
           OfRegex(kInvalid,
                   "has a malformed regular expression: invalid character class range, the start must be <= the end")},
          {"a count backwards", Regex("a{2,1}"),
           OfRegex(kInvalid,
                   "has a malformed regular expression: invalid repetition count range, the start must be <= the end")},
          {"a class of no name", Regex(R"(\p{Nobody})"),
           OfRegex(kInvalid, "has a malformed regular expression: Unicode property not found")},
          {"a backslash at the end", Regex("a\\"), OfRegex(kInvalid, "ends with a backslash, which escapes nothing")},
          {"nothing to repeat", Regex("*a"),
           OfRegex(kInvalid, "has a malformed regular expression: repetition operator missing expression")},
          {"an anchor", Regex("^a"),
           OfRegex(kUnsupported, "has an anchor; the whole text is matched without it, at byte 0")},
          {"look-ahead", Regex("a(?=b)"), OfRegex(kUnsupported, "has look-ahead, at byte 1")},
          {"look-behind", Regex("(?<=a)b"), OfRegex(kUnsupported, "has look-behind, at byte 0")},
          {"a backreference", Regex(R"((a)\1)"), OfRegex(kUnsupported, "has a backreference, at byte 3")},
          {"a word boundary", Regex(R"(\ba)"), OfRegex(kUnsupported, "has a word boundary, at byte 0")},
          {"a named group", Regex("(?P<n>a)"), OfRegex(kUnsupported, "has a named group, at byte 0")},
          {"counts of counts", Regex("((a{1,1000}){1,1000}){1,1000}"), Ok()},
          {"counts that overlap", Regex("(a?){1000}(a|aa){1000}a{1000}"), Ok()},
          {"a count of a billion", Regex("a{1000000000}"), Ok()},
          {"eight thousand groups", Regex(absl::StrCat(Times(8000, "("), "a", Times(8000, ")"))),
           OfRegex(kTooComplex, "is too complex: exceed the maximum number of nested parentheses/brackets (250)")},
          {"counts in many places", Regex(Counters()), Ok()},
          {"an expression that explodes elsewhere", Regex("(a+)+b"), Ok()},
          {"a search that explodes elsewhere", Regex("(a|a)*(a|a)*(a|a)*(a|a)*b"), Ok()},
      }};
}

Group GrammarRows() {
  return {"Grammars",
          kAttackConfig,
          {
              {"no start", Grammar("a: \"b\""), OfGrammar(kInvalid, "no start rule found")},
              {"no root", Grammar("a ::= \"b\""), OfGrammar(kInvalid, "has no rule \"root\"")},
              {"a rule that is not there", Grammar("start: nothing"),
               OfGrammar(kInvalid, "at 1(8): unknown name: \"nothing\"")},
              {"a rule of GBNF that is not there", Grammar("root ::= nothing"),
               OfGrammar(kInvalid, "names the rule \"nothing\", which it does not define")},
              {"a string that is not closed", Grammar("start: \"a"), OfGrammar(kInvalid, "1(10): lexer error")},
              {"a rule that never ends", Grammar("start: \"a\" start"), Ok()},
              {"a rule of itself alone", Grammar("start: start"),
               OfGrammar(kInvalid, "matches nothing that the model's tokens can spell")},
              {"bytes of no language", Grammar("\x01\x02\x03 ???"), OfGrammar(kInvalid, "1(1): lexer error")},
              {"a JSON schema inside", Grammar("start: %json {\"type\": \"string\"}"),
               OfGrammar(kUnsupported, "has %json; a schema goes into json_schema, in line 1")},
              {"a grammar inside", Grammar("start: %lark { start: \"a\" }"),
               OfGrammar(kUnsupported, "has %lark, in line 1")},
              {"a special token", Grammar("start: <|endoftext|>"),
               OfGrammar(kUnsupported, "has a special token, in line 1")},
              {"an attribute", Grammar("start[max_tokens=5]: \"a\""),
               OfGrammar(kUnsupported, "has the attribute \"max_tokens\", in line 1")},
              {"nested groups", Grammar(absl::StrCat("start: ", Times(65, "("), "\"a\"", Times(65, ")"))),
               OfGrammar(kTooComplex, "nests deeper than 64 groups")},
              {"a hundred thousand nested groups",
               Grammar(absl::StrCat("start: ", Times(100000, "("), "\"a\"", Times(100000, ")"))),
               OfGrammar(kTooComplex, "nests deeper than 64 groups")},
              {"many groups", Grammar(absl::StrCat("start: ", Times(20001, "(a) "), "\na: \"b\"")),
               OfGrammar(kTooComplex, "has more than 20000 rules and groups")},
              {"many strings", Grammar(absl::StrCat("start: ", Times(2000, "\"a\" | "), "\"b\"")),
               OfGrammar(kTooComplex, "has more than 2000 strings and expressions")},
              {"many intersections", Grammar(absl::StrCat("start: A\nA: /a/", Times(9, " & /a/"))),
               OfGrammar(kTooComplex, "has more than 8 operators &")},
              {"a repetition of GBNF", Grammar("root ::= \"a\"{10001}"),
               OfGrammar(kTooComplex, "repeats 10001 times; limit is 10000, in line 1")},
              {"counts of counts", Grammar("start: (((x{1000}){1000}){1000}){1000}\nx: \"a\" x | \"b\""), Ok()},
              {"ambiguous without bound", Grammar("start: start start | \"a\" |"), Ok()},
              {"a recursion of GBNF", Grammar("root ::= \"(\" root \")\" | \"x\""), Ok()},
          }};
}

}  // namespace dunlin::integration
