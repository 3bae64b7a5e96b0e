// SPDX-License-Identifier: Apache-2.0
#include "tests/server/serving/test_models.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "engine/model/load/load_model.h"
#include "engine/model/load/sampling_defaults.h"
#include "engine/model/model.h"
#include "server/process/monotonic_clock.h"

namespace dunlin::server {
namespace {

constexpr char kConfig[] = R"({"model_type": "gpt2", "n_layer": 1, "n_embd": 16, "n_head": 2, "n_positions": 512,
                               "vocab_size": 902, "eos_token_id": 0, "bos_token_id": 0})";
constexpr char kEncodersDir[] = DUNLIN_SOURCE_DIR "/tests/golden/encoders/";
constexpr char kTokenizerDir[] = DUNLIN_SOURCE_DIR "/tests/golden/text/byte_level_gpt2";

constexpr char kChatTemplate[] =
    "{% for m in messages %}{% if m.role == 'bird' %}{{ raise_exception('birds do not chat') }}{% endif %}"
    "{{ m.role }}: {{ m.content }}<|endoftext|>{% endfor %}"
    "{% if tools %}[{{ tools | length }}]{% endif %}{% if add_generation_prompt %}assistant:{% endif %}";

std::string WriteConfig() {
  static std::atomic<int> count{0};
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() /
      ("dunlin_test_" + std::to_string(getpid()) + "_" + std::to_string(count++) + ".json");
  std::ofstream(path) << kConfig;
  return path.string();
}

// A real runtime that a test can hold and break.
class HeldEncoder final : public engine::EncoderRuntime {
 public:
  HeldEncoder(RuntimeControl* control, std::unique_ptr<engine::EncoderRuntime> real)
      : control_(control), real_(std::move(real)) {}
  absl::Status Run(engine::EncodeBatch* batch) override {
    while (control_->held.load()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (control_->fail.load()) return absl::InternalError("broken, as asked");
    return real_->Run(batch);
  }

 private:
  RuntimeControl* const control_;
  const std::unique_ptr<engine::EncoderRuntime> real_;
};

// The tokenizer of a folder with the added token "<image>", whose id is the first that the model has no row for.
std::unique_ptr<text::Tokenizer> WithImageToken(const std::string& folder, int32_t num_rows) {
  std::ifstream file(folder + "/tokenizer.json");
  nlohmann::json tokenizer = nlohmann::json::parse(file);
  nlohmann::json token = tokenizer["added_tokens"].back();
  token["id"] = num_rows;
  token["content"] = "<image>";
  token["special"] = false;
  tokenizer["added_tokens"].push_back(token);
  auto loaded = text::Tokenizer::FromJson(tokenizer.dump(), "", num_rows);
  EXPECT_TRUE(loaded.ok()) << loaded.status();
  return *std::move(loaded);
}

}  // namespace

void RecordingObserver::OnTokenInterval(const std::string&, const engine::ExecutionProfile&, engine::TimeNs) {
  absl::MutexLock lock(&mutex_);
  ++intervals_;
}

void RecordingObserver::OnFinished(const RequestRecord& record) {
  absl::MutexLock lock(&mutex_);
  records_.push_back(record);
}

std::vector<RequestRecord> RecordingObserver::WaitFor(size_t count) const {
  absl::MutexLock lock(&mutex_);
  const auto enough = [this, count]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return records_.size() >= count; };
  mutex_.AwaitWithTimeout(absl::Condition(&enough), absl::Seconds(10));
  return records_;
}

void RecordingObserver::OnIgnored(std::string_view route, const IgnoredNames& names) {
  absl::MutexLock lock(&mutex_);
  ignored_.push_back(std::string(route) + ": " + names.List());
}

std::vector<std::string> RecordingObserver::ignored() const {
  absl::MutexLock lock(&mutex_);
  return ignored_;
}

int64_t RecordingObserver::intervals() const {
  absl::MutexLock lock(&mutex_);
  return intervals_;
}

TestModels::TestModels(const engine::EngineOptions& options, int32_t num_pages) : num_pages_(num_pages) {
  std::string error;
  kernels::DeviceOptions device;
  device.num_threads = 1;
  device_ = kernels::OpenDevice(kernels::DeviceKind::kCpu, device, &error);
  EXPECT_NE(device_, nullptr) << error;
  EXPECT_TRUE(repository_.Add(MakeModel("tiny", true, options)).ok());
  EXPECT_TRUE(repository_.Add(MakeModel("bare", false, options)).ok());
  AddEncoder("encoder", "bert_sentence", options);
}

