//! Text format of traces: a header, then one line per tenant and per request.
//!
//! ```text
//! trace 1
//! page 65536 random 500us sequential 55us
//! tenant lookups cpu 20us sla latency 1ms penalty 0.01
//! tenant sorts cpu 150us sla latency 5s penalty 1 per 1s
//! 12us lookups get 5 17 90
//! 800ms sorts sort 4096
//! 1s lookups scan 0 512
//! ```
//!
//! Blank lines and lines that begin with `#` are skipped.

use std::{fmt, str::FromStr};

use super::{Event, Tenant, Trace, Work};
use crate::sla::text::{nanoseconds, write_time};

/// Error of parsing a line of a trace.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line} of the trace: {problem}")]
pub struct TraceError {
    /// Number of the line, from 1.
    pub line: usize,
    /// Problem of the line and the correct form.
    pub problem: String,
}

/// Highest page number, to bound the size of the LRU list.
const PAGES_MAX: u64 = 1 << 26;
/// Maximum number of pages of one request.
const REQUEST_PAGES_MAX: u64 = 1 << 24;
/// First line of a trace.
const TITLE: &str = "trace 1";

impl FromStr for Trace {
    type Err = TraceError;

    fn from_str(text: &str) -> Result<Self, TraceError> {
        let lines = text.lines().enumerate().map(|(at, line)| (at + 1, line.trim()));
        let mut lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        let mut next = |problem: &str| {
            lines.next().ok_or_else(|| TraceError { line: 0, problem: problem.to_string() })
        };
        let (line, title) = next("it is empty; it begins with `trace 1`")?;
        if title != TITLE {
            let problem = format!("it begins with `{TITLE}`, not `{title}`");
            return Err(TraceError { line, problem });
        }
        let (line, machine) = next("the line `page BYTES random TIME sequential TIME` is missing")?;
        let mut trace = head(machine).map_err(|problem| TraceError { line, problem })?;
        for (line, text) in lines {
            body(&mut trace, text).map_err(|problem| TraceError { line, problem })?;
        }
        Ok(trace)
    }
}

fn head(text: &str) -> Result<Trace, String> {
    let wrong =
        || format!("`page BYTES random TIME sequential TIME` must stand here, not `{text}`");
    let words: Vec<&str> = text.split_whitespace().collect();
    let ["page", bytes, "random", random, "sequential", sequential] = words[..] else {
        return Err(wrong());
    };
    let page_bytes = bytes.parse().ok().filter(|bytes| *bytes > 0).ok_or_else(wrong)?;
    let random_nanos = nanoseconds(random).ok_or_else(wrong)?;
    let sequential_nanos = nanoseconds(sequential).ok_or_else(wrong)?;
    let (tenants, events) = (Vec::new(), Vec::new());
    Ok(Trace { page_bytes, random_nanos, sequential_nanos, tenants, events })
}

fn body(trace: &mut Trace, text: &str) -> Result<(), String> {
    if let Some(rest) = text.strip_prefix("tenant ") {
        trace.tenants.push(tenant(rest)?);
        return Ok(());
    }
    let event = event(trace, text)?;
    if event.at_nanos < trace.end_nanos() {
        return Err("requests must stand by rising time".to_string());
    }
    trace.events.push(event);
    Ok(())
}

fn tenant(text: &str) -> Result<Tenant, String> {
    let wrong = || format!("`tenant NAME cpu TIME sla SLA` must stand here, not `tenant {text}`");
    let (front, sla) = text.split_once(" sla ").ok_or_else(wrong)?;
    let words: Vec<&str> = front.split_whitespace().collect();
    let [name, "cpu", time] = words[..] else { return Err(wrong()) };
    let cpu_nanos = nanoseconds(time).ok_or_else(wrong)?;
    let sla = sla.parse().map_err(|error| format!("{error}"))?;
    Ok(Tenant { name: name.to_string(), cpu_nanos, sla })
}

