#include "server/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sprat::server {
namespace {

using testing::HasSubstr;

TEST(Histogram, CountsCumulativelyWithInclusiveBounds) {
  static constexpr double kBounds[] = {1, 2};
  Histogram histogram(kBounds);
  for (const double value : {0.5, 1.0, 1.5, 3.0}) histogram.Add(value);
  std::string out;
  histogram.Write("x", "", out);
  EXPECT_EQ(out,
            "x_bucket{le=\"1\"} 2\nx_bucket{le=\"2\"} 3\nx_bucket{le=\"+Inf\"} 4\n"
            "x_sum 6\nx_count 4\n");
  out.clear();
  histogram.Write("x", "a=\"b\"", out);
  EXPECT_THAT(out, HasSubstr("x_bucket{a=\"b\",le=\"1\"} 2\n"));
  EXPECT_THAT(out, HasSubstr("x_count{a=\"b\"} 4\n"));
}

TEST(Metrics, CountsByRouteAndStatus) {
  Metrics metrics;
  metrics.CountRequest(RouteIndex("/embed"), 200, std::chrono::milliseconds(2));
  metrics.CountRequest(RouteIndex("/embed"), 429, std::chrono::milliseconds(2));
  metrics.CountRequest(RouteIndex("/../../etc/passwd"), 404, std::chrono::milliseconds(2));
  metrics.fallbacks += 7;
  metrics.not_held += 2;
  const std::string text = metrics.Write({.queue_depth = 3, .connections = 5, .held_bytes = 9});
  EXPECT_THAT(text, HasSubstr("sprat_requests_total{route=\"/embed\",status=\"200\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("sprat_requests_total{route=\"other\",status=\"404\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("sprat_rejected_total 1\n"));
  EXPECT_THAT(text, HasSubstr("sprat_fallback_texts_total 7\n"));
  EXPECT_THAT(text, HasSubstr("sprat_queue_depth 3\n"));
  EXPECT_THAT(text, HasSubstr("sprat_connections 5\n"));
  EXPECT_THAT(text, HasSubstr("sprat_held_bytes 9\n"));
  EXPECT_THAT(text, HasSubstr("sprat_held_rejected_total 2\n"));
  EXPECT_THAT(text, HasSubstr("sprat_request_duration_seconds_count 3\n"));
}

TEST(ResidentBytes, IsThatOfAProcess) { EXPECT_GT(ResidentBytes(), 1'000'000u); }

}  // namespace
}  // namespace sprat::server
