// SPDX-License-Identifier: Apache-2.0
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include <gtest/gtest.h>

#include "phalanx/os/control_socket.h"
#include "phalanx/os/machine.h"
#include "phalanx/os/memfd.h"

namespace phalanx::os {
namespace {

struct Ends {
  Ends() {
    auto pair = *ControlSocket::make_pair();
    near = std::move(pair.first);
    far = std::move(pair.second);
  }
  ControlSocket near;
  ControlSocket far;
};

std::string text_of(Result<ControlReceived> received) {
  EXPECT_TRUE(received);
  return std::get<ControlMessage>(*std::move(received)).bytes;
}

TEST(ControlSocket, KeepsTheBordersOfRecords) {
  Ends ends;
  ASSERT_EQ(*ends.near.send("first"), ControlSent::kQueued);
  ASSERT_EQ(*ends.near.send(std::string(kMaxControlRecordBytes, 'x')), ControlSent::kQueued);
  EXPECT_EQ(text_of(ends.far.receive()), "first");
  EXPECT_EQ(text_of(ends.far.receive()), std::string(kMaxControlRecordBytes, 'x'));
  EXPECT_TRUE(std::holds_alternative<ControlWouldBlock>(*ends.far.receive()));
}

TEST(ControlSocket, RefusesRecordsOutOfBounds) {
  Ends ends;
  EXPECT_EQ(ends.near.send("").error().code(), Code::kInvalidArgument);
  EXPECT_EQ(ends.near.send(std::string(kMaxControlRecordBytes + 1, 'x')).error().code(),
            Code::kInvalidArgument);
  const std::vector<int> fds(kMaxControlRecordFds + 1, 0);
  EXPECT_EQ(ends.near.send("x", fds).error().code(), Code::kInvalidArgument);
}

TEST(ControlSocket, CarriesDescriptorsInOrder) {
  const std::size_t before = open_descriptors();
  {
    Ends ends;
    const Memfd small = *Memfd::create("small", 4096);
    const Memfd large = *Memfd::create("large", 8192);
    const std::vector<int> fds{small.fd(), large.fd()};
    ASSERT_EQ(*ends.near.send("two", fds), ControlSent::kQueued);
    ControlMessage message = std::get<ControlMessage>(*ends.far.receive());
    ASSERT_EQ(message.fds.size(), 2U);
    EXPECT_TRUE(Memfd::adopt(std::move(message.fds[0]), 4096));
    EXPECT_TRUE(Memfd::adopt(std::move(message.fds[1]), 8192));
  }
  EXPECT_EQ(open_descriptors(), before) << "no descriptor is left";
}

TEST(ControlSocket, ClosesDescriptorsThatNobodyTook) {
  const std::size_t before = open_descriptors();
  {
    Ends ends;
    const Pipe pipe = *make_pipe();
    const std::vector<int> fds(kMaxControlRecordFds, pipe.read.get());
    ASSERT_EQ(*ends.near.send("many", fds), ControlSent::kQueued);
    EXPECT_EQ(std::get<ControlMessage>(*ends.far.receive()).fds.size(), kMaxControlRecordFds);
    ASSERT_EQ(*ends.near.send("unread", fds), ControlSent::kQueued);
  }
  EXPECT_EQ(open_descriptors(), before);
}

TEST(ControlSocket, TellsAPeerThatDoesNotReadFromOneThatIsGone) {
  Ends ends;
  const std::string record(kMaxControlRecordBytes, 'x');
  ControlSent sent = ControlSent::kQueued;
  for (int i = 0; i < 1000 && sent == ControlSent::kQueued; ++i) {
    sent = *ends.near.send(record);
  }
  EXPECT_EQ(sent, ControlSent::kWouldBlock);
  ends.far.close();
  EXPECT_EQ(*ends.near.send("x"), ControlSent::kClosed);
}

// As a user of its own without rights, of whom the kernel bounds what is on its way.
[[noreturn]] void send_descriptors_until_there_are_too_many() {
  constexpr uid_t kNobody = 65534;
  const rlimit few{2 * kMaxControlRecordFds, 2 * kMaxControlRecordFds};
  if (::geteuid() == 0 && (::setgid(kNobody) != 0 || ::setuid(kNobody) != 0)) {
    ::_exit(2);
  }
  ::setrlimit(RLIMIT_NOFILE, &few);
  Ends others;
  Ends ends;
  const std::vector<int> fds(kMaxControlRecordFds, 0);
  ControlSent sent = ControlSent::kQueued;
  for (int i = 0; i < 10 && sent == ControlSent::kQueued; ++i) {
    sent = *others.near.send("unread", fds);
  }
  const bool is_told = sent == ControlSent::kTooManyDescriptors &&
                       *ends.near.send("x", fds) == ControlSent::kTooManyDescriptors &&
                       *ends.near.send("x") == ControlSent::kQueued;
  others.far.close();
  ::_exit(is_told && *ends.near.send("x", fds) == ControlSent::kQueued ? 0 : 1);
}

TEST(ControlSocket, TellsDescriptorsThatAreUnreadElsewhereFromAPeerThatDoesNotRead) {
  EXPECT_EXIT(send_descriptors_until_there_are_too_many(), testing::ExitedWithCode(0), "");
}

TEST(ControlSocket, GivesWhatWasSentBeforeTheEnd) {
  Ends ends;
  ASSERT_EQ(*ends.near.send("last words"), ControlSent::kQueued);
  ends.near.close();
  EXPECT_EQ(text_of(ends.far.receive()), "last words");
  EXPECT_TRUE(std::holds_alternative<ControlEnd>(*ends.far.receive()));
  EXPECT_TRUE(std::holds_alternative<ControlEnd>(*ends.far.receive()));
}

// As a process that is killed: the kernel tells of what it had not read before what it had said.
TEST(ControlSocket, GivesWhatWasSentByAPeerThatHadNotReadAll) {
  Ends ends;
  ASSERT_EQ(*ends.far.send("unread"), ControlSent::kQueued);
  ASSERT_EQ(*ends.near.send("last"), ControlSent::kQueued);
  ASSERT_EQ(*ends.near.send("words"), ControlSent::kQueued);
  ends.near.close();
  EXPECT_EQ(text_of(ends.far.receive()), "last");
  EXPECT_EQ(text_of(ends.far.receive()), "words");
  EXPECT_TRUE(std::holds_alternative<ControlEnd>(*ends.far.receive()));
}

TEST(ControlSocket, RefusesARecordThatIsTooLongWhenItArrives) {
  int raw[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, raw), 0);
  const UniqueFd sender(raw[0]);
  ControlSocket receiver = *ControlSocket::adopt(UniqueFd(raw[1]));
  const std::string record(kMaxControlRecordBytes + 1, 'x');
  ASSERT_EQ(::send(sender.get(), record.data(), record.size(), 0),
            static_cast<ssize_t>(record.size()));
  ASSERT_EQ(::send(sender.get(), "next", 4, 0), 4);
  EXPECT_EQ(receiver.receive().error().code(), Code::kDataLoss);
  EXPECT_EQ(text_of(receiver.receive()), "next");
}

TEST(ControlSocket, AdoptsNothingElse) {
  Pipe pipe = *make_pipe();
  EXPECT_EQ(ControlSocket::adopt(std::move(pipe.read)).error().code(), Code::kInvalidArgument);
  EXPECT_FALSE(ControlSocket::adopt(UniqueFd(::socket(AF_UNIX, SOCK_DGRAM, 0))));
  EXPECT_FALSE(ControlSocket::adopt(UniqueFd()));
}

TEST(ControlSocket, WaitsNoLongerThanItsDeadline) {
  Ends ends;
  const auto late = ends.far.receive_until(steady_clock().now() + std::chrono::milliseconds(5));
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code(), Code::kDeadlineExceeded);
  ends.near.close();
  EXPECT_EQ(ends.far.receive_until(steady_clock().now() + std::chrono::seconds(5)).error().code(),
            Code::kUnavailable);
}

TEST(ControlSocket, WaitsForRoomNoLongerThanItsDeadline) {
  Ends ends;
  const std::string record(kMaxControlRecordBytes, 'x');
  int sent = 0;
  while (*ends.near.send(record) == ControlSent::kQueued) {
    ++sent;
  }
  const Status late =
      ends.near.send_until("last", steady_clock().now() + std::chrono::milliseconds(5));
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code(), Code::kDeadlineExceeded);

  std::thread reader([&] {
    for (int i = 0; i < sent; ++i) {
      EXPECT_EQ(text_of(ends.far.receive()), record);
    }
  });
  EXPECT_TRUE(ends.near.send_until("last", steady_clock().now() + std::chrono::seconds(20)));
  reader.join();
  EXPECT_EQ(text_of(ends.far.receive()), "last");
  ends.far.close();
  EXPECT_TRUE(ends.near.send_until("nobody", steady_clock().now() + std::chrono::seconds(20)));
}

}  // namespace
}  // namespace phalanx::os
