//! Addresses and limits of the server on the command line.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use terrace_server::Limits;

use crate::log::LogFormat;

/// Arguments of `terrace serve`.
#[derive(Args, Debug)]
pub struct ServeArgs {
    /// Addresses to listen at (repeatable); other machines can connect only with TLS and logins
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:5432")]
    pub listen: Vec<SocketAddr>,

    /// Directory of a Unix socket, whose name has the port of the first address
    #[arg(long, value_name = "DIR")]
    pub socket: Option<PathBuf>,

    /// Certificate of the server in PEM, with its chain; TCP connections must then use TLS
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,

    /// Key of the certificate in PEM, a file that only its owner may read
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,

    /// Address of this machine for metrics, health and the dashboard by HTTP
    #[arg(long, value_name = "ADDRESS")]
    pub http: Option<SocketAddr>,

    /// Address for clients of Arrow Flight SQL (ADBC, JDBC), with the rules of --listen
    #[arg(long, value_name = "ADDRESS")]
    pub flight: Option<SocketAddr>,

    /// Maximum number of concurrent connections
    #[arg(long, value_name = "N", default_value_t = Limits::default().connections)]
    pub connections: usize,

    /// Seconds that statements may continue after SIGINT or SIGTERM; a second signal cancels them
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = Limits::default().shutdown_time.as_secs()
    )]
    pub shutdown_time: u64,

    /// Format of messages on standard error
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,

    /// Log statements that take at least this many seconds; failed ones are always logged
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub log_statements: Option<f64>,
}

/// Parses a number of seconds from 0 to a day.
fn seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok().filter(|seconds| (0.0..=86_400.0).contains(seconds));
    seconds.ok_or_else(|| format!("\"{text}\" is not seconds, at most a day"))
}
