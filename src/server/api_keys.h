// API keys: read from a file, compared in constant time.
#ifndef SPRAT_SERVER_API_KEYS_H_
#define SPRAT_SERVER_API_KEYS_H_

#include <array>
#include <filesystem>
#include <string_view>
#include <vector>

#include "sprat/result.h"

namespace sprat::server {

// The keys that open the server; only their SHA-256 is kept.
class ApiKeys {
 public:
  // Reads one key a line; blank lines and lines that start with '#' do not count, spaces at the
  // ends of a line neither. Errors: kNotFound, kIo; kInvalidArgument if no key is left, or if one
  // holds a byte that a header cannot carry, naming the line and never the key.
  static Result<ApiKeys> Read(const std::filesystem::path& file);
  static Result<ApiKeys> Parse(std::string_view text);

  // Whether `authorization`, the value of that header, is "Bearer KEY" with one of the keys. The
  // scheme is compared without case (RFC 9110, section 11.1), the key exactly and in a time that
  // does not depend on where it differs.
  bool Allow(std::string_view authorization) const;

 private:
  using Digest = std::array<unsigned char, 32>;
  std::vector<Digest> digests_;
};

}  // namespace sprat::server

#endif  // SPRAT_SERVER_API_KEYS_H_
