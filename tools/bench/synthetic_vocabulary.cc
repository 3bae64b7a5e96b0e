// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/synthetic_vocabulary.h"

#include <array>
#include <nlohmann/json.hpp>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "engine/base/check.h"

namespace dunlin::tools::bench {
namespace {

// Numbers below a limit, the same in every run; Steele, Lea & Flood 2014, SplitMix64.
class Numbers {
 public:
  size_t Below(size_t limit) {
    state_ += 0x9E3779B97F4A7C15U;
    uint64_t x = state_;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
    return static_cast<size_t>((x ^ (x >> 31)) % limit);
  }

 private:
  uint64_t state_ = 0;
};

// Distinct byte strings in order of their ids.
class Tokens {
 public:
  explicit Tokens(size_t limit) : limit_(limit) {}
  bool full() const { return list_.size() == limit_; }
  void Add(const std::string& bytes) {
    if (!full() && seen_.insert(bytes).second) list_.push_back(bytes);
  }
  const std::vector<std::string>& list() const { return list_; }

 private:
  size_t limit_;
  std::vector<std::string> list_;
  std::unordered_set<std::string> seen_;
};

void AddSpaces(Tokens* tokens) {
  for (size_t count = 1; count <= 32; ++count) {
    const std::string spaces(count, ' ');
    for (const char* before : {"", "\n", "\n\n", "\r\n"}) tokens->Add(before + spaces);
    tokens->Add(std::string(count, '\n'));
    tokens->Add(std::string(count, '\t'));
  }
}

void AddPunctuation(Tokens* tokens) {
  constexpr std::string_view kMarks = "{}[]()<>\":,;.'=+-*/\\_#@!?&|%$^~`";
  constexpr std::string_view kJson = "{}[]\":,";
  for (const char first : kMarks) {
    tokens->Add(std::string{' ', first});
    for (const char second : kMarks) tokens->Add(std::string{first, second});
  }
  for (const char first : kJson) {
    for (const char second : kJson) {
      tokens->Add(std::string{' ', first, second});
      for (const char third : kJson) tokens->Add(std::string{first, second, third});
    }
  }
}

void AddNumbers(Tokens* tokens) {
  for (int number = 0; number < 1000; ++number) {
    tokens->Add(std::to_string(number));
    if (number < 500) tokens->Add(" " + std::to_string(number));
  }
}

// The first two bytes of characters of three, and some of these in full; all characters of two bytes of one script.
void AddCharacterPieces(Tokens* tokens) {
  for (int lead = 0xE4; lead <= 0xE9; ++lead) {
    for (int next = 0x80; next <= 0xBF; ++next) {
      std::string bytes = {static_cast<char>(lead), static_cast<char>(next)};
      tokens->Add(bytes);
      tokens->Add(bytes + static_cast<char>(0x80 + (lead + next) % 0x40));
    }
  }
  for (int lead = 0xD0; lead <= 0xD1; ++lead) {
    for (int next = 0x80; next <= 0xBF; ++next) tokens->Add({static_cast<char>(lead), static_cast<char>(next)});
  }
}

std::string Syllable(Numbers* numbers) {
  constexpr std::array<std::string_view, 24> kOnsets = {"",  "b", "c", "d",  "f",  "g",  "h",  "l",
                                                        "m", "n", "p", "r",  "s",  "t",  "v",  "w",
                                                        "k", "j", "y", "st", "tr", "ch", "sh", "th"};
  constexpr std::array<std::string_view, 8> kNuclei = {"a", "e", "i", "o", "u", "ea", "ou", "io"};
  constexpr std::array<std::string_view, 12> kCodas = {"", "", "", "n", "r", "s", "t", "l", "d", "m", "ng", "nt"};
  std::string syllable(kOnsets[numbers->Below(kOnsets.size())]);
  syllable += kNuclei[numbers->Below(kNuclei.size())];
  return syllable.append(kCodas[numbers->Below(kCodas.size())]);
}

// Words of one to four syllables until the vocabulary is full: three in five forms begin with a space.
void AddWords(Tokens* tokens) {
  Numbers numbers;
  while (!tokens->full()) {
    std::string word;
    for (size_t left = 1 + numbers.Below(4); left > 0; --left) word += Syllable(&numbers);
    tokens->Add(" " + word);
    if (numbers.Below(2) == 0) tokens->Add(word);
    if (numbers.Below(4) != 0) continue;
    word[0] = static_cast<char>(word[0] - 'a' + 'A');
    tokens->Add(" " + word);
    if (numbers.Below(2) == 0) tokens->Add(word);
  }
}

// How byte-level tokenizers spell bytes: printable ones as themselves, the others as the characters from U+0100 on.
// Source: bytes_to_unicode of GPT-2's encoder.
std::array<std::string, 256> Spellings() {
  std::array<std::string, 256> spellings;
  int others = 0;
  for (int byte = 0; byte < 256; ++byte) {
    const bool printable = (byte > 0x20 && byte < 0x7F) || (byte > 0xA0 && byte != 0xAD);
    const int code = printable ? byte : 0x100 + others++;
    std::string& spelling = spellings[static_cast<size_t>(byte)];
    if (code < 0x80) {
      spelling = static_cast<char>(code);
    } else {
      spelling = {static_cast<char>(0xC0 | code >> 6), static_cast<char>(0x80 | (code & 0x3F))};
    }
  }
  return spellings;
}

}  // namespace

std::string SyntheticTokenizerJson(int32_t vocab_size) {
  DUNLIN_CHECK(vocab_size >= kMinSyntheticVocabulary, "a vocabulary that holds less than the bytes and marks");
  Tokens tokens(static_cast<size_t>(vocab_size) - 1);
  for (int byte = 0; byte < 256; ++byte) tokens.Add(std::string(1, static_cast<char>(byte)));
  AddSpaces(&tokens);
  AddPunctuation(&tokens);
  AddNumbers(&tokens);
  AddCharacterPieces(&tokens);
  AddWords(&tokens);

  const std::array<std::string, 256> spellings = Spellings();
  nlohmann::json vocabulary = nlohmann::json::object();
  for (size_t id = 0; id < tokens.list().size(); ++id) {
    std::string spelling;
    for (const char byte : tokens.list()[id]) spelling += spellings[static_cast<unsigned char>(byte)];
    vocabulary[spelling] = id;
  }
  const nlohmann::json byte_level = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}};
  const nlohmann::json end = {
      {"id", vocab_size - 1}, {"content", "<|endoftext|>"}, {"single_word", false}, {"lstrip", false},
      {"rstrip", false},      {"normalized", false},        {"special", true}};
  const nlohmann::json tokenizer = {
      {"version", "1.0"},
      {"added_tokens", nlohmann::json::array({end})},
      {"pre_tokenizer", byte_level},
      {"decoder", byte_level},
      {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", nlohmann::json::array()}}}};
  return tokenizer.dump();
}

}  // namespace dunlin::tools::bench
