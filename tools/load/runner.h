// SPDX-License-Identifier: Apache-2.0
// One run: sends requests on a schedule (open loop) or keeps a fixed number in flight (closed loop) until a count or a
// time is reached, then waits for the rest. Runs on one thread, beside gRPC's callback threads where gRPC is used.
// Thread rule: everything on the thread that calls Run.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "tools/load/arrivals.h"
#include "tools/load/client.h"
#include "tools/load/dataset.h"
#include "tools/load/load_shape.h"
#include "tools/load/mix.h"
#include "tools/load/recorder.h"

namespace dunlin::tools::load {

class Runner {
 public:
  struct Parts {
    boost::asio::io_context* io;
    LoadClient* client;
    Dataset* dataset;
    const std::vector<MixEntry>* mix;
  };
  // Called about twice a second during a run.
  using OnTick = std::function<void(const Recorder::Live& live, double seconds)>;

  Runner(const Parts& parts, const LoadShape& shape, const Slo& slo);
  ~Runner();
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  // Returns when every request has ended. SIGINT and SIGTERM end it early; the result covers what was measured. Call
  // once.
  Recording Run(const OnTick& on_tick);
  bool interrupted() const { return interrupted_; }

 private:
  struct Active {
    std::shared_ptr<Call> call;
    std::shared_ptr<ActiveRequest> request;
    std::unique_ptr<boost::asio::steady_timer> cancel_timer;
  };

  void SendDue();
  void Refill();
  void Send(TimeNs intended);
  void ArmCancel(Active* active);
  void OnEnded(uint64_t id);
  void StopSending();
  void GiveUpAll();
  void Tick();
  void StopWhenIdle();

  const Parts parts_;
  const LoadShape shape_;
  const TimeNs started_;
  const TimeNs count_from_;
  const TimeNs send_until_;
  Recorder recorder_;
  MixPicker picker_;
  Arrivals arrivals_;
  Random random_;
  OnTick on_tick_;
  boost::asio::steady_timer send_timer_;
  boost::asio::steady_timer end_timer_;
  boost::asio::steady_timer tick_timer_;
  boost::asio::signal_set signals_;
  std::unordered_map<uint64_t, Active> active_;
  TimeNs next_arrival_ = 0;
  uint64_t next_id_ = 0;
  int64_t num_counted_ = 0;
  double cpu_started_ = 0;  // when the first counted request was sent
  bool sending_ = true;
  bool interrupted_ = false;
};

}  // namespace dunlin::tools::load
