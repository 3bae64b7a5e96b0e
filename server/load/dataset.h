// Where prompts come from. Everything is seeded: the same options give the same requests in the same order.
//
//   random         prompts without a common beginning, of a length around --input-len
//   shared-prefix  one of --num-prefixes beginnings of --prefix-tokens each, then a random rest of --input-len
//   sharegpt       the first turn of each conversation of a ShareGPT JSON file; as many tokens are asked for as the
//                  answer in the file has. Filters as in vllm bench serve: two turns, 4 to 1024 prompt tokens, 4 or
//                  more answer tokens, 2048 together; without the model's tokenizer a token is taken for 4 bytes
//   jsonl          one object a line: {"prompt": "text"} or {"token_ids": [1, 2]}, and if given {"max_tokens": 16}
//
// Random prompts are token ids or, for servers that take text alone, words of two letters; how many tokens those are is
// what the server says.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/load/prompt.h"

namespace dunlin::server::load {

enum class DatasetKind : uint8_t { kRandom, kSharedPrefix, kShareGpt, kJsonl };
enum class PromptForm : uint8_t { kTokens, kWords };

struct DatasetOptions {
  DatasetKind kind = DatasetKind::kRandom;
  PromptForm form = PromptForm::kTokens;
  std::string path;             // of kShareGpt, kJsonl
  int32_t input_tokens = 128;   // >= 1
  int32_t output_tokens = 128;  // >= 1; of kJsonl only for lines that say nothing
  // Lengths are uniform in [(1 - ratio) x, (1 + ratio) x]; [0, 1).
  double range_ratio = 0;
  int32_t prefix_tokens = 256;  // >= 1
  int32_t num_prefixes = 1;     // >= 1
  int32_t vocab_size = 256;     // >= 1: token ids are drawn below it
  bool ignore_eos = true;
  uint64_t seed = 0;
};

// One thread at a time.
class Dataset {
 public:
  virtual ~Dataset() = default;
  // Never ends: files are read again from their beginning.
  virtual Prompt Next() = 0;
};

// Errors: NOT_FOUND for a file that cannot be read, INVALID_ARGUMENT for one without a usable prompt, with its line.
absl::StatusOr<std::unique_ptr<Dataset>> OpenDataset(const DatasetOptions& options);

}  // namespace dunlin::server::load
