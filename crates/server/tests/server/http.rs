//! The server's HTTP interface: metrics, health, the dashboard and its buttons.

mod browser;

use std::collections::BTreeMap;
use std::future::Future;
use std::io::Write as _;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use browser::Browser;
use serde_json::Value;
use terrace_server::{HttpListener, Limits, Server};
use terrace_sql::Engine;
use terrace_store::{Blocks, MemoryBlocks};
use terrace_testkit::{Fault, FaultyBlocks, Target, When, needs};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, NoTls};

use crate::running::{DRAM, Running, STORE_BYTES, engine_over};

const SOON: Duration = Duration::from_secs(20);

/// A statement that never ends.
const ENDLESS: &str = "SELECT count(*) FROM generate_series(1, 1000000000000) a (value)";

/// A tenant whose queries all miss its SLA.
const TENANT: &str = "CREATE TENANT t WITH (sla = 'latency 1us penalty 2')";

/// The addresses of a server: for PostgreSQL's protocol, and for HTTP.
#[derive(Clone, Copy)]
struct Places {
    sql: SocketAddr,
    http: SocketAddr,
}

async fn with_server<T: Future<Output = ()>>(test: impl FnOnce(Places) -> T) {
    let engine = with_server_over(Arc::new(MemoryBlocks::new(STORE_BYTES)), test).await;
    engine.close().expect("the engine is free");
}

/// Runs a test against a server over a device. Returns the engine, which the server has released.
async fn with_server_over<T: Future<Output = ()>>(
    blocks: Arc<dyn Blocks>,
    test: impl FnOnce(Places) -> T,
) -> Engine {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let http = HttpListener::tcp(any).await.expect("an address");
    let address = http.address().expect("an address");
    let engine = engine_over(blocks);
    let server = Server::new(engine.clone(), Limits::default(), None).expect("a server");
    let running = Running::of(engine, server.with_http(http)).await;
    test(Places { sql: running.address, http: address }).await;
    timeout(SOON, running.end()).await.expect("soon")
}

async fn connect(address: SocketAddr) -> Client {
    let url = format!("postgres://someone@{address}/main?application_name=test");
    let (client, connection) = tokio_postgres::connect(&url, NoTls).await.expect("connected");
    tokio::spawn(connection);
    client
}

/// A response: its status, its headers with names in lower case, and its body.
#[derive(Debug)]
struct Reply {
    status: u16,
    headers: BTreeMap<String, String>,
    body: String,
}

impl Reply {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).expect("JSON")
    }
}

/// Sends bytes and reads until the connection ends.
async fn send(address: SocketAddr, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).await.expect("connected");
    // A server that refuses a request does not read the rest of it.
    let _unread = stream.write_all(bytes).await;
    let mut answer = Vec::new();
    let _broken = timeout(SOON, stream.read_to_end(&mut answer)).await.expect("an answer");
    String::from_utf8(answer).expect("text")
}

/// Returns the reply to a request with headers, each of which ends in `\r\n`.
async fn request(address: SocketAddr, line: &str, headers: &str) -> Reply {
    let text = format!("{line} HTTP/1.1\r\nConnection: close\r\n{headers}\r\n");
    reply(&send(address, text.as_bytes()).await)
}

fn reply(answer: &str) -> Reply {
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    let mut lines = head.lines();
    let status = lines.next().and_then(|line| line.split(' ').nth(1));
    let headers = lines.filter_map(|line| line.split_once(": "));
    let headers = headers.map(|(name, value)| (name.to_lowercase(), value.to_owned())).collect();
    let status = status.and_then(|status| status.parse().ok()).expect("a status");
    Reply { status, headers, body: body.to_owned() }
}

async fn get(address: SocketAddr, path: &str) -> Reply {
    request(address, &format!("GET {path}"), "Host: localhost\r\n").await
}

