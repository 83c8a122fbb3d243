// The names of the public enumerations.
#include <fmt/format.h>

#include <iterator>
#include <vector>

#include "sprat/ngram.h"

namespace sprat {
namespace {

template <typename T>
struct Named {
  std::string_view name;
  T value;
};

constexpr Named<NgramScale> kScales[] = {{"average", NgramScale::kAverage},
                                         {"fixed", NgramScale::kFixedFactor},
                                         {"full", NgramScale::kFullWord}};
constexpr Named<NgramTables> kForms[] = {{"mapped", NgramTables::kMapped},
                                         {"resident", NgramTables::kResident},
                                         {"fp8", NgramTables::kFp8},
                                         {"cached", NgramTables::kCached}};

template <typename T, size_t kCount>
std::string_view NameOf(const Named<T> (&all)[kCount], T value) {
  for (const Named<T>& named : all) {
    if (named.value == value) return named.name;
  }
  return "unknown";
}

template <typename T, size_t kCount>
Result<T> Parse(const Named<T> (&all)[kCount], std::string_view what, std::string_view name) {
  std::vector<std::string_view> names;
  for (const Named<T>& named : all) {
    if (named.name == name) return named.value;
    names.push_back(named.name);
  }
  return Error(ErrorCode::kInvalidArgument,
               fmt::format("{} is '{}', expected one of {}", what, name, fmt::join(names, ", ")));
}

}  // namespace

std::string_view Name(NgramScale scale) { return NameOf(kScales, scale); }
std::string_view Name(NgramTables tables) { return NameOf(kForms, tables); }
Result<NgramScale> ParseNgramScale(std::string_view name) {
  return Parse(kScales, "n-gram scale", name);
}
Result<NgramTables> ParseNgramTables(std::string_view name) {
  return Parse(kForms, "n-gram tables", name);
}

}  // namespace sprat