fn event(trace: &Trace, text: &str) -> Result<Event, String> {
    let wrong = || {
        format!(
            "a request is `TIME TENANT get PAGE...`, `scan FIRST PAGES` or `sort PAGES`, not \
                 `{text}`"
        )
    };
    let words: Vec<&str> = text.split_whitespace().collect();
    let [time, name, kind, numbers @ ..] = &words[..] else { return Err(wrong()) };
    let at_nanos = nanoseconds(time).ok_or_else(wrong)?;
    let tenant = trace.tenants.iter().position(|tenant| tenant.name == *name);
    let tenant =
        tenant.ok_or_else(|| format!("no line before this one names a tenant `{name}`"))?;
    let numbers: Option<Vec<u64>> = numbers.iter().map(|word| word.parse().ok()).collect();
    let numbers = numbers.ok_or_else(wrong)?;
    let (work, end, pages) = match (*kind, &numbers[..]) {
        ("get", [_, ..]) => {
            let end = numbers.iter().copied().max().unwrap_or(0);
            (Work::Get(numbers), end, 1)
        }
        ("scan", &[first, pages]) => {
            (Work::Scan { first, pages }, first.saturating_add(pages), pages)
        }
        ("sort", &[pages]) => (Work::Sort { pages }, 0, pages),
        _ => return Err(wrong()),
    };
    if end >= PAGES_MAX || pages > REQUEST_PAGES_MAX {
        return Err(format!(
            "pages are numbered below {PAGES_MAX}, a request has at most {REQUEST_PAGES_MAX}"
        ));
    }
    Ok(Event { at_nanos, tenant, work })
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{TITLE}")?;
        write!(f, "page {} random ", self.page_bytes)?;
        write_time(f, self.random_nanos)?;
        f.write_str(" sequential ")?;
        write_time(f, self.sequential_nanos)?;
        writeln!(f)?;
        for tenant in &self.tenants {
            write!(f, "tenant {} cpu ", tenant.name)?;
            write_time(f, tenant.cpu_nanos)?;
            writeln!(f, " sla {}", tenant.sla)?;
        }
        for event in &self.events {
            write_time(f, event.at_nanos)?;
            let name = self.tenants.get(event.tenant).map_or("?", |tenant| &tenant.name);
            write!(f, " {name} ")?;
            writeln!(f, "{}", event.work)?;
        }
        Ok(())
    }
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Get(pages) => {
                f.write_str("get")?;
                pages.iter().try_for_each(|page| write!(f, " {page}"))
            }
            Self::Scan { first, pages } => write!(f, "scan {first} {pages}"),
            Self::Sort { pages } => write!(f, "sort {pages}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "trace 1\n\
        page 65536 random 500us sequential 55us\n\
        tenant lookups cpu 20us sla latency 1ms penalty 0.01\n\
        tenant sorts cpu 150us sla latency 5s penalty 1 per 1s\n\
        0s lookups get 5 17 90\n\
        800ms sorts sort 4096\n\
        1s lookups scan 0 512\n";

    #[test]
    fn a_trace_reads_back() {
        let trace: Trace = TEXT.parse().expect("a trace");
        assert_eq!(trace.to_string(), TEXT);
        assert_eq!((trace.pages_of(0), trace.pages_of(1)), (512, 0));
        assert_eq!((trace.sorts(0), trace.sorts(1)), (false, true));
        let spaced = format!("# recorded\n\n{TEXT}");
        assert_eq!(spaced.parse::<Trace>().expect("a trace"), trace);
    }

    #[test]
    fn a_wrong_line_is_named() {
        for (from, to, problem) in [
            ("trace 1", "trace 9", "line 1 of the trace: it begins with `trace 1`"),
            ("page 65536", "page 0", "line 2"),
            ("penalty 0.01", "penalty", "line 3 of the trace: \"latency 1ms penalty\""),
            ("tenant sorts cpu", "tenant sorts", "line 4"),
            ("0s lookups", "0s look", "a tenant `look`"),
            ("800ms sorts sort 4096", "800ms sorts sort", "line 6 of the trace: a request is"),
            ("1s lookups", "1ms lookups", "rising time"),
            ("scan 0 512", "scan 99999999999 5", "pages are numbered below"),
            ("get 5 17 90", "get", "a request is"),
        ] {
            let text = TEXT.replace(from, to);
            let error = text.parse::<Trace>().expect_err(to).to_string();
            assert!(error.contains(problem), "{error}");
        }
        assert!("".parse::<Trace>().expect_err("empty").problem.contains("empty"));
    }
}
