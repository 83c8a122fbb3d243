#include "server/event_loop.h"

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <string>
#include <vector>

namespace sprat::server {
namespace {

using Words = Delivery<std::string>;

TEST(Delivery, IsThereAtOnceIfTheHomeThreadSetIt) {
  asio::io_context context{1};
  const auto delivery = std::make_shared<Words>(context.get_executor(), std::this_thread::get_id());
  EXPECT_FALSE(delivery->ready());
  delivery->Set("here");
  EXPECT_TRUE(delivery->ready());
}

// The test's thread is the home of 2,000 coroutines; two other threads deliver, some before their
// coroutine waits and some after. run() ends when each has its own value.
TEST(Delivery, ReachesItsCoroutineFromOtherThreads) {
  asio::io_context context{1};
  std::vector<std::shared_ptr<Words>> deliveries;
  for (size_t i = 0; i < 2000; ++i) {
    deliveries.push_back(
        std::make_shared<Words>(context.get_executor(), std::this_thread::get_id()));
  }
  std::vector<std::string> taken(deliveries.size());
  const auto take = [&](size_t i) -> Task<void> { taken[i] = co_await deliveries[i]->Take(); };
  const auto deliver = [&deliveries](size_t first) {
    for (size_t i = first; i < deliveries.size(); i += 2) deliveries[i]->Set(std::to_string(i));
  };
  std::thread even(deliver, 0);
  std::thread odd(deliver, 1);
  for (size_t i = 0; i < deliveries.size(); ++i) {
    asio::co_spawn(context, take(i), asio::detached);
  }
  context.run();
  even.join();
  odd.join();
  for (size_t i = 0; i < taken.size(); ++i) EXPECT_EQ(taken[i], std::to_string(i));
}

}  // namespace
}  // namespace sprat::server
