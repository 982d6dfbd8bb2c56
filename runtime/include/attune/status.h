// SPDX-License-Identifier: MIT
// Result of a call. The library never throws, aborts or prints. A refused call (invalid_argument, unsupported) has written
// nothing; memory that runs out in the middle of a kernel leaves its outputs half written.
#pragma once
#include <string>
#include <utility>

namespace attune {

enum class StatusCode {
    ok,
    invalid_argument,  // the message names the argument, what was expected and what was given
    unsupported,       // legal, but not by this build, this machine or this variant
    out_of_memory,     // the allocator of the Context gave nothing
    internal,          // a defect of Attune
    communication,     // a communicator failed, or a rank did not answer within its time limit
};

class [[nodiscard]] Status {
public:
    Status() = default;
    Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {}

    bool ok() const { return code_ == StatusCode::ok; }
    StatusCode code() const { return code_; }
    // One line in the words of the API, such as "key: last stride must be 1, got 3"; empty when ok.
    const std::string &message() const { return message_; }

private:
    StatusCode code_ = StatusCode::ok;
    std::string message_;
};

}  // namespace attune
