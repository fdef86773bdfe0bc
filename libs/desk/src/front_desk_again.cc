// SPDX-License-Identifier: Apache-2.0
// What becomes of requests whose front has died: they are kept, taken over, and told again.
#include <algorithm>
#include <chrono>
#include <iterator>
#include <string>
#include <utility>

#include "phalanx/desk/front_desk.h"

#include "front_job.h"

namespace phalanx::desk {

namespace {

// Of events that are told again, in a turn of the loop.
constexpr std::size_t kMaxEventsAgain = 512;

// For a front that is behind to take what it was sent.
constexpr auto kBehindPause = std::chrono::milliseconds(1);

// What a History costs, in events.
constexpr std::size_t kHistoryCost = 64;

}  // namespace

void FrontDesk::on_front_gone(std::size_t front) {
  outbox_.erase(front);
  for (auto entry = jobs_.begin(); entry != jobs_.end();) {
    const std::shared_ptr<Job> job = entry->second;
    const bool stays = job->front != front || leave(*job);
    entry = stays ? std::next(entry) : erase(entry);
  }
}

// The front that had the job is gone. Answers whether another one may take it over.
bool FrontDesk::leave(Job& job) {
  job.front.reset();
  job.over = false;
  job.telling = Telling::kHeld;
  if (job.forgotten && !job.ended) {
    finish(job, wire::outcome::kError, "its front died");
  }
  return !job.forgotten;
}

bool FrontDesk::has_open(std::uint64_t connection) const {
  const auto entry = jobs_.lower_bound({connection, 0});
  return entry != jobs_.end() && entry->first.connection == connection && !entry->second->ended;
}

std::vector<std::uint64_t> FrontDesk::unanswered() const {
  std::vector<std::uint64_t> connections;
  for (const auto& [key, job] : jobs_) {
    if (connections.empty() || connections.back() != key.connection) {
      connections.push_back(key.connection);
    }
  }
  return connections;
}

std::size_t FrontDesk::taking_over() const {
  return static_cast<std::size_t>(std::count_if(jobs_.begin(), jobs_.end(), [](const auto& entry) {
    return !entry.second->ended && entry.second->telling != Telling::kLive;
  }));
}

void FrontDesk::forget(std::uint64_t connection) {
  for (auto entry = jobs_.lower_bound({connection, 0});
       entry != jobs_.end() && entry->first.connection == connection;
       ++entry) {
    entry->second->forgotten = true;
  }
  drop_left(connection, 0);
}

void FrontDesk::forget_client(std::uint64_t connection) {
  for (auto entry = jobs_.lower_bound({connection, 0});
       entry != jobs_.end() && entry->first.connection == connection;
       ++entry) {
    if (!entry->second->ended) {
      finish(*entry->second, wire::outcome::kClientGone, "");
    }
  }
  forget(connection);
}

// Of the connection's requests those that have ended and those that are nobody's, but not that one.
// Also newer ones, which a front that works does not have: of what it numbers, however it does
// that, no more is kept than has a place.
void FrontDesk::drop_left(std::uint64_t connection, std::uint32_t except) {
  for (auto entry = jobs_.lower_bound({connection, 0});
       entry != jobs_.end() && entry->first.connection == connection;) {
    const std::shared_ptr<Job> job = entry->second;
    const bool stays = entry->first.ordinal == except || (job->front && !job->ended);
    entry = stays ? std::next(entry) : erase(entry);
    if (!stays && !job->ended) {
      finish(*job, wire::outcome::kError, "its front died");
    }
  }
}

// It has its place, so nothing is asked for it again.
Status FrontDesk::take_over(std::size_t front, Job& job) {
  if (job.front) {
    return invalid_argument(text_of(job.key) + " asks for a second place");
  }
  job.front = front;
  job.differs = false;
  if (job.stage != Stage::kPlaced) {
    // What had come of a prompt that was not complete comes again.
    job.ids.clear();
    job.tokens_left = job.booked_tokens - job.record.prompt_tokens;
    job.stage = Stage::kBeginsAgain;
    job.prompts_again = static_cast<std::uint32_t>(job.dispatched.size());
  } else {
    job.telling = Telling::kLive;
  }
  parts_.send(front, wire::Admitted{job.key, 0, ""});
  return ok();
}

void FrontDesk::begin_again(Job& job, const wire::Begin& begin) {
  job.stage = Stage::kBegun;
  job.written = begin.told;
  if (begin.prompts != job.prompts) {
    refuse_other(job);
  } else if (job.prompts_again == 0) {
    tell_again(job);
  }
}

void FrontDesk::generate_again(Job& job, const wire::Generate& wish) {
  if (job.differs) {
    return;
  }
  const std::size_t prompt = job.dispatched.size() - job.prompts_again;
  if (wish.choices != job.dispatched[prompt].choices.size()) {
    refuse_other(job);
  } else if (--job.prompts_again == 0) {
    tell_again(job);
  }
}

// The front takes the same bytes for another request than the one before did. What has happened
// would mean nothing to it, so it hears of a failure only; ending the front would only bring the
// next one.
void FrontDesk::refuse_other(Job& job) {
  job.differs = true;
  job.log = EventLog();
  job.telling = Telling::kLive;
  tell_failure(job, unavailable("a front that had died took this request for another one"));
}

void FrontDesk::tell_again(Job& job) {
  job.telling = Telling::kAgain;
  job.told_again = 0;
  again_.push_back(jobs_.at(job.key));
  ask_for_flush();
}

// Puts the next events that are told again where the others are.
void FrontDesk::push_again() {
  std::size_t left = kMaxEventsAgain;
  std::size_t waiting = 0;  // for their front
  while (waiting < again_.size()) {
    const std::shared_ptr<Job> job = again_.front();
    const bool waits =
        job->telling == Telling::kAgain && parts_.behind && parts_.behind(*job->front);
    if (!waits && !push_some_again(*job, &left)) {
      return ask_for_flush();
    }
    again_.pop_front();
    if (waits) {
      again_.push_back(job);
      ++waiting;
    }
  }
  if (waiting > 0) {
    parts_.flush_later(kBehindPause);
  }
}

// Once a job has been told all that it had, it hears what happens as it happens. False: there is
// more.
bool FrontDesk::push_some_again(Job& job, std::size_t* left) {
  if (!tell_history(job, left)) {
    return false;
  }
  while (job.telling == Telling::kAgain && job.told_again < job.log.size()) {
    if (*left == 0) {
      return false;
    }
    put_out(*job.front, job.log.event(job.told_again++, job.key));
    --*left;
  }
  if (job.telling == Telling::kAgain) {
    job.telling = Telling::kLive;
    end_again(job);
  }
  return true;
}

// What only the text behind it depends on comes in records of its own. False: there is more.
bool FrontDesk::tell_history(Job& job, std::size_t* left) {
  const std::size_t end = std::min(job.written, job.log.size());
  while (job.telling == Telling::kAgain && job.told_again < end) {
    if (*left < kHistoryCost) {
      return false;
    }
    const wire::History history = job.log.history(job.told_again, end, job.key);
    if (history.tokens.empty()) {
      break;
    }
    *left -= kHistoryCost;
    job.told_again += history.tokens.size();
    parts_.send(*job.front, history);
  }
  return true;
}

// Of one whose end had been said when it was still generated for, the rest never comes.
void FrontDesk::end_again(Job& job) {
  const auto is_complete = [](const Job::Prompt& prompt) {
    return std::all_of(prompt.choices.begin(), prompt.choices.end(), [](const Job::Choice& choice) {
      return choice.finished;
    });
  };
  if (job.ended && !job.failed &&
      !std::all_of(job.dispatched.begin(), job.dispatched.end(), is_complete)) {
    tell_failure(job, unavailable("the request was ended before its answer was complete"));
  }
}

}  // namespace phalanx::desk