void TestModels::AddBanning() {
  auto served = MakeModel("banning", true, engine::EngineOptions());
  const auto defaults = engine::ParseGenerationDefaults(R"({"temperature": 0.5, "max_new_tokens": 12,
      "suppress_tokens": [3, 4], "begin_suppress_tokens": [5], "bad_words_ids": [[6, 7]]})",
                                                        kTinyVocab);
  EXPECT_TRUE(defaults.ok()) << defaults.status();
  served->sampling_defaults = defaults->sampling;
  served->default_max_tokens = defaults->max_tokens;
  EXPECT_TRUE(repository_.Add(std::move(served)).ok());
}

void TestModels::AddUnembedded() {
  auto served = MakeModel("unembedded", true, engine::EngineOptions());
  served->tokenizer = WithImageToken(kTokenizerDir, kTinyVocab);
  EXPECT_TRUE(repository_.Add(std::move(served)).ok());
  auto encoder = MakeEncoder("unembedded_encoder", "bert_sentence", engine::EngineOptions());
  encoder->tokenizer = WithImageToken(kEncodersDir + std::string("bert_sentence"), encoder->model->config().vocab_size);
  EXPECT_TRUE(repository_.Add(std::move(encoder)).ok());
}

void TestModels::AddChatting(const std::string& name, const std::string& text) {
  auto served = MakeModel(name, true, engine::EngineOptions());
  auto loaded = text::ChatTemplate::Load("", text);
  EXPECT_TRUE(loaded.ok()) << loaded.status();
  served->chat_template = *std::move(loaded);
  const std::string& source = served->chat_template->source();
  served->chat_forms = {text::RecogniseReasoningFormat(source), text::RecogniseToolFormat(source)};
  EXPECT_TRUE(repository_.Add(std::move(served)).ok());
}

std::unique_ptr<ServedModel> TestModels::MakeModel(const std::string& name, bool tokenizer,
                                                   const engine::EngineOptions& options) {
  auto served = std::make_unique<ServedModel>();
  served->name = name;
  const std::string config = WriteConfig();
  engine::ModelSource source;
  source.random_shape = config;
  source.precisions = {engine::Precision::kFp32, engine::Precision::kBf16};
  absl::StatusOr<std::unique_ptr<engine::Model>> model = engine::LoadModel(source, device_.get());
  EXPECT_TRUE(model.ok()) << model.status();
  std::filesystem::remove(config);
  served->model = *std::move(model);
  if (tokenizer) {
    served->directory = kTokenizerDir;
    auto loaded = text::Tokenizer::Load(kTokenizerDir, kTinyVocab);
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    served->tokenizer = *std::move(loaded);
    served->grammars = std::make_unique<GrammarCache>(
        GrammarLane::Model{served->tokenizer.get(), served->model->config().eos_token_ids, kTinyVocab, "", {}});
    served->chat_template = *text::ChatTemplate::Load("", kChatTemplate);
  }
  served->profiles =
      std::make_unique<engine::ProfileTable>(served->model->config(), source.precisions, *device_, options);
  served->sampling_defaults.temperature = 0.0F;
  served->engine =
      std::make_unique<engine::Engine>(options, served->model->config(),
                                       std::make_unique<ScriptedRuntime>(&control_, num_pages_), &MonotonicNs, nullptr);
  return served;
}

void TestModels::AddEncoder(const std::string& name, const std::string& folder, const engine::EngineOptions& options) {
  EXPECT_TRUE(repository_.Add(MakeEncoder(name, folder, options)).ok());
}

std::unique_ptr<ServedModel> TestModels::MakeEncoder(const std::string& name, const std::string& folder,
                                                     const engine::EngineOptions& options) {
  auto served = std::make_unique<ServedModel>();
  served->name = name;
  engine::ModelSource source;
  source.path = kEncodersDir + folder;
  source.precisions = {engine::Precision::kFp32, engine::Precision::kBf16};
  absl::StatusOr<std::unique_ptr<engine::Model>> model = engine::LoadModel(source, device_.get());
  EXPECT_TRUE(model.ok()) << model.status();
  served->model = *std::move(model);
  const engine::ModelConfig& config = served->model->config();
  served->tokenizer = *text::Tokenizer::Load(source.path, config.vocab_size);
  if (config.classifier.num_labels > 0) served->pair_frame = *served->tokenizer->FindPairFrame();
  served->profiles = std::make_unique<engine::ProfileTable>(config, source.precisions, *device_, options);
  served->embedding =
      *engine::ReadEmbeddingSettings(*engine::Directory::Open(source.path), config.classifier.num_labels);
  auto real = *engine::ModelEncoderRuntime::Create(served->model.get(), options);
  served->encoder = std::make_unique<engine::EncoderEngine>(
      options, config, std::make_unique<HeldEncoder>(&control_, std::move(real)), &MonotonicNs, nullptr);
  return served;
}

bool Eventually(const std::function<bool()>& condition) {
  for (int i = 0; i < 2000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return condition();
}

}  // namespace dunlin::server
