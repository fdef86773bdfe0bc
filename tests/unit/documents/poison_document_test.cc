// SPDX-License-Identifier: Apache-2.0
#include "phalanx/documents/poison_document.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "phalanx/wire/codec.h"
#include "phalanx/wire/frame_header.h"

#include "support/temp_dir.h"

namespace phalanx::documents {
namespace {

wire::PoisonedRequest poisoned() {
  wire::PoisonedRequest request{.error = "killed by \"SIGSEGV\"",
                                .label = "req-1",
                                .request = RequestId(9),
                                .choice = 2,
                                .prompt_ids = {1, 2, 3},
                                .produced_ids = {7, 8}};
  request.stop.max_tokens = 5;
  request.stop.stop_token_ids = {0};
  request.sampling.temperature = 0.5F;
  request.sampling.seed = UINT64_MAX;
  request.sampling.logit_bias = {{4, -1.5F}};
  return request;
}

TEST(PoisonDocument, HasTheseFieldsInThisOrder) {
  EXPECT_EQ(poison_json(poisoned()),
            R"({"error":"killed by \"SIGSEGV\"","label":"req-1","request":9,"choice":2,)"
            R"("max_tokens":5,"temperature":0.5,"top_k":0,"top_p":1.0,"min_p":0.0,)"
            R"("repetition_penalty":1.0,"presence_penalty":0.0,"frequency_penalty":0.0,)"
            R"("top_logprobs":-1,"min_tokens":0,"seed":-1,)"
            R"("logit_bias":[[4,-1.5]],"stop_token_ids":[0],"prompt_ids":[1,2,3],)"
            R"("produced_ids":[7,8]})");
}

TEST(PoisonDocument, HoldsNothingThatATerminalObeys) {
  wire::PoisonedRequest request = poisoned();
  request.error = "\x7f\u009b2J\u202e\u2028";
  request.label = "\x1b]0;title\x07\xff";
  const std::string shown = poison_json(request);
  EXPECT_TRUE(std::all_of(shown.begin(), shown.end(), [](char c) { return c >= ' ' && c < 0x7F; }))
      << shown;
  EXPECT_NE(shown.find(R"("error":"\u007f\u009b2J\u202e\u2028")"), std::string::npos) << shown;
  EXPECT_NE(shown.find(R"("label":"\u001b]0;title\u0007\ufffd")"), std::string::npos) << shown;
}

class ReadDump : public testing::Test {
 protected:
  Result<wire::PoisonedRequest> read(const std::string& bytes) {
    std::ofstream(path_, std::ios::binary) << bytes;
    return read_dump(path_);
  }
  const test::TempDir temp_;
  const std::string path_ = temp_.path() / "poisoned-1.dump";
};

TEST_F(ReadDump, GivesBackWhatWasWritten) {
  const auto request = read(wire::with_header(wire::encode(poisoned())));
  ASSERT_TRUE(request) << request.error().message();
  EXPECT_EQ(*request, poisoned());
}

TEST_F(ReadDump, NamesAFileThatIsNone) {
  const std::string whole = wire::with_header(wire::encode(poisoned()));
  for (const std::string& bytes : {std::string(),
                                   std::string("{\"error\":\"killed\"}"),
                                   whole.substr(0, whole.size() - 1),
                                   whole + "x",
                                   wire::with_header("x")}) {
    const auto request = read(bytes);
    ASSERT_FALSE(request) << bytes;
    EXPECT_EQ(request.error().code(), Code::kDataLoss);
    EXPECT_NE(request.error().message().find(path_), std::string::npos);
  }
  EXPECT_EQ(read_dump(path_ + "x").error().code(), Code::kNotFound);
}

TEST_F(ReadDump, WaitsForNobodyWhoWouldWriteIntoAPipe) {
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  const auto request = read_dump(path_);
  ASSERT_FALSE(request);
  EXPECT_EQ(request.error().code(), Code::kInvalidArgument);
  EXPECT_NE(request.error().message().find(path_), std::string::npos);
  EXPECT_FALSE(read_dump("/dev/zero"));
}

TEST_F(ReadDump, NamesTheVersionOfAnotherOne) {
  std::string bytes = wire::with_header(wire::encode(poisoned()));
  bytes[4] = 99;
  const auto request = read(bytes);
  ASSERT_FALSE(request);
  EXPECT_EQ(request.error().code(), Code::kFailedPrecondition);
  EXPECT_NE(request.error().message().find("came one of version 99"), std::string::npos);
}

}  // namespace
}  // namespace phalanx::documents