async fn post(address: SocketAddr, path: &str) -> Reply {
    request(address, &format!("POST {path}"), "Host: localhost\r\nX-Terrace-Request: 1\r\n").await
}

/// Parses Prometheus' text format into samples by name and labels; checks each line.
fn samples(text: &str) -> BTreeMap<String, f64> {
    let mut samples = BTreeMap::new();
    let (mut kinds, mut current) = (BTreeMap::new(), String::new());
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, text) = help.split_once(' ').expect("a help");
            assert!(!kinds.contains_key(name) && text.ends_with('.'), "{line}");
            current = name.to_owned();
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').expect("a kind");
            assert!(name == current && ["counter", "gauge", "histogram"].contains(&kind), "{line}");
            assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
            kinds.insert(name.to_owned(), kind.to_owned());
        } else {
            let (sample, value) = line.rsplit_once(' ').expect("a sample");
            let name = sample.split('{').next().unwrap_or_default();
            let suffix = name.strip_prefix(current.as_str()).expect("of the metric");
            let is_histogram = kinds[&current] == "histogram";
            assert_eq!(is_histogram, ["_bucket", "_sum", "_count"].contains(&suffix), "{line}");
            let known = samples.insert(sample.to_owned(), value.parse().expect("a number"));
            assert_eq!(known, None, "twice: {line}");
        }
    }
    samples
}

