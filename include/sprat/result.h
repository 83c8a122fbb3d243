// Errors as values. Standard library only.
#ifndef SPRAT_RESULT_H_
#define SPRAT_RESULT_H_

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace sprat {

// What went wrong, by what the caller can do about it. One table maps these to HTTP statuses, one
// to exit codes and one to Python exceptions.
enum class ErrorCode {
  kInvalidArgument,  // the caller's input is wrong: another call with other input may succeed
  kNotFound,         // a file, a model or a name does not exist
  kUnsupported,      // valid, but not implemented here: the message says what is
  kCorrupt,          // a file's bytes contradict themselves or each other
  kIo,               // the operating system refused: the message carries its reason
  kTooLong,          // a text exceeds the maximum length and the caller forbade truncation
  kOverloaded,       // a bounded queue is full: try again later
  kCancelled,        // the caller withdrew the request
  kDevice,           // a device is missing, lost, or reported an error
  kOutOfMemory,      // host or device memory is exhausted
  kInternal,         // a bug was caught at a border before it could do harm
};

// An error: a code and a message that names the thing, the value found and what was expected.
class Error {
 public:
  Error(ErrorCode code, std::string message) : code_(code), message_(std::move(message)) {}

  ErrorCode code() const { return code_; }
  const std::string& message() const { return message_; }

  // The same error seen from further out: "context: message".
  Error In(std::string_view context) && {
    message_.insert(0, ": ").insert(0, context);
    return std::move(*this);
  }

 private:
  ErrorCode code_;
  std::string message_;
};

// A T, or the Error that explains why there is none. value() requires ok(); error() requires !ok().
template <typename T>
class [[nodiscard]] Result {
 public:
  // Both conversions are meant: `return value;` and `return Error(...);` read as they should.
  // NOLINTNEXTLINE(google-explicit-constructor)
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  // NOLINTNEXTLINE(google-explicit-constructor)
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return state_.index() == 0; }
  T& value() & { return *std::get_if<0>(&state_); }
  const T& value() const& { return *std::get_if<0>(&state_); }
  T&& value() && { return std::move(*std::get_if<0>(&state_)); }
  Error& error() { return *std::get_if<1>(&state_); }
  const Error& error() const { return *std::get_if<1>(&state_); }

 private:
  std::variant<T, Error> state_;
};

// Success, or the Error that explains the failure.
template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  // NOLINTNEXTLINE(google-explicit-constructor)
  Result(Error error) : error_(std::move(error)) {}

  bool ok() const { return !error_.has_value(); }
  Error& error() { return *error_; }
  const Error& error() const { return *error_; }

 private:
  std::optional<Error> error_;
};

}  // namespace sprat

#endif  // SPRAT_RESULT_H_
