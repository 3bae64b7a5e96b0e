// SPDX-License-Identifier: Apache-2.0
#include "tools/load/dataset.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "tools/load/dataset_files.h"
#include "tools/load/random.h"

namespace dunlin::tools::load {
namespace {

constexpr int32_t kFirstTokenId = 3;  // lower ids are special tokens in most vocabularies

// A space and two letters are one token in nearly every BPE vocabulary.
std::string RandomWord(Random* random) {
  static constexpr char kVowels[] = "aeiou";
  static constexpr char kConsonants[] = "bdfghlmnprst";
  return {kConsonants[random->Between(0, 11)], kVowels[random->Between(0, 4)]};
}

class RandomDataset final : public Dataset {
 public:
  explicit RandomDataset(const DatasetOptions& options) : options_(options), random_(options.seed) {
    if (options.kind != DatasetKind::kSharedPrefix) return;
    for (int32_t i = 0; i < options.num_prefixes; ++i) {
      Prompt prefix;
      Extend(options.prefix_tokens, &prefix);
      prefixes_.push_back(std::move(prefix));
    }
  }

  Prompt Next() override {
    Prompt prompt;
    if (!prefixes_.empty()) {
      prompt = prefixes_[static_cast<size_t>(random_.Between(0, static_cast<int64_t>(prefixes_.size()) - 1))];
    }
    const int32_t length = Around(options_.input_tokens);
    options_.kind == DatasetKind::kRepeated ? Repeat(length, &prompt) : Extend(length, &prompt);
    prompt.max_tokens = Around(options_.output_tokens);
    prompt.ignore_eos = options_.ignore_eos;
    return prompt;
  }

 private:
  int32_t Around(int32_t length) {
    const double low = std::ceil(length * (1 - options_.range_ratio));
    const double high = std::floor(length * (1 + options_.range_ratio));
    return static_cast<int32_t>(std::max<int64_t>(1, random_.Between(std::lround(low), std::lround(high))));
  }

  void Extend(int32_t num_tokens, Prompt* prompt) {
    for (int32_t i = 0; i < num_tokens; ++i) {
      if (options_.form == PromptForm::kWords) {
        prompt->text += (prompt->text.empty() ? "" : " ") + RandomWord(&random_);
        continue;
      }
      const int32_t first = std::min(kFirstTokenId, options_.vocab_size - 1);
      prompt->token_ids.push_back(static_cast<int32_t>(random_.Between(first, options_.vocab_size - 1)));
    }
  }

  void Repeat(int32_t num_tokens, Prompt* prompt) {
    const int32_t period = std::clamp(num_tokens / 4, 1, options_.prefix_tokens);
    Extend(period, prompt);
    const std::string phrase = prompt->text;
    for (int32_t i = period; i < num_tokens; ++i) {
      if (options_.form == PromptForm::kTokens) {
        prompt->token_ids.push_back(prompt->token_ids[static_cast<size_t>(i - period)]);
      } else {
        prompt->text += ' ' + phrase.substr(3 * static_cast<size_t>(i % period), 2);  // words of two letters
      }
    }
  }

  const DatasetOptions options_;
  Random random_;
  std::vector<Prompt> prefixes_;
};

class ListDataset final : public Dataset {
 public:
  ListDataset(std::vector<Prompt> prompts, uint64_t seed) : prompts_(std::move(prompts)), random_(seed) {}

  // Each pass is shuffled anew.
  Prompt Next() override {
    if (next_ == 0) {
      for (size_t i = prompts_.size(); i > 1; --i) {
        std::swap(prompts_[i - 1], prompts_[static_cast<size_t>(random_.Between(0, static_cast<int64_t>(i) - 1))]);
      }
    }
    const Prompt& prompt = prompts_[next_];
    next_ = (next_ + 1) % prompts_.size();
    return prompt;
  }

 private:
  std::vector<Prompt> prompts_;
  Random random_;
  size_t next_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Dataset>> OpenDataset(const DatasetOptions& options) {
  if (options.kind != DatasetKind::kShareGpt && options.kind != DatasetKind::kJsonl) {
    return std::unique_ptr<Dataset>(new RandomDataset(options));
  }
  absl::StatusOr<std::vector<Prompt>> prompts =
      options.kind == DatasetKind::kShareGpt ? ReadShareGpt(options) : ReadJsonl(options);
  if (!prompts.ok()) return prompts.status();
  return std::unique_ptr<Dataset>(new ListDataset(*std::move(prompts), options.seed));
}

}  // namespace dunlin::tools::load
