// One run: sends requests by a schedule or keeps a number of them going, until a count or a time is reached, and lets
// what runs finish. The whole program is this one thread and, with gRPC, gRPC's callback threads.
// Thread rule: everything on the thread that calls Run.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "server/load/arrivals.h"
#include "server/load/client.h"
#include "server/load/dataset.h"
#include "server/load/mix.h"
#include "server/load/recorder.h"

namespace dunlin::server::load {

// What a run asks of the server, and for how long.
struct LoadShape {
  double rate = 0;  // open loop: requests a second; 0: closed loop
  ArrivalKind arrivals = ArrivalKind::kPoisson;
  int64_t burst = 1;
  int64_t concurrency = 1;          // closed loop: requests under way at any time
  int64_t num_requests = 0;         // stop sending after so many; 0: no limit. One of the two is set
  double duration_s = 0;            // stop sending after this time; 0: no limit
  double warmup_s = 0;              // requests sent in this time are not counted, and come on top
  double drain_s = 30;              // then what still runs is given up
  int32_t cancel_after_tokens = 0;  // 0: not by tokens
  int64_t cancel_after_ms = 0;      // 0: not by time
  double cancel_fraction = 1;       // of the requests, if either is set
  int64_t max_errors = -1;          // more failed requests end the run; -1: no limit
  uint64_t seed = 0;
};

class Runner {
 public:
  struct Parts {
    boost::asio::io_context* io;
    LoadClient* client;
    Dataset* dataset;
    const std::vector<MixEntry>* mix;
  };
  // Called some twice a second while a run goes on.
  using OnTick = std::function<void(const Recorder::Live& live, double seconds)>;

  Runner(const Parts& parts, const LoadShape& shape, const Slo& slo);
  ~Runner();
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  // Returns when every request has ended. SIGINT and SIGTERM end it early, with what was measured. Once.
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
  bool sending_ = true;
  bool interrupted_ = false;
};

}  // namespace dunlin::server::load
