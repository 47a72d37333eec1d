//! Prometheus' text format, version 0.0.4.

use std::fmt::{self, Write as _};

/// The media type of the format.
pub(super) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Kinds of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A value that only grows, until the server restarts.
    Counter,
    /// A value that grows and falls.
    Gauge,
    /// Counts of values by bucket.
    Histogram,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        })
    }
}

/// Names and values of labels.
pub(super) type Labels<'a> = &'a [(&'a str, &'a str)];

/// Metrics in text form.
#[derive(Debug, Default)]
pub(super) struct Exposition {
    text: String,
}

impl Exposition {
    /// Begins a metric. The caller adds its samples to the returned value.
    pub(super) fn metric(&mut self, name: &'static str, kind: Kind, help: &str) -> Metric<'_> {
        self.put(format_args!("# HELP {name} {help}\n# TYPE {name} {kind}\n"));
        Metric { exposition: self, name }
    }

    /// Adds a metric with one sample that has no labels.
    pub(super) fn one(
        &mut self,
        name: &'static str,
        kind: Kind,
        help: &str,
        value: impl fmt::Display,
    ) {
        self.metric(name, kind, help).sample(&[], value);
    }

    /// Returns the text.
    pub(super) fn into_text(self) -> String {
        self.text
    }

    fn put(&mut self, text: fmt::Arguments<'_>) {
        // Writing to a String cannot fail.
        let _ = self.text.write_fmt(text);
    }
}

/// A metric that samples are added to.
#[derive(Debug)]
pub(super) struct Metric<'a> {
    exposition: &'a mut Exposition,
    name: &'static str,
}

impl Metric<'_> {
    /// Adds a sample.
    pub(super) fn sample(&mut self, labels: Labels<'_>, value: impl fmt::Display) {
        self.put("", labels, None, value);
    }

    /// Adds the samples of a histogram. `buckets` are the upper limit of each bucket and the number
    /// of values in it alone (not cumulative); `number` is the number of all values.
    pub(super) fn histogram(
        &mut self,
        labels: Labels<'_>,
        buckets: impl Iterator<Item = (f64, u64)>,
        number: u64,
        sum: f64,
    ) {
        let mut within = 0;
        for (limit, count) in buckets {
            within += count;
            self.put("_bucket", labels, Some(&limit.to_string()), within);
        }
        self.put("_bucket", labels, Some("+Inf"), number);
        self.put("_sum", labels, None, sum);
        self.put("_count", labels, None, number);
    }

    fn put(
        &mut self,
        suffix: &str,
        labels: Labels<'_>,
        limit: Option<&str>,
        value: impl fmt::Display,
    ) {
        let name = self.name;
        self.exposition.put(format_args!("{name}{suffix}"));
        let limit = limit.map(|limit| ("le", limit));
        let mut opening = '{';
        for (label, value) in labels.iter().copied().chain(limit) {
            self.exposition.put(format_args!("{opening}{label}=\"{}\"", escaped(value)));
            opening = ',';
        }
        let closing = if opening == ',' { "}" } else { "" };
        self.exposition.put(format_args!("{closing} {value}\n"));
    }
}

/// Escapes a label value: backslashes, quotes and line breaks.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_have_escaped_labels_and_buckets_add_up() {
        let mut metrics = Exposition::default();
        metrics.one("a_bytes", Kind::Gauge, "All.", 7);
        metrics.metric("b_total", Kind::Counter, "Some.").sample(&[("x", "a\"\\\n"), ("y", "")], 1);
        let buckets = [(0.5, 2), (1.0, 3)].into_iter();
        metrics.metric("c_seconds", Kind::Histogram, "Each.").histogram(
            &[("t", "u")],
            buckets,
            6,
            2.5,
        );
        let expected = "# HELP a_bytes All.\n# TYPE a_bytes gauge\na_bytes 7\n\
             # HELP b_total Some.\n# TYPE b_total counter\n\
             b_total{x=\"a\\\"\\\\\\n\",y=\"\"} 1\n\
             # HELP c_seconds Each.\n# TYPE c_seconds histogram\n\
             c_seconds_bucket{t=\"u\",le=\"0.5\"} 2\n\
             c_seconds_bucket{t=\"u\",le=\"1\"} 5\n\
             c_seconds_bucket{t=\"u\",le=\"+Inf\"} 6\n\
             c_seconds_sum{t=\"u\"} 2.5\nc_seconds_count{t=\"u\"} 6\n";
        assert_eq!(metrics.into_text(), expected);
    }
}
