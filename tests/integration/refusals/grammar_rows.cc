// SPDX-License-Identifier: Apache-2.0
// Structured output: regular expressions and grammars that explode, and what they may not have.
#include "absl/strings/str_cat.h"
#include "tests/integration/refusals/groups.h"
#include "tests/integration/refusals/requests.h"

namespace dunlin::integration {
namespace {

constexpr char kConfig[] = "attack.json";
constexpr char kInvalid[] = "GRAMMAR_INVALID";
constexpr char kUnsupported[] = "GRAMMAR_UNSUPPORTED";
constexpr char kTooComplex[] = "GRAMMAR_TOO_COMPLEX";

Sent Regex(const std::string& regex) {
  return Constrained("regex", regex);
}

Sent Grammar(const std::string& grammar) {
  return Constrained("grammar", grammar);
}

Answer OfRegex(const char* reason, const std::string& rest) {
  return BadGrammar(reason, "structured_output.regex", rest);
}

Answer OfGrammar(const char* reason, const std::string& rest) {
  return BadGrammar(reason, "structured_output.grammar", rest);
}

}  // namespace

Group RegexRows() {
  return {"Regexes",
          kConfig,
          {
              {"a parenthesis that is not closed", Regex("(a"), OfRegex(kInvalid, "?")},
              {"a class that is not closed", Regex("[a-z"), OfRegex(kInvalid, "?")},
              {"a range backwards", Regex("[z-a]"), OfRegex(kInvalid, "?")},
              {"a count backwards", Regex("a{2,1}"), OfRegex(kInvalid, "?")},
              {"a class of no name", Regex(R"(\p{Nobody})"), OfRegex(kInvalid, "?")},
              {"a backslash at the end", Regex("a\\"), OfRegex(kInvalid, "?")},
              {"nothing to repeat", Regex("*a"), OfRegex(kInvalid, "?")},
              {"an anchor", Regex("^a"),
               OfRegex(kUnsupported, "has an anchor; the whole text is matched without it, at byte 0")},
              {"look-ahead", Regex("a(?=b)"), OfRegex(kUnsupported, "?")},
              {"look-behind", Regex("(?<=a)b"), OfRegex(kUnsupported, "?")},
              {"a backreference", Regex(R"((a)\1)"), OfRegex(kUnsupported, "has a backreference, at byte 3")},
              {"a word boundary", Regex(R"(\ba)"), OfRegex(kUnsupported, "has a word boundary, at byte 0")},
              {"a named group", Regex("(?P<n>a)"), OfRegex(kUnsupported, "?")},
              {"counts of counts", Regex("((a{1,1000}){1,1000}){1,1000}"), OfRegex(kTooComplex, "?")},
              {"counts that overlap", Regex("(a?){1000}(a|aa){1000}a{1000}"), OfRegex(kTooComplex, "?")},
              {"a count of a billion", Regex("a{1000000000}"), OfRegex(kTooComplex, "?")},
              {"eight thousand groups", Regex(absl::StrCat(Times(8000, "("), "a", Times(8000, ")"))),
               OfRegex(kTooComplex, "?")},
              {"an expression that explodes elsewhere", Regex("(a+)+b"), Ok()},
              {"a search that explodes elsewhere", Regex("(a|a)*(a|a)*(a|a)*(a|a)*b"), Ok()},
          }};
}

Group GrammarRows() {
  return {"Grammars",
          kConfig,
          {
              {"no start", Grammar("a: \"b\""), OfGrammar(kInvalid, "?")},
              {"no root", Grammar("a ::= \"b\""), OfGrammar(kInvalid, "?")},
              {"a rule that is not there", Grammar("start: nothing"), OfGrammar(kInvalid, "?")},
              {"a rule of GBNF that is not there", Grammar("root ::= nothing"), OfGrammar(kInvalid, "?")},
              {"a string that is not closed", Grammar("start: \"a"), OfGrammar(kInvalid, "?")},
              {"a rule that never ends", Grammar("start: \"a\" start"), OfGrammar(kInvalid, "?")},
              {"a rule of itself alone", Grammar("start: start"), OfGrammar(kInvalid, "?")},
              {"bytes of no language", Grammar("\x01\x02\x03 ???"), OfGrammar(kInvalid, "?")},
              {"a JSON schema inside", Grammar("start: %json {\"type\": \"string\"}"), OfGrammar(kUnsupported, "?")},
              {"a grammar inside", Grammar("start: %lark { start: \"a\" }"), OfGrammar(kUnsupported, "?")},
              {"a special token", Grammar("start: <|endoftext|>"),
               OfGrammar(kUnsupported, "has a special token, in line 1")},
              {"an attribute", Grammar("start[max_tokens=5]: \"a\""), OfGrammar(kUnsupported, "?")},
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
              {"a repetition of GBNF", Grammar("root ::= \"a\"{1025}"),
               OfGrammar(kTooComplex, "repeats 1025 times; limit is 1024, in line 1")},
              {"counts of counts", Grammar("start: (((x{1000}){1000}){1000}){1000}\nx: \"a\" x | \"b\""),
               OfGrammar(kTooComplex, "?")},
              {"ambiguous without bound", Grammar("start: start start | \"a\" |"), Ok()},
              {"a recursion of GBNF", Grammar("root ::= \"(\" root \")\" | \"x\""), Ok()},
          }};
}

}  // namespace dunlin::integration
