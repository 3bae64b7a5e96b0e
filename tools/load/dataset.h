// SPDX-License-Identifier: Apache-2.0
// Sources of prompts. Everything is seeded: the same options give the same requests in the same order.
//
//   random         prompts without a common prefix, of a length around --input-len
//   shared-prefix  one of --num-prefixes prefixes of --prefix-tokens each, then --input-len random tokens
//   repeated       a random phrase of the prompt's own, again and again, as long as random; the phrase has a quarter of
//                  the prompt's tokens, at most --prefix-tokens. With most models what follows repeats it, too
//   sharegpt       the first turn of each conversation of a ShareGPT JSON file; requests as many tokens as the
//                  answer in the file has. Filters as in vllm bench serve: two turns, 4 to 1024 prompt tokens, 4 or
//                  more answer tokens, 2048 together; a token counts as 4 bytes, as the model's tokenizer is not
//                  available
//   jsonl          one object a line: {"prompt": "text"} or {"token_ids": [1, 2]}, and if given {"max_tokens": 16}
//
// Random prompts are token ids or, for servers that accept text only, two-letter words, whose token count the server
// reports.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "tools/load/prompt.h"

namespace dunlin::tools::load {

enum class DatasetKind : uint8_t { kRandom, kSharedPrefix, kRepeated, kShareGpt, kJsonl };
enum class PromptForm : uint8_t { kTokens, kWords };

struct DatasetOptions {
  DatasetKind kind = DatasetKind::kRandom;
  PromptForm form = PromptForm::kTokens;
  std::string path;             // of kShareGpt, kJsonl
  int32_t input_tokens = 128;   // >= 1
  int32_t output_tokens = 128;  // >= 1; of kJsonl only for lines without max_tokens
  // Lengths are uniform in [(1 - ratio) x, (1 + ratio) x]; [0, 1).
  double range_ratio = 0;
  int32_t prefix_tokens = 256;  // >= 1
  int32_t num_prefixes = 1;     // >= 1
  int32_t vocab_size = 256;     // >= 1: token ids are drawn below it
  bool ignore_eos = true;
  bool text_only = false;  // of kJsonl: token ids are errors
  uint64_t seed = 0;
};

// One thread at a time.
class Dataset {
 public:
  virtual ~Dataset() = default;
  // Never runs out: a file starts over at its end.
  virtual Prompt Next() = 0;
};

// Errors: NOT_FOUND for a file that cannot be read, INVALID_ARGUMENT for a malformed line (with its number) and for a
// file without a usable prompt.
absl::StatusOr<std::unique_ptr<Dataset>> OpenDataset(const DatasetOptions& options);

}  // namespace dunlin::tools::load
