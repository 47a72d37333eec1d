//! Text form of SLAs.
//!
//! ```text
//! sla     = ( "none" | clause ) { "," ( clause | priority ) }
//! priority = "priority" whole number up to 255
//! clause  = "latency" [ percentile ] time  "penalty" number [ "per" time ]  [ "max" number ]
//!         | "io"      [ percentile ] count "penalty" number [ "per" count ] [ "max" number ]
//! time    = number ( "ns" | "us" | "ms" | "s" | "min" | "h" )
//! percentile = "p" number, above 0 and below 100
//! ```

use std::{fmt, str::FromStr};

use terrace_sys::duration::{UNITS, parse_duration};

use super::{
    agreement::Sla,
    clause::{Clause, Metric},
};

/// Error of parsing a text that is not an SLA.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "\"{text}\" is not an SLA: {problem}; write for example `latency 50ms penalty 10`, `latency \
     p95 50ms penalty 10`, `latency 2s penalty 1 per 500ms max 20`, `io 1000 penalty 1 per 100`, \
     several of them with commas between, or `none`; `, priority 2` lets others wait for it"
)]
pub struct SlaError {
    /// Text that was parsed.
    pub text: String,
    /// Problem of the text.
    pub problem: String,
}

impl FromStr for Sla {
    type Err = SlaError;

    fn from_str(text: &str) -> Result<Self, SlaError> {
        let words = text.to_ascii_lowercase();
        read(&words).map_err(|problem| SlaError { text: text.to_string(), problem })
    }
}

fn read(words: &str) -> Result<Sla, String> {
    let (mut clauses, mut rank, mut is_none) = (Vec::new(), None, false);
    for part in words.split(',').map(str::trim) {
        match part.strip_prefix("priority") {
            Some(_) if rank.is_some() => return Err("it has two priorities".to_string()),
            Some(number) => rank = Some(priority(number.trim())?),
            None if part == "none" => is_none = true,
            None => clauses.push(clause(part)?),
        }
    }
    match (is_none, clauses.is_empty()) {
        (true, false) => Err("`none` excludes penalties".to_string()),
        (false, true) => Err("it has no penalty; without one write `none`".to_string()),
        _ => Ok(Sla::of(clauses).with_priority(rank.unwrap_or(0))),
    }
}

fn priority(number: &str) -> Result<u8, String> {
    let wrong = |_| format!("a priority is a whole number from 0 to 255, not `{number}`");
    number.parse().map_err(wrong)
}

/// Words of a clause that are not parsed yet.
struct Words<'a> {
    left: Vec<&'a str>,
    /// Last word parsed, for error messages.
    last: &'a str,
}

fn clause(text: &str) -> Result<Clause, String> {
    let mut words = Words { left: text.split_whitespace().rev().collect(), last: "" };
    let metric = match words.next() {
        Some("latency") => Metric::Latency,
        Some("io") => Metric::Io,
        Some(other) => {
            return Err(format!("a clause begins with `latency` or `io`, not `{other}`"));
        }
        None => return Err("a clause is empty".to_string()),
    };
    let percentile = words.percentile()?;
    let limit = words.amount(metric)?;
    if words.next() != Some("penalty") {
        return Err(words.wants("`penalty`"));
    }
    let penalty = words.number()?;
    let per = if words.take("per") { Some(words.amount(metric)?) } else { None };
    if per == Some(0) {
        return Err("`per` needs more than 0".to_string());
    }
    let most = if words.take("max") { Some(words.number()?) } else { None };
    match words.next() {
        Some(word) => Err(format!("nothing can follow but `per` or `max`, not `{word}`")),
        None => Ok(Clause { metric, percentile, limit, penalty, per, most }),
    }
}

impl<'a> Words<'a> {
    fn next(&mut self) -> Option<&'a str> {
        let word = self.left.pop();
        self.last = word.unwrap_or("the end");
        word
    }

    fn take(&mut self, word: &str) -> bool {
        let there = self.left.last() == Some(&word);
        if there {
            self.left.pop();
        }
        there
    }

    fn wants(&self, what: &str) -> String {
        format!("{what} must stand where `{}` is", self.last)
    }

    /// Parses a percentile: a word that begins with `p`.
    fn percentile(&mut self) -> Result<Option<f64>, String> {
        let Some(number) = self.left.last().and_then(|word| word.strip_prefix('p')) else {
            return Ok(None);
        };
        self.next();
        let percentile = number.parse::<f64>().ok().filter(|it| *it > 0.0 && *it < 100.0);
        let percentile =
            percentile.ok_or_else(|| self.wants("a percentile between p0 and p100"))?;
        Ok(Some(percentile))
    }

    fn amount(&mut self, metric: Metric) -> Result<u64, String> {
        let word = self.next();
        match metric {
            Metric::Latency => {
                word.and_then(nanoseconds).ok_or_else(|| self.wants("a time such as `50ms`"))
            }
            Metric::Io => word
                .and_then(|word| word.parse().ok())
                .ok_or_else(|| self.wants("a number of I/Os such as `1000`")),
        }
    }

    fn number(&mut self) -> Result<f64, String> {
        let number = self.next().and_then(|word| word.parse::<f64>().ok());
        let number = number.filter(|it| it.is_finite() && *it >= 0.0);
        number.ok_or_else(|| self.wants("a penalty, a number of 0 or more,"))
    }
}

/// Parses a time such as `50ms` and returns it in nanoseconds.
fn nanoseconds(word: &str) -> Option<u64> {
    u64::try_from(parse_duration(word)?.as_nanos()).ok()
}

/// Writes a time in the largest unit that divides it.
fn write_time(f: &mut fmt::Formatter<'_>, nanoseconds: u64) -> fmt::Result {
    let fits = |unit: &&(&str, u64)| nanoseconds.is_multiple_of(unit.1);
    let (name, factor) =
        UNITS.iter().skip(usize::from(nanoseconds == 0) * 2).find(fits).unwrap_or(&("ns", 1));
    write!(f, "{}{name}", nanoseconds / factor)
}

impl fmt::Display for Sla {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.clauses().is_empty() {
            f.write_str("none")?;
        }
        for (at, clause) in self.clauses().iter().enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            write!(f, "{comma}{clause}")?;
        }
        match self.priority() {
            0 => Ok(()),
            priority => write!(f, ", priority {priority}"),
        }
    }
}

impl fmt::Display for Clause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let amount = |f: &mut fmt::Formatter<'_>, amount: u64| match self.metric {
            Metric::Latency => write_time(f, amount),
            Metric::Io => write!(f, "{amount}"),
        };
        f.write_str(if self.metric == Metric::Latency { "latency " } else { "io " })?;
        if let Some(percentile) = self.percentile {
            write!(f, "p{percentile} ")?;
        }
        amount(f, self.limit)?;
        write!(f, " penalty {}", self.penalty)?;
        if let Some(per) = self.per {
            f.write_str(" per ")?;
            amount(f, per)?;
        }
        self.most.map_or(Ok(()), |most| write!(f, " max {most}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_reads_back() {
        for text in [
            "none",
            "latency 50ms penalty 10",
            "latency p99.9 1500us penalty 0.25",
            "latency 2s penalty 1 per 500ms max 20",
            "io p50 1000 penalty 0.5 per 100",
            "latency 0s penalty 1 per 1s, io 7 penalty 3 max 9",
            "latency 1min penalty 1, latency 3h penalty 100",
            "latency 50ms penalty 10, priority 2",
            "none, priority 255",
        ] {
            let sla: Sla = text.parse().expect(text);
            assert_eq!(sla.to_string(), text);
        }
        let loose: Sla = "  Latency P95 1.5s PENALTY 3 ".parse().expect("an SLA");
        assert_eq!(loose.to_string(), "latency p95 1500ms penalty 3");
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, problem) in [
            ("", "a clause is empty"),
            ("fast", "not `fast`"),
            ("latency", "a time such as `50ms` must stand where `the end` is"),
            ("latency 50 penalty 1", "a time such as `50ms` must stand where `50` is"),
            ("latency 5weeks penalty 1", "`5weeks`"),
            ("latency p100 5ms penalty 1", "`p100`"),
            ("latency p 5ms penalty 1", "`p`"),
            ("latency 50ms cost 1", "`penalty` must stand where `cost` is"),
            ("latency 50ms penalty -1", "`-1`"),
            ("latency 50ms penalty inf", "`inf`"),
            ("latency 50ms penalty 1 per 0ms", "`per` needs more than 0"),
            ("latency 50ms penalty 1 per 5", "`5`"),
            ("latency 50ms penalty 1 or else", "not `or`"),
            ("io 5ms penalty 1", "a number of I/Os such as `1000` must stand where `5ms` is"),
            ("latency 50ms penalty 1,", "a clause is empty"),
            ("latency 99999999999999999999h penalty 1", "a time"),
            ("latency 50ms penalty 1, priority 256", "not `256`"),
            ("latency 50ms penalty 1, priority 1, priority 2", "two priorities"),
            ("none, latency 50ms penalty 1", "`none` excludes"),
            ("priority 1", "it has no penalty"),
        ] {
            let error = text.parse::<Sla>().expect_err(text).to_string();
            assert!(error.starts_with(&format!("\"{text}\" is not an SLA: ")), "{error}");
            assert!(error.contains(problem), "{error}");
            assert!(error.contains("write for example `latency 50ms penalty 10`"), "{error}");
        }
    }
}
