// The state of connections that outlives a single await: deadlines, and how they are kept.
#ifndef SPRAT_SERVER_CONNECTION_H_
#define SPRAT_SERVER_CONNECTION_H_

#include <list>
#include <memory>
#include <thread>

#include "server/event_loop.h"
#include "server/service.h"

namespace sprat::server {

// What a connection is doing, which decides what becomes of it when its time is up.
enum class Phase {
  kIdle,     // between requests: closed without a word
  kReading,  // a request has begun: 408
  kWorking,  // the engine has it: no deadline here, the queue is bounded
  kWriting   // the answer is on its way: closed
};

struct Connection {
  explicit Connection(Socket taken) : socket(std::move(taken)) {}

  Socket socket;
  Phase phase = Phase::kIdle;
  SteadyClock::time_point since;     // when the phase began
  SteadyClock::time_point deadline;  // when it must have ended
  bool expired = false;

  void Enter(Phase next, SteadyClock::duration at_most) {
    phase = next;
    since = SteadyClock::now();
    deadline = since + at_most;
  }
};

// One network thread: an event loop and its connections. Everything but the constructor, Start
// and Stop runs on the loop's thread.
class NetworkThread {
 public:
  explicit NetworkThread(Service& service) : service_(service), sweep_(executor()) {}

  Executor executor() { return context_.get_executor(); }
  std::thread::id id() const { return thread_.get_id(); }

  void Start();
  void Stop();  // ends the loop, whatever it is doing, and joins the thread

  // A connection's place in the list that one timer watches, as long as it lives.
  class Place {
   public:
    Place(NetworkThread& thread, Connection& connection)
        : thread_(thread), at_(thread.connections_.insert(thread.connections_.end(), &connection)) {
      thread_.service_.CountConnection(true);
    }
    ~Place() {
      thread_.connections_.erase(at_);
      thread_.service_.CountConnection(false);
    }
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;

   private:
    NetworkThread& thread_;
    std::list<Connection*>::iterator at_;
  };

 private:
  Task<void> Sweep();

  Service& service_;
  std::list<Connection*> connections_;
  asio::io_context context_{1};  // its end ends what still runs in it, which leaves the list above
  Timer sweep_;
  std::thread thread_;
};

}  // namespace sprat::server

#endif  // SPRAT_SERVER_CONNECTION_H_
