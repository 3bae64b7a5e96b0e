// SPDX-License-Identifier: Apache-2.0
// The calls of Gemma 4 and FunctionGemma: call:NAME{key:VALUE,key:VALUE}. Keys are bare; a value is a text between two
// quotes of the form, without escapes, a number or a word, or a list or an object of values.
// Source: the models' chat templates.
#pragma once

#include <memory>
#include <string_view>

#include "text/chat_output/call_reader.h"

namespace dunlin::text {

struct GemmaMarks {
  const char* form;        // in the table of forms
  std::string_view begin;  // around a call
  std::string_view end;
  std::string_view quote;  // around a text
};
inline constexpr GemmaMarks kGemma4Marks = {"gemma4", "<|tool_call>", "<tool_call|>", "<|\"|>"};
inline constexpr GemmaMarks kFunctionGemmaMarks = {"functiongemma", "<start_function_call>", "<end_function_call>",
                                                   "<escape>"};

std::unique_ptr<CallReader> MakeGemmaCall(const GemmaMarks& marks);

// Whether the reader takes `name` as a bare key.
bool IsGemmaKey(std::string_view name);

}  // namespace dunlin::text
