//! What one client scrapes: metrics with their series, encoded as OpenMetrics text.

use std::fmt;

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, text},
    metrics::MetricType,
    registry::Registry,
};

/// The metrics of one scrape.
#[derive(Debug, Default)]
pub(super) struct Scrape {
    metrics: Vec<Metric>,
}

/// A metric with its series.
#[derive(Debug)]
pub(super) struct Metric {
    /// Without the `_total` of counters, which is the suffix of their samples.
    name: &'static str,
    help: &'static str,
    kind: Kind,
    series: Vec<Series>,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Counter,
    Gauge,
    Histogram,
}

#[derive(Debug)]
struct Series {
    labels: Vec<(&'static str, String)>,
    value: Value,
}

#[derive(Debug)]
enum Value {
    Number(u64),
    Durations(Durations),
}

/// Durations by upper bound in seconds; the last bound is infinite.
#[derive(Debug)]
pub(super) struct Durations {
    pub(super) seconds: f64,
    pub(super) buckets: Vec<(f64, u64)>,
}

// === impl Scrape ===

impl Scrape {
    pub(super) fn counter(&mut self, name: &'static str, help: &'static str) -> &mut Metric {
        self.metric(name, help, Kind::Counter)
    }

    pub(super) fn gauge(&mut self, name: &'static str, help: &'static str) -> &mut Metric {
        self.metric(name, help, Kind::Gauge)
    }

    pub(super) fn histogram(&mut self, name: &'static str, help: &'static str) -> &mut Metric {
        self.metric(name, help, Kind::Histogram)
    }

    /// The text of the scrape.
    pub(super) fn text(self) -> String {
        let mut text = String::with_capacity(16 * 1024);
        let mut registry = Registry::default();
        registry.register_collector(Box::new(self));
        // Writing to a `String` cannot fail.
        let _written = text::encode(&mut text, &registry);
        text
    }

    fn metric(&mut self, name: &'static str, help: &'static str, kind: Kind) -> &mut Metric {
        let at = self.metrics.len();
        self.metrics.push(Metric { name, help, kind, series: Vec::new() });
        &mut self.metrics[at]
    }
}

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for metric in &self.metrics {
            let mut encoder = encoder.encode_descriptor(metric.name, metric.help, None, metric.kind.metric_type())?;
            for Series { labels, value } in &metric.series {
                // An empty set of labels would be written as `{}`.
                match labels.is_empty() {
                    true => value.encode(metric.kind, &mut encoder)?,
                    false => value.encode(metric.kind, &mut encoder.encode_family(labels)?)?,
                }
            }
        }
        Ok(())
    }
}

// === impl Metric ===

impl Metric {
    /// Adds a series with labels and a number.
    pub(super) fn series<const N: usize>(&mut self, labels: [(&'static str, &str); N], value: u64) -> &mut Self {
        self.push(&labels, Value::Number(value))
    }

    /// Adds the only series, without labels.
    pub(super) fn value(&mut self, value: u64) {
        self.push(&[], Value::Number(value));
    }

    /// Adds a series of durations.
    pub(super) fn durations<const N: usize>(&mut self, labels: [(&'static str, &str); N], durations: Durations) {
        self.push(&labels, Value::Durations(durations));
    }

    fn push(&mut self, labels: &[(&'static str, &str)], value: Value) -> &mut Self {
        let labels = labels.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        self.series.push(Series { labels, value });
        self
    }
}

impl Kind {
    fn metric_type(self) -> MetricType {
        match self {
            Self::Counter => MetricType::Counter,
            Self::Gauge => MetricType::Gauge,
            Self::Histogram => MetricType::Histogram,
        }
    }
}

impl Value {
    fn encode(&self, kind: Kind, encoder: &mut MetricEncoder<'_>) -> fmt::Result {
        match (self, kind) {
            (Self::Number(value), Kind::Counter) => encoder.encode_counter::<NoLabelSet, _, u64>(value, None),
            (Self::Number(value), _) => encoder.encode_gauge(value),
            (Self::Durations(Durations { seconds, buckets }), _) => {
                let count = buckets.iter().map(|(_, count)| count).sum();
                encoder.encode_histogram::<NoLabelSet>(*seconds, count, buckets, None)
            }
        }
    }
}
