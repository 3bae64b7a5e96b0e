#include "tests/server/grpc/edge_server.h"

#include <grpcpp/create_channel.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>
#include <utility>

#include "engine/model/model.h"
#include "kernels/api/device.h"

namespace dunlin::server {
namespace {

constexpr char kConfig[] = R"({"model_type": "gpt2", "n_layer": 1, "n_embd": 16, "n_head": 2, "n_positions": 512,
                               "vocab_size": 902, "eos_token_id": 0, "bos_token_id": 0})";
constexpr char kEncoderDir[] = DUNLIN_SOURCE_DIR "/tests/golden/encoders/bert_sentence";
constexpr char kTokenizerDir[] = DUNLIN_SOURCE_DIR "/tests/golden/text/byte_level_gpt2";

std::string WriteConfig() {
  static std::atomic<int> count{0};
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() /
      ("dunlin_edge_" + std::to_string(getpid()) + "_" + std::to_string(count++) + ".json");
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

}  // namespace

void RecordingObserver::OnTokenInterval(const std::string&, engine::TimeNs) {
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

int64_t RecordingObserver::intervals() const {
  absl::MutexLock lock(&mutex_);
  return intervals_;
}

EdgeServer::EdgeServer(EdgeServerOptions options) {
  std::string error;
  kernels::DeviceOptions device;
  device.num_threads = 1;
  device_ = kernels::OpenDevice(kernels::DeviceKind::kCpu, device, &error);
  EXPECT_NE(device_, nullptr) << error;
  registry_.Add(MakeModel("tiny", true, options.engine));
  registry_.Add(MakeModel("bare", false, options.engine));
  registry_.Add(MakeEncoder(options.engine));
  const absl::StatusOr<int> port = server_.Start("127.0.0.1:0", options.limits, registry_, &observer_, options.server);
  EXPECT_TRUE(port.ok()) << port.status();
  port_ = port.value_or(0);
  if (options.serving) server_.SetServing(true);
  channel_ = NewChannel();
}

EdgeServer::~EdgeServer() {
  control_.held = false;
  server_.Shutdown(absl::Now() + absl::Seconds(5));
}

std::unique_ptr<ServedModel> EdgeServer::MakeModel(const std::string& name, bool tokenizer,
                                                   const engine::EngineOptions& options) {
  auto served = std::make_unique<ServedModel>();
  served->name = name;
  const std::string config = WriteConfig();
  engine::ModelSource source;
  source.random_shape = config;
  source.precisions = {engine::Precision::kFp32, engine::Precision::kBf16};
  absl::StatusOr<std::unique_ptr<engine::Model>> model = engine::Model::Load(source, device_.get());
  EXPECT_TRUE(model.ok()) << model.status();
  std::filesystem::remove(config);
  served->model = *std::move(model);
  if (tokenizer) {
    auto loaded = engine::Tokenizer::Load(kTokenizerDir, kTinyVocab);
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    served->tokenizer = *std::move(loaded);
  }
  served->profiles =
      std::make_unique<engine::ProfileTable>(served->model->config(), source.precisions, *device_, options);
  served->sampling_defaults.temperature = 0.0F;
  served->engine = std::make_unique<engine::Engine>(
      options, served->model->config(), std::make_unique<ScriptedRuntime>(&control_, 4096), &MonotonicNs, nullptr);
  return served;
}

std::unique_ptr<ServedModel> EdgeServer::MakeEncoder(const engine::EngineOptions& options) {
  auto served = std::make_unique<ServedModel>();
  served->name = "encoder";
  engine::ModelSource source;
  source.path = kEncoderDir;
  source.precisions = {engine::Precision::kFp32, engine::Precision::kBf16};
  absl::StatusOr<std::unique_ptr<engine::Model>> model = engine::Model::Load(source, device_.get());
  EXPECT_TRUE(model.ok()) << model.status();
  served->model = *std::move(model);
  served->tokenizer = *engine::Tokenizer::Load(kEncoderDir, served->model->config().vocab_size);
  served->profiles =
      std::make_unique<engine::ProfileTable>(served->model->config(), source.precisions, *device_, options);
  served->embedding = *engine::ReadEmbeddingSettings(kEncoderDir);
  auto real = *engine::ModelEncoderRuntime::Create(served->model.get(), options);
  served->encoder = std::make_unique<engine::EncoderEngine>(options, served->model->config(),
                                                            std::make_unique<HeldEncoder>(&control_, std::move(real)),
                                                            &MonotonicNs, nullptr);
  return served;
}

std::shared_ptr<grpc::Channel> EdgeServer::NewChannel() const {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  return grpc::CreateCustomChannel(address(), grpc::InsecureChannelCredentials(), arguments);
}

Reply EdgeServer::Generate(const v1::GenerateRequest& request, const Setup& setup) const {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
  if (setup) setup(&context);
  const auto reader = stub()->Generate(&context, request);
  Reply reply;
  ReadAll(reader.get(), &context, &reply);
  return reply;
}

void ReadAll(grpc::ClientReader<v1::GenerateResponse>* reader, grpc::ClientContext* context, Reply* reply) {
  v1::GenerateResponse message;
  while (reader->Read(&message)) Take(message, reply);
  reply->status = reader->Finish();
  reply->details.ParseFromString(reply->status.error_details());
  for (const auto& [key, value] : context->GetServerInitialMetadata()) {
    reply->initial_metadata.emplace(std::string(key.data(), key.size()), std::string(value.data(), value.size()));
  }
  for (const auto& [key, value] : context->GetServerTrailingMetadata()) {
    reply->trailing_metadata.emplace(std::string(key.data(), key.size()), std::string(value.data(), value.size()));
  }
}

void Take(const v1::GenerateResponse& message, Reply* reply) {
  reply->messages.push_back(message);
  Reply::Output& output = reply->outputs[message.index()];
  output.text += message.text_delta();
  output.token_ids.insert(output.token_ids.end(), message.token_ids().begin(), message.token_ids().end());
  for (const v1::TokenLogprob& logprob : message.logprobs()) {
    output.logprobs.push_back(logprob.logprob());
    output.num_top.push_back(logprob.top_size());
  }
  reply->prompt_logprobs.insert(reply->prompt_logprobs.end(), message.prompt_logprobs().begin(),
                                message.prompt_logprobs().end());
  if (!message.has_finish()) return;
  ++output.num_finishes;
  output.finish = message.finish();
}

v1::GenerateRequest TextRequest(const std::string& text, int max_tokens) {
  v1::GenerateRequest request;
  request.set_model("tiny");
  request.set_text(text);
  request.mutable_stopping()->set_max_tokens(max_tokens);
  return request;
}

bool Eventually(const std::function<bool()>& condition) {
  for (int i = 0; i < 2000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return condition();
}

}  // namespace dunlin::server
