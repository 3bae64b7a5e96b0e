// SPDX-License-Identifier: Apache-2.0
// Writes the config.json that the metadata of a GGUF file amounts to. Ranges are checked by the parser of config.json,
// but for those that stand here. The first error is kept, in fields().
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/model/checkpoint/gguf/gguf_form.h"
#include "engine/model/checkpoint/gguf/gguf_tensors.h"

namespace dunlin::engine {

class GgufConfigWriter {
 public:
  using Json = nlohmann::ordered_json;

  GgufConfigWriter(const GgufForm& form, const char* model_type, const GgufTensors& tensors)
      : form_(form), model_type_(model_type), tensors_(tensors), fields_(tensors.first()) {}

  absl::StatusOr<Json> Write();

  // For GgufForm::write_fields, after the common fields have been written.
  std::string Key(const char* suffix) const;
  GgufFields& fields() { return fields_; }
  bool HasTensor(const std::string& name) const { return tensors_.Find(name) != nullptr; }
  // The first dimension of a tensor; 0: there is none.
  int64_t RowsOf(const char* name) const;
  // ReadGgufFactors; an error of it is recorded, and there are none.
  std::vector<float> Factors(const char* name, int64_t count, float limit);
  // An integer in [min, max] for each of num_layers() layers, of a list or one for all. Records an error where it is
  // missing.
  std::vector<int64_t> OfLayers(const char* suffix, int64_t min, int64_t max);
  // As OfLayers, of any numbers; 0 where the key is missing.
  std::vector<double> NumbersOfLayers(const char* suffix);
  // Which layers have the window; as for WriteWindows.
  std::vector<bool> SlidingLayers(int64_t period, bool full_first = false);
  Json& operator[](const char* field) { return json_[field]; }
  // The number under a key, as the file has it; the field stays absent where the key is.
  void Copy(const char* suffix, const char* field);
  void CopyOr(const char* suffix, const char* field, double fallback);
  void CopyFlag(const char* suffix, const char* field);
  // A key that the family's files always have, in [min, max]. Records an error where it is missing.
  int64_t Required(const char* suffix, int64_t min, int64_t max);

  int64_t num_layers() const { return num_layers_; }  // without those that predict further tokens
  int64_t head_dim() const { return head_dim_; }      // with latent attention the part that rotates

  // attention.sliding_window in tokens; 0: none.
  int64_t Window();
  // `field` and layer_types: which layers have the window, by attention.sliding_window_pattern, a flag for each layer
  // or a period; without it by `period`. Of a period the last layer sees all tokens, or the first (full_first).
  void WriteWindows(const char* field, int64_t period, bool full_first = false);
  // The width of an expert: its key, or else the part of the dense width that a token's experts share.
  int64_t ExpertWidth();

 private:
  std::optional<Json> Value(const std::string& key);
  void WriteFields();
  void WriteVocabulary();
  void WriteHeads();
  void WriteLatentHeads();
  int64_t NumHeads();
  int64_t KvHeadsOfLayers(const std::string& key);
  void WriteRotation();
  void WriteScaling(const std::string& type);
  void WriteLongrope(int64_t num_pairs);
  void WriteExperts();

  const GgufForm& form_;
  const char* model_type_;
  const GgufTensors& tensors_;
  GgufFields fields_;
  Json json_;
  int64_t all_layers_ = 0;  // block_count
  int64_t num_layers_ = 0;
  int64_t head_dim_ = 1;
};

// The text of the config.json that the metadata amounts to, and of its generation_config.json (the ids that end a
// generation). model_type: unless the form writes another. Reads the factors of longrope, small tensors, where the file
// has them. INVALID_ARGUMENT names the key or the tensor, its value and the limit: a missing or malformed key, experts
// in a family without, heads whose keys and values differ in size, a rotation that is not supported, a window pattern
// of another length than the layers.
struct GgufConfigTexts {
  std::string config;
  std::string generation;
};
absl::StatusOr<GgufConfigTexts> WriteGgufConfig(const GgufForm& form, const char* model_type,
                                                const GgufTensors& tensors);

}  // namespace dunlin::engine
