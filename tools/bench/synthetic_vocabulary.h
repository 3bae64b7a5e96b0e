// SPDX-License-Identifier: Apache-2.0
// A vocabulary for a model that has none, because its weights are random: what a byte-level tokenizer of program text
// and prose has, made by rules. Pure.
#pragma once

#include <cstdint>
#include <string>

namespace dunlin::tools::bench {

inline constexpr int32_t kMinSyntheticVocabulary = 8192;

// A tokenizer.json of `vocab_size` tokens without merges: all bytes; runs of white space; punctuation in pairs and,
// that of JSON, in threes; numbers; pieces of characters of several bytes; words, with and without a space before them
// and a capital; and "<|endoftext|>" as the last. REQUIRES: vocab_size >= kMinSyntheticVocabulary.
std::string SyntheticTokenizerJson(int32_t vocab_size);

}  // namespace dunlin::tools::bench
