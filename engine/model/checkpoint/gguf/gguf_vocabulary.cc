// SPDX-License-Identifier: Apache-2.0
#include "engine/model/checkpoint/gguf/gguf_vocabulary.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/request/types.h"

namespace dunlin::engine {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t kMaxVocabularyWordBytes = 256;
constexpr uint64_t kMaxTextBytes = uint64_t{64} << 20;  // of the tokens or merges: what a tokenizer.json may have
constexpr uint64_t kMaxTemplateBytes = uint64_t{1} << 20;
constexpr uint64_t kMaxMerges = uint64_t{1} << 22;
constexpr const char* kTemplate = "tokenizer.chat_template";
constexpr const char* kTokens = "tokenizer.ggml.tokens";
constexpr const char* kScores = "tokenizer.ggml.scores";
constexpr const char* kTokenTypes = "tokenizer.ggml.token_type";
constexpr const char* kMerges = "tokenizer.ggml.merges";

struct NamedToken {
  const char* key;
  const char* field;  // of tokenizer_config.json
};
constexpr NamedToken kNamedTokens[] = {
    {"tokenizer.ggml.bos_token_id", "bos_token"},     {"tokenizer.ggml.eos_token_id", "eos_token"},
    {"tokenizer.ggml.unknown_token_id", "unk_token"}, {"tokenizer.ggml.seperator_token_id", "sep_token"},
    {"tokenizer.ggml.padding_token_id", "pad_token"}, {"tokenizer.ggml.cls_token_id", "cls_token"},
    {"tokenizer.ggml.mask_token_id", "mask_token"},
};

// Bytes that are not UTF-8 become U+FFFD: no token that a text can reach has them.
std::string Dump(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// A list that stands beside the tokens; empty or of their number.
Json BesideTokens(GgufFields& fields, const char* key, size_t num_tokens) {
  std::vector<double> numbers = fields.Numbers(key, num_tokens);
  if (!numbers.empty() && numbers.size() != num_tokens) {
    fields.Fail(key, absl::StrCat("has ", numbers.size(), " elements; there are ", num_tokens, " tokens"));
  }
  return numbers;
}

void CopyFlag(GgufFields& fields, const char* key, const char* field, Json* out) {
  if (const std::optional<bool> flag = fields.Bool(key)) (*out)[field] = *flag;
}

// "default" and, where the file has several, the named ones that text may choose from.
Json ChatTemplates(GgufFields& fields) {
  Json templates = Json::array();
  for (const char* name : {"default", "tool_use"}) {
    const std::string key = std::string_view(name) == "default" ? kTemplate : absl::StrCat(kTemplate, ".", name);
    std::string text = fields.Text(key, kMaxTemplateBytes);
    if (!text.empty()) templates.push_back({{"name", name}, {"template", std::move(text)}});
  }
  return templates;
}

}  // namespace

absl::StatusOr<GgufTokenizerTexts> WriteGgufTokenizer(const GgufFile& file) {
  GgufFields fields(file);
  Json vocabulary;
  Json config = Json::object();
  if (Json templates = ChatTemplates(fields); !templates.empty()) config["chat_template"] = std::move(templates);
  const std::string model = fields.Text("tokenizer.ggml.model", kMaxVocabularyWordBytes);
  if (!fields.status().ok()) return fields.status();
  if (model.empty() || model == "none" || model == "no_vocab") return GgufTokenizerTexts{"", Dump(config)};

  std::vector<std::string> tokens = fields.Texts(kTokens, static_cast<uint64_t>(kMaxVocabSize), kMaxTextBytes);
  if (tokens.empty()) fields.Fail(kTokens, "is missing or empty");
  vocabulary["model"] = model;
  vocabulary["pre"] = fields.Text("tokenizer.ggml.pre", kMaxVocabularyWordBytes);
  vocabulary["scores"] = BesideTokens(fields, kScores, tokens.size());
  vocabulary["types"] = BesideTokens(fields, kTokenTypes, tokens.size());
  vocabulary["merges"] = fields.Texts(kMerges, kMaxMerges, kMaxTextBytes);
  for (const NamedToken& named : kNamedTokens) {
    const std::optional<int64_t> id = fields.Int(named.key, 0, UINT32_MAX);
    if (!id.has_value() || *id == UINT32_MAX) continue;  // some writers give 2^32 - 1 for none
    if (static_cast<uint64_t>(*id) >= tokens.size()) {
      fields.Fail(named.key, absl::StrCat("is ", *id, "; the vocabulary has ", tokens.size(), " tokens"));
      continue;
    }
    vocabulary[named.field] = *id;
    config[named.field] = tokens[static_cast<size_t>(*id)];
  }
  CopyFlag(fields, "tokenizer.ggml.add_bos_token", "add_bos", &vocabulary);
  CopyFlag(fields, "tokenizer.ggml.add_eos_token", "add_eos", &vocabulary);
  CopyFlag(fields, "tokenizer.ggml.add_sep_token", "add_sep", &vocabulary);
  CopyFlag(fields, "tokenizer.ggml.add_space_prefix", "add_space_prefix", &vocabulary);
  CopyFlag(fields, "tokenizer.ggml.remove_extra_whitespaces", "remove_extra_whitespaces", &vocabulary);
  vocabulary["tokens"] = std::move(tokens);
  if (!fields.status().ok()) return fields.status();
  return GgufTokenizerTexts{Dump(vocabulary), Dump(config)};
}

size_t EstimateGgufVocabulary(const GgufHeader& header) {
  // In JSON a string has two quotation marks and a comma, where the file has a length of 8 bytes.
  constexpr uint64_t kSavedPerString = 5;
  constexpr uint64_t kBytesPerNumber = 4;  // "1.0,"; scores have some more digits
  uint64_t bytes = 0;
  for (const char* key : {kTokens, kScores, kTokenTypes, kMerges}) {
    const auto found = header.metadata.find(key);
    if (found == header.metadata.end()) continue;
    const GgufValue& value = found->second;
    bytes +=
        value.type == GgufType::kString ? value.bytes - kSavedPerString * value.count : kBytesPerNumber * value.count;
  }
  return bytes;
}

}  // namespace dunlin::engine
