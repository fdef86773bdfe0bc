// SPDX-License-Identifier: Apache-2.0
#include "phalanx/obs/metrics.h"

#include <functional>
#include <mutex>
#include <sstream>
#include <tuple>
#include <utility>

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include "phalanx/base/check.h"

namespace phalanx::obs {

namespace {

class CounterSeries final : public Counter {
 public:
  explicit CounterSeries(prometheus::Counter& series) : series_(series) {}
  void add(double amount) override { series_.Increment(amount); }
  void follow(double total) override {
    series_.Increment(total < followed_ ? total : total - followed_);
    followed_ = total;
  }
  [[nodiscard]] double value() const override { return series_.Value(); }
  [[nodiscard]] prometheus::Counter* raw() { return &series_; }

 private:
  prometheus::Counter& series_;
  double followed_ = 0;
};

class GaugeSeries final : public Gauge {
 public:
  explicit GaugeSeries(prometheus::Gauge& series) : series_(series) {}
  void set(double value) override { series_.Set(value); }
  [[nodiscard]] double value() const override { return series_.Value(); }
  [[nodiscard]] prometheus::Gauge* raw() { return &series_; }

 private:
  prometheus::Gauge& series_;
};

class HistogramSeries final : public Histogram {
 public:
  explicit HistogramSeries(prometheus::Histogram& series) : series_(series) {}
  void observe(double value) override { series_.Observe(value); }
  [[nodiscard]] prometheus::Histogram* raw() { return &series_; }

 private:
  prometheus::Histogram& series_;
};

// All series of one name: the adapter objects by their labels, and the family that owns the rest.
template <typename Series, typename Raw>
struct Family {
  prometheus::Family<Raw>* family = nullptr;
  std::string help;
  std::map<Labels, std::unique_ptr<Series>> series;

  std::size_t remove(const std::string& name, const std::string& value) {
    std::size_t removed = 0;
    for (auto it = series.begin(); it != series.end();) {
      const auto label = it->first.find(name);
      if (label == it->first.end() || label->second != value) {
        ++it;
        continue;
      }
      family->Remove(it->second->raw());
      it = series.erase(it);
      ++removed;
    }
    return removed;
  }
};

using CounterFamily = Family<CounterSeries, prometheus::Counter>;
using GaugeFamily = Family<GaugeSeries, prometheus::Gauge>;
using HistogramFamily = Family<HistogramSeries, prometheus::Histogram>;

}  // namespace

struct MetricRegistry::Impl {
  mutable std::mutex mutex;
  prometheus::Registry registry{prometheus::Registry::InsertBehavior::Throw};
  std::map<std::string, CounterFamily> counters;
  std::map<std::string, GaugeFamily> gauges;
  std::map<std::string, HistogramFamily> histograms;

  [[nodiscard]] bool taken(const std::string& name) const {
    return counters.count(name) + gauges.count(name) + histograms.count(name) > 0;
  }

  // The series of `name` and `labels` in `families`, made by `build(family)` if it is new.
  template <typename Families, typename Register, typename Build>
  auto& series_of(Families& families,
                  const std::string& name,
                  const std::string& help,
                  const Labels& labels,
                  const std::pair<Register, Build>& makers) {
    auto found = families.find(name);
    if (found == families.end()) {
      PHALANX_CHECK(!taken(name), "a metric is asked for under two types");
      found = families.emplace(name, typename Families::mapped_type{}).first;
      found->second.family = &makers.first();
      found->second.help = help;
    }
    PHALANX_CHECK(found->second.help == help, "a metric is asked for under two help texts");
    auto& slot = found->second.series[labels];
    if (slot == nullptr) {
      slot = makers.second(*found->second.family);
    }
    return *slot;
  }
};

MetricRegistry::MetricRegistry() : impl_(std::make_unique<Impl>()) {}
MetricRegistry::~MetricRegistry() = default;

Counter& MetricRegistry::counter(const std::string& name,
                                 const std::string& help,
                                 const Labels& labels) {
  const std::lock_guard lock(impl_->mutex);
  const auto enter = [&]() -> prometheus::Family<prometheus::Counter>& {
    return prometheus::BuildCounter().Name(name).Help(help).Register(impl_->registry);
  };
  const auto build = [&](prometheus::Family<prometheus::Counter>& family) {
    return std::make_unique<CounterSeries>(family.Add(labels));
  };
  return impl_->series_of(impl_->counters, name, help, labels, std::pair(enter, build));
}

Gauge& MetricRegistry::gauge(const std::string& name,
                             const std::string& help,
                             const Labels& labels) {
  const std::lock_guard lock(impl_->mutex);
  const auto enter = [&]() -> prometheus::Family<prometheus::Gauge>& {
    return prometheus::BuildGauge().Name(name).Help(help).Register(impl_->registry);
  };
  const auto build = [&](prometheus::Family<prometheus::Gauge>& family) {
    return std::make_unique<GaugeSeries>(family.Add(labels));
  };
  return impl_->series_of(impl_->gauges, name, help, labels, std::pair(enter, build));
}

Histogram& MetricRegistry::histogram(const std::string& name,
                                     const std::string& help,
                                     const std::vector<double>& buckets,
                                     const Labels& labels) {
  const std::lock_guard lock(impl_->mutex);
  const auto enter = [&]() -> prometheus::Family<prometheus::Histogram>& {
    return prometheus::BuildHistogram().Name(name).Help(help).Register(impl_->registry);
  };
  const auto build = [&](prometheus::Family<prometheus::Histogram>& family) {
    return std::make_unique<HistogramSeries>(family.Add(labels, buckets));
  };
  return impl_->series_of(impl_->histograms, name, help, labels, std::pair(enter, build));
}

std::size_t MetricRegistry::remove_series(const std::string& name, const std::string& value) {
  const std::lock_guard lock(impl_->mutex);
  std::size_t removed = 0;
  const auto sweep = [&](auto& families) {
    for (auto& [metric, family] : families) {
      removed += family.remove(name, value);
    }
  };
  sweep(impl_->counters);
  sweep(impl_->gauges);
  sweep(impl_->histograms);
  return removed;
}

std::string MetricRegistry::serialize() const {
  const std::lock_guard lock(impl_->mutex);
  std::ostringstream out;
  prometheus::TextSerializer().Serialize(out, impl_->registry.Collect());
  return out.str();
}

}  // namespace phalanx::obs
