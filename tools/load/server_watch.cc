// SPDX-License-Identifier: Apache-2.0
#include "tools/load/server_watch.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "engine/base/string_view.h"
#include "tools/load/http_get.h"

namespace dunlin::tools::load {
namespace {

constexpr int64_t kTimeoutMs = 5000;
constexpr size_t kMaxSamples = 4096;  // over an hour; then every other one is dropped

void AddLine(std::string_view line, ServerSample* sample) {
  if (line.empty() || line[0] == '#') return;
  const size_t space = line.rfind(' ');
  const std::string_view name = line.substr(0, line.find_first_of("{ "));
  double value = 0;
  if (space == std::string_view::npos || !absl::SimpleAtod(engine::AbslView(line.substr(space + 1)), &value)) return;
  for (const ServerField& row : kServerFields) {
    if (name != row.series) continue;
    double& field = sample->*row.field;
    field = field < 0 ? value : field + value;
  }
}

}  // namespace

ServerSample ParseServerSample(std::string_view metrics_text) {
  ServerSample sample;
  sample.time = Now();
  for (const auto line : absl::StrSplit(engine::AbslView(metrics_text), '\n')) AddLine(engine::StdView(line), &sample);
  return sample;
}

struct ServerWatch::State {
  State(boost::asio::io_context* i, HttpTarget t) : io(i), target(std::move(t)), timer(*i) {}

  void Keep(const ServerSample& sample) {
    if (samples.size() == kMaxSamples) {
      for (size_t i = 0; i < kMaxSamples / 2; ++i) samples[i] = samples[2 * i];
      samples.resize(kMaxSamples / 2);
    }
    samples.push_back(sample);
  }

  boost::asio::io_context* const io;
  const HttpTarget target;
  boost::asio::steady_timer timer;
  std::vector<ServerSample> samples;
  bool stopped = true;
};

namespace {

template <class State>
void Sample(const std::shared_ptr<State>& state) {
  HttpGet(state->io, state->target, kTimeoutMs, [state](const absl::StatusOr<std::string>& text) {
    if (state->stopped) return;
    if (text.ok()) state->Keep(ParseServerSample(*text));
    state->timer.expires_after(std::chrono::seconds(1));
    state->timer.async_wait([state](boost::system::error_code error) {
      if (!error && !state->stopped) Sample(state);
    });
  });
}

}  // namespace

ServerWatch::ServerWatch(boost::asio::io_context* io, const HttpTarget& target)
    : state_(std::make_shared<State>(io, target)) {}

ServerWatch::~ServerWatch() {
  Stop();
}

absl::StatusOr<ServerSample> ServerWatch::ReadNow() {
  std::optional<absl::StatusOr<std::string>> text;
  HttpGet(state_->io, state_->target, kTimeoutMs,
          [&text](absl::StatusOr<std::string> body) { text = std::move(body); });
  state_->io->restart();
  while (!text.has_value() && state_->io->run_one() > 0) {
  }
  if (!text->ok()) return absl::UnavailableError(absl::StrCat("--server-metrics: ", text->status().message()));
  const ServerSample sample = ParseServerSample(**text);
  state_->Keep(sample);
  return sample;
}

void ServerWatch::Start() {
  state_->stopped = false;
  Sample(state_);
}

void ServerWatch::Stop() {
  state_->stopped = true;
  boost::system::error_code ignored;  // the overload without one may throw
  state_->timer.cancel(ignored);
}

std::vector<ServerSample> ServerWatch::TakeSamples() {
  return std::exchange(state_->samples, {});
}

}  // namespace dunlin::tools::load