/// Checks metrics with Prometheus' own tool, if it is installed. Returns its output.
fn promtool(text: &str) -> Option<String> {
    let child = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = needs::or_skip("promtool", child.map_err(|error| error.to_string()))?;
    child.stdin.take().expect("piped").write_all(text.as_bytes()).expect("written");
    let output = child.wait_with_output().expect("it ends");
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(output.status.success(), "{said}");
    Some(said)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metrics_are_those_of_the_engine() {
    with_server(|Places { sql, http }| async move {
        let client = connect(sql).await;
        client.batch_execute(TENANT).await.expect("made");
        client.batch_execute("SET terrace.tenant = 't'").await.expect("set");
        client.batch_execute("CREATE TABLE w AS SELECT 1 AS a").await.expect("made");
        for _ in 0..3 {
            client.query("SELECT a FROM w", &[]).await.expect("rows");
        }
        client.query("SELECT * FROM nothing", &[]).await.expect_err("there is no such table");
        let first = get(http, "/metrics").await;
        assert_eq!(first.headers["content-type"], "text/plain; version=0.0.4; charset=utf-8");
        let before = samples(&first.body);
        assert_eq!(before["terrace_connections"], 1.0);
        assert_eq!(before["terrace_healthy"], 1.0);
        assert_eq!(before["terrace_errors_total{sqlstate=\"42P01\"}"], 1.0);
        assert_eq!(before["terrace_budget_bytes"], 67_108_864.0);
        assert!(before["terrace_tier_bytes{tier=\"dram\",kind=\"memory\"}"] > 0.0);
        let count = "terrace_query_duration_seconds_count{tenant=\"t\"}";
        let within = "terrace_query_duration_seconds_bucket{tenant=\"t\",le=\"+Inf\"}";
        assert!(before[count] >= 4.0 && before[within] == before[count], "{first:?}");
        let penalty = before["terrace_tenant_penalty{tenant=\"t\"}"];
        assert_eq!(penalty, 2.0 * before[count], "each query is late");
        let listed =
            "SELECT CAST(finished AS BIGINT), penalty, p95_seconds > 0 FROM terrace.tenants";
        let listed = client.query_one(listed, &[]).await.expect("a row");
        assert_eq!(f64::from(u32::try_from(listed.get::<_, i64>(0)).expect("few")), before[count]);
        assert_eq!((listed.get::<_, f64>(1), listed.get::<_, bool>(2)), (penalty, true));
        let second = get(http, "/metrics").await.body;
        let after = samples(&second);
        assert_eq!(after[count], before[count] + 1.0);
        for (name, value) in before.iter().filter(|(name, _)| name.contains("_total")) {
            assert!(after[name] >= *value, "{name} has fallen");
        }
        let said = tokio::task::spawn_blocking(move || promtool(&second)).await.expect("checked");
        assert_eq!(said.unwrap_or_default(), "", "a complaint");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn health_ends_with_the_store() {
    let blocks = Arc::new(FaultyBlocks::new(Arc::new(MemoryBlocks::new(STORE_BYTES)), 1));
    let device = Arc::clone(&blocks);
    let engine = with_server_over(device, |Places { sql, http }| async move {
        let well = request(http, "GET /healthz", "").await;
        assert_eq!((well.status, well.body.as_str()), (200, "{\"status\":\"ok\"}"));
        let client = connect(sql).await;
        client.batch_execute("CREATE TABLE w AS SELECT 1 AS a").await.expect("made");
        blocks.inject(Target::Write, When::Always, Fault::Eio);
        let failed = client.batch_execute("CREATE TABLE x AS SELECT 1 AS a").await;
        assert_eq!(failed.expect_err("no device").code(), Some(&SqlState::IO_ERROR));
        let ill = get(http, "/healthz").await;
        assert_eq!(ill.status, 503);
        let (status, reason) = (&ill.json()["status"], &ill.json()["reason"]);
        assert_eq!(status, "failed");
        assert!(reason.as_str().is_some_and(|text| text.contains("os error 5")), "{reason}");
        assert_eq!(samples(&get(http, "/metrics").await.body)["terrace_healthy"], 0.0);
        assert_eq!(client.query("SELECT a FROM w", &[]).await.expect("it reads").len(), 1);
    })
    .await;
    engine.close().expect_err("the store has failed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_of_others_are_refused() {
    let open = HttpListener::tcp(SocketAddr::from(([0, 0, 0, 0], 0))).await;
    let text = open.expect_err("others reach it").to_string();
    assert!(text.contains("no encryption") && text.contains("127.0.0.1"), "{text}");
    with_server(|Places { http, .. }| async move {
        for host in ["", "Host: example.com\r\n", "Host: localhost\r\nHost: localhost\r\n"] {
            for path in ["/", "/metrics", "/events", "/queries/1/cancel"] {
                let reply = request(http, &format!("GET {path}"), host).await;
                assert_eq!(reply.status, 421, "{path} of {host:?}");
            }
        }
        let own = format!("Host: {http}\r\n");
        let header = "X-Terrace-Request: 1\r\n";
        let cancel = "POST /queries/4711/cancel";
        for (line, headers, status) in [
            (cancel, own.clone(), 403),
            (cancel, format!("{own}{header}Origin: http://example.com\r\n"), 403),
            (cancel, format!("{own}{header}Origin: null\r\n"), 403),
            (cancel, format!("{own}{header}Origin: http://{http}\r\n"), 404),
            (cancel, format!("{own}{header}"), 404),
            (cancel, format!("{own}{header}Content-Length: 1000000000000\r\n"), 413),
            (cancel, format!("{own}{header}Transfer-Encoding: chunked\r\n"), 413),
            ("GET /queries/4711/cancel", own.clone(), 405),
            ("OPTIONS /queries/4711/cancel", own.clone(), 405),
            ("POST /queries/x/cancel", format!("{own}{header}"), 404),
            ("POST /metrics", format!("{own}{header}"), 405),
            ("DELETE /", own.clone(), 405),
            ("GET /nothing", own.clone(), 404),
            ("GET /../Cargo.toml", own.clone(), 404),
            ("HEAD /metrics", own.clone(), 200),
        ] {
            let reply = request(http, line, &headers).await;
            assert_eq!(reply.status, status, "{line} {headers}: {reply:?}");
            assert!(!reply.headers.contains_key("access-control-allow-origin"), "{reply:?}");
        }
        let page = get(http, "/").await;
        assert!(page.body.contains("<title>Terrace</title>"));
        let policy = &page.headers["content-security-policy"];
        assert!(policy.starts_with("default-src 'self'; "), "{policy}");
        // Every file that the page names is served, and nothing else is needed.
        let named = page
            .body
            .split(['"', '\''])
            .filter(|it| it.ends_with("js") || it.ends_with("css") || it.ends_with("svg"));
        for path in named {
            assert_eq!(get(http, path).await.status, 200, "{path}");
        }
        assert!(!page.body.contains("style=") && !page.body.contains("onclick"));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn floods_and_slow_clients_are_bounded() {
    with_server(|Places { http, .. }| async move {
        let large = format!("Host: localhost\r\nX: {}\r\n", "x".repeat(100_000));
        assert_eq!(request(http, "GET /metrics", &large).await.status, 431);
        let many = format!("Host: localhost\r\n{}", "X: y\r\n".repeat(100));
        assert_eq!(request(http, "GET /metrics", &many).await.status, 431);
        let line = format!("GET /{}", "x".repeat(100_000));
        let long = request(http, &line, "Host: localhost\r\n").await.status;
        assert!([414, 431].contains(&long), "{long}");
        let none = send(http, b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03").await;
        assert!(none.is_empty() || none.contains(" 400 "), "{none}");

        // As many clients as possible send half of a head, and then a byte at a time.
        let start = Instant::now();
        let mut slow = Vec::new();
        for _ in 0..64 {
            let mut stream = TcpStream::connect(http).await.expect("connected");
            stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: loc").await.expect("sent");
            slow.push(stream);
        }
        let full = |text: &str| text.contains(" 503 ");
        while !full(&send(http, b"GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n").await) {
            assert!(start.elapsed() < Duration::from_secs(5), "there is a place for more");
        }
        while full(&send(http, b"GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n").await) {
            assert!(start.elapsed() < SOON, "slow clients keep their places");
            for stream in &mut slow {
                let _closed = stream.write_all(b"a").await;
            }
            sleep(Duration::from_millis(200)).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_are_answered_while_queries_keep_all_threads_busy() {
    with_server(|Places { http, .. }| async move {
        let busy = Duration::from_secs(4);
        let tasks: Vec<_> =
            (0..2).map(|_| tokio::spawn(async move { std::thread::sleep(busy) })).collect();
        sleep(Duration::from_millis(200)).await;
        let start = Instant::now();
        let mut stream = std::net::TcpStream::connect(http).expect("connected");
        stream
            .write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            .expect("sent");
        let mut answer = String::new();
        std::io::Read::read_to_string(&mut stream, &mut answer).expect("answered");
        assert_eq!(reply(&answer).status, 200);
        assert!(start.elapsed() < busy / 2, "{:?}", start.elapsed());
        for task in tasks {
            task.await.expect("it ends");
        }
    })
    .await;
}

/// A stream of server-sent events.
struct Events(BufReader<TcpStream>);

impl Events {
    async fn of(address: SocketAddr) -> Self {
        let mut stream = TcpStream::connect(address).await.expect("connected");
        stream.write_all(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n").await.expect("sent");
        Self(BufReader::new(stream))
    }

    async fn line(&mut self) -> String {
        let mut line = String::new();
        timeout(SOON, self.0.read_line(&mut line)).await.expect("soon").expect("a line");
        line
    }

    /// Returns the next event: its name and its data.
    async fn next(&mut self) -> (String, Value) {
        let mut name = String::new();
        loop {
            let line = self.line().await;
            assert!(!line.is_empty(), "the stream has ended");
            if let Some(it) = line.strip_prefix("event: ") {
                it.trim_end().clone_into(&mut name);
            }
            if let Some(data) = line.strip_prefix("data: ") {
                return (name, serde_json::from_str(data).expect("JSON"));
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_begins_with_the_history() {
    with_server(|Places { http, .. }| async move {
        sleep(Duration::from_millis(2500)).await;
        let mut events = Events::of(http).await;
        let (name, data) = events.next().await;
        assert_eq!(name, "history");
        let samples = data["samples"].as_array().expect("samples");
        assert!(samples.len() >= 3, "those of two seconds: {data}");
        let times: Vec<u64> = samples.iter().filter_map(|it| it["at"].as_u64()).collect();
        assert!(times.len() == samples.len() && times.is_sorted(), "{times:?}");
        assert_eq!(data["state"]["tiers"][0]["name"], "dram");
        assert_eq!(data["state"]["budget"], DRAM);
        let (name, data) = events.next().await;
        assert_eq!(name, "state");
        assert!(data["sample"]["at"].as_u64() > times.last().copied(), "{data}");
        let mut others = Vec::new();
        for _ in 1..16 {
            let mut other = Events::of(http).await;
            assert_eq!(other.next().await.0, "history");
            others.push(other);
        }
        assert_eq!(get(http, "/events").await.status, 503);
        drop(others);
        let start = Instant::now();
        while Events::of(http).await.line().await.contains("503") {
            assert!(start.elapsed() < SOON, "clients that have left keep their places");
            sleep(Duration::from_millis(100)).await;
        }
    })
    .await;
}

/// A browser shows the state of the engine, and the page's buttons work.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_browser_shows_queries_and_cancels_one() {
    let started = tokio::task::spawn_blocking(Browser::start).await.expect("started");
    let Some(browser) = needs::or_skip("chromium", started) else { return };
    with_server(|Places { sql, http }| async move {
        let client = connect(sql).await;
        client.batch_execute(TENANT).await.expect("made");
        client.batch_execute("SET terrace.tenant = 't'").await.expect("set");
        // Not a constant, which would be answered without running a query.
        client.query("SELECT value FROM generate_series(1, 3)", &[]).await.expect("rows");
        let asked = tokio::spawn(async move { client.simple_query(ENDLESS).await });
        let page = tokio::task::spawn_blocking(move || use_page(browser, http)).await;
        let complaints = page.expect("no panic").expect("the page does as it is told");
        assert_eq!(complaints, Vec::<String>::new());
        let ended = timeout(SOON, asked).await.expect("soon").expect("no panic");
        assert_eq!(ended.expect_err("cancelled").code(), Some(&SqlState::QUERY_CANCELED));
    })
    .await;
}

/// Opens the page, suspends the query and cancels it. Returns the errors that the page reports.
fn use_page(browser: Browser, http: SocketAddr) -> Result<Vec<String>, String> {
    let mut page = browser.open(&format!("http://{http}/"))?;
    page.until("document.querySelector('#health').textContent === 'healthy'")?;
    let code = "document.querySelector('#queries-rows code')";
    page.until(&format!("{code}.textContent === {ENDLESS:?}"))?;
    page.until("document.querySelectorAll('#tier-charts svg path').length > 0")?;
    page.until("document.querySelector('#causes').textContent.includes('Tenant t')")?;
    let click = |text: &str| {
        let buttons = "[...document.querySelectorAll('#queries-rows button')]";
        format!("{buttons}.find((it) => it.textContent === '{text}').click() === undefined")
    };
    page.until(&click("Suspend"))?;
    let state = "document.querySelector('#queries-rows .state').textContent";
    page.until(&format!("{state}.startsWith('suspendedby a user')"))?;
    page.resize(390, 844)?;
    page.until("innerWidth === 390 && document.documentElement.scrollWidth <= 390")?;
    page.until(&click("Cancel"))?;
    page.until("document.querySelectorAll('#queries-rows tr').length === 0")?;
    Ok(page.complaints())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn buttons_suspend_resume_and_cancel() {
    with_server(|Places { sql, http }| async move {
        let (client, watcher) = (connect(sql).await, connect(sql).await);
        let asked = tokio::spawn(async move { client.simple_query(ENDLESS).await });
        let mut events = Events::of(http).await;
        let start = Instant::now();
        let id = loop {
            let (_, mut data) = events.next().await;
            if data["state"].is_object() {
                data = data["state"].take();
            }
            if let Some(query) = data["queries"].get(0) {
                assert_eq!(query["statement"], ENDLESS);
                break query["id"].as_u64().expect("a number");
            }
            assert!(start.elapsed() < SOON, "it is not shown");
        };
        let text = format!("SELECT state, wait_reason FROM terrace.queries WHERE id = {id}");
        let state = || async {
            let row = watcher.query_one(&text, &[]).await.expect("it runs");
            (row.get::<_, String>(0), row.get::<_, Option<String>>(1))
        };
        let suspended = post(http, &format!("/queries/{id}/suspend")).await;
        assert_eq!((suspended.status, &suspended.json()["state"]), (200, &"suspended".into()));
        assert_eq!(state().await, ("suspended".to_owned(), Some("user".to_owned())));
        let waiting = "terrace_queries_waiting{reason=\"user\"}";
        assert_eq!(samples(&get(http, "/metrics").await.body)[waiting], 1.0);
        let shown = loop {
            let (_, data) = events.next().await;
            if data["queries"][0]["waited"].as_f64().is_some_and(|waited| waited > 1.0) {
                break data["queries"][0]["wait"].clone();
            }
            assert!(start.elapsed() < SOON, "the wait is not shown");
        };
        assert_eq!(shown, "user");
        assert_eq!(post(http, &format!("/queries/{id}/resume")).await.status, 200);
        assert_eq!(state().await.0, "running");
        assert_eq!(post(http, &format!("/queries/{id}/cancel")).await.status, 200);
        let ended = timeout(SOON, asked).await.expect("soon").expect("no panic");
        assert_eq!(ended.expect_err("cancelled").code(), Some(&SqlState::QUERY_CANCELED));
        let metrics = samples(&get(http, "/metrics").await.body);
        assert_eq!(metrics["terrace_errors_total{sqlstate=\"57014\"}"], 1.0);
        let ended = "terrace_queries_ended_total{tenant=\"\",outcome=\"cancelled\"}";
        assert_eq!(metrics[ended], 1.0);
        assert_eq!(post(http, &format!("/queries/{id}/cancel")).await.status, 404);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_with_roles_asks_for_a_superuser() {
    with_server(|Places { sql, http }| async move {
        let client = connect(sql).await;
        let roles = "CREATE ROLE admin SUPERUSER LOGIN PASSWORD 'secret'; \
                     CREATE ROLE ada LOGIN PASSWORD 'pencil'";
        client.batch_execute(roles).await.expect("made");
        let own = format!("Host: {http}\r\n");
        // admin:secret; then admin:wrong, ada:pencil, nosuch:secret and headers that are malformed.
        let right = format!("{own}Authorization: Basic YWRtaW46c2VjcmV0\r\n");
        let wrong = [
            "Basic YWRtaW46d3Jvbmc=",
            "Basic YWRhOnBlbmNpbA==",
            "Basic bm9zdWNoOnNlY3JldA==",
            "Basic !",
            "Bearer YWRtaW46c2VjcmV0",
            "",
        ];
        for path in ["/", "/metrics", "/events"] {
            for login in wrong {
                let headers = format!("{own}Authorization: {login}\r\n");
                let reply = request(http, &format!("GET {path}"), &headers).await;
                assert_eq!(reply.status, 401, "{path} {login}");
            }
        }
        let action = "POST /queries/1/cancel";
        assert_eq!(request(http, action, &own).await.status, 401);
        assert_eq!(request(http, "GET /metrics", &right).await.status, 200);
        assert_eq!(request(http, "GET /healthz", &own).await.status, 200);
    })
    .await;
}
