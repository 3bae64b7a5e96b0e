// SPDX-License-Identifier: Apache-2.0
#include "tests/integration/process/grpc_neighbour.h"

#include <grpcpp/create_channel.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "dunlin/v1/generation.grpc.pb.h"
#include "grpc/health/v1/health.grpc.pb.h"

namespace dunlin::integration {
namespace {

using Clock = std::chrono::steady_clock;
using grpc::health::v1::Health;
using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

constexpr auto kPause = std::chrono::milliseconds(1);
constexpr auto kPatience = std::chrono::seconds(60);
constexpr int kTokens = 8;

std::shared_ptr<grpc::Channel> Connect(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

double Percentile(std::vector<double>* times, double part) {
  if (times->empty()) return 0;
  const auto rank = static_cast<std::ptrdiff_t>(part * static_cast<double>(times->size() - 1));
  std::nth_element(times->begin(), times->begin() + rank, times->end());
  return times->at(static_cast<size_t>(rank));
}

}  // namespace

struct GrpcNeighbour::Stubs {
  explicit Stubs(const std::shared_ptr<grpc::Channel>& channel)
      : health(Health::NewStub(channel)), generation(v1::GenerationService::NewStub(channel)) {}

  const std::unique_ptr<Health::Stub> health;
  const std::unique_ptr<v1::GenerationService::Stub> generation;
};

GrpcNeighbour::GrpcNeighbour(const std::string& address, const std::string& model)
    : stubs_(std::make_unique<Stubs>(Connect(address))), model_(model), thread_([this] { Run(); }) {}

GrpcNeighbour::~GrpcNeighbour() {
  stop_ = true;
  thread_.join();
}

Latencies GrpcNeighbour::Measure() {
  std::vector<double> times;
  Latencies measured;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    times = std::exchange(times_ms_, {});
    measured = std::exchange(counts_, {});
  }
  measured.p50_ms = Percentile(&times, 0.5);
  measured.p99_ms = Percentile(&times, 0.99);
  return measured;
}

void GrpcNeighbour::Run() {
  for (bool is_health = true; !stop_; is_health = !is_health) {
    CallOnce(is_health);
    std::this_thread::sleep_for(kPause);
  }
}

void GrpcNeighbour::CallOnce(bool is_health) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kPatience);
  HealthCheckResponse health;
  grpc::Status status;
  const auto begin = Clock::now();
  if (is_health) {
    status = stubs_->health->Check(&context, HealthCheckRequest(), &health);
  } else {
    v1::GenerateRequest request;
    request.set_model(model_);
    request.set_text("The harbour");
    request.mutable_stopping()->set_max_tokens(kTokens);
    request.mutable_stopping()->set_ignore_eos(true);
    const auto reader = stubs_->generation->Generate(&context, request);
    v1::GenerateResponse message;
    while (reader->Read(&message)) {
    }
    status = reader->Finish();
  }
  const std::chrono::duration<double, std::milli> time = Clock::now() - begin;
  const std::lock_guard<std::mutex> lock(mutex_);
  times_ms_.push_back(time.count());
  ++counts_.num_calls;
  if (status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED &&
      context.GetServerTrailingMetadata().contains("grpc-retry-pushback-ms")) {
    ++counts_.num_refused;
  } else if (!status.ok()) {
    ++counts_.num_failed;
    counts_.last_error = status.error_message();
  } else if (is_health && health.status() != HealthCheckResponse::SERVING) {
    ++counts_.num_unhealthy;
  }
}

}  // namespace dunlin::integration
