// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace phalanx::obs {

using Labels = std::map<std::string, std::string>;

// Handles of one series. Values may be set from any thread; a handle must not be used after
// remove_series() took its series away.
class Counter {
 public:
  Counter() = default;
  Counter(const Counter&) = delete;
  Counter& operator=(const Counter&) = delete;
  virtual ~Counter() = default;
  virtual void add(double amount = 1) = 0;  // amount >= 0
  // For what is counted elsewhere, by one thread: adds what `total` has grown by since the last
  // call. Where it is less than it was, the count began anew, and all of it is added.
  virtual void follow(double total) = 0;  // total >= 0
  [[nodiscard]] virtual double value() const = 0;
};

class Gauge {
 public:
  Gauge() = default;
  Gauge(const Gauge&) = delete;
  Gauge& operator=(const Gauge&) = delete;
  virtual ~Gauge() = default;
  virtual void set(double value) = 0;
  [[nodiscard]] virtual double value() const = 0;
};

class Histogram {
 public:
  Histogram() = default;
  Histogram(const Histogram&) = delete;
  Histogram& operator=(const Histogram&) = delete;
  virtual ~Histogram() = default;
  virtual void observe(double value) = 0;
};

// All metrics of a process, served as Prometheus text. Asking for the same name and labels again
// gives the same series; asking for a name with another type or help is a defect (CHECK).
//
// Ownership: the registry owns every series.
// Threads: any; asking for a series takes a lock, so keep the handle.
class MetricRegistry {
 public:
  MetricRegistry();
  MetricRegistry(const MetricRegistry&) = delete;
  MetricRegistry& operator=(const MetricRegistry&) = delete;
  ~MetricRegistry();

  // `name` as Prometheus wants it, with unit and "_total" for counters.
  [[nodiscard]] Counter& counter(const std::string& name,
                                 const std::string& help,
                                 const Labels& labels = {});
  [[nodiscard]] Gauge& gauge(const std::string& name,
                             const std::string& help,
                             const Labels& labels = {});
  // `buckets`: ascending upper bounds, without infinity.
  [[nodiscard]] Histogram& histogram(const std::string& name,
                                     const std::string& help,
                                     const std::vector<double>& buckets,
                                     const Labels& labels = {});

  // Takes away every series, of any name, that carries label `name` = `value`: what is gone must
  // not look idle. Returns how many.
  std::size_t remove_series(const std::string& name, const std::string& value);

  // Prometheus text exposition format 0.0.4.
  [[nodiscard]] std::string serialize() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Series of the same labels whose values are kept elsewhere, and are set before they are served.
//
// Ownership: borrows the registry.
// Threads: one.
class Readings {
 public:
  explicit Readings(MetricRegistry& registry, Labels labels = {})
      : registry_(registry), labels_(std::move(labels)) {}

  // The same with another label.
  [[nodiscard]] Readings with(const std::string& name, const std::string& value) const {
    Readings readings = *this;
    readings.labels_[name] = value;
    return readings;
  }

  template <typename Number>
  void gauge(const std::string& name, const std::string& help, Number value) const {
    registry_.gauge(name, help, labels_).set(static_cast<double>(value));
  }

  // As Counter::follow().
  template <typename Number>
  void counter(const std::string& name, const std::string& help, Number total) const {
    registry_.counter(name, help, labels_).follow(static_cast<double>(total));
  }

 private:
  MetricRegistry& registry_;
  Labels labels_;
};

}  // namespace phalanx::obs
